"""Messages of the product use words that people search for: docs/glossary.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
# Private idioms, and the usual word instead.
_USUAL = {
    r"\banew\b": "again",
    r"\bnobody\b": "no server, no one",
    r"\bmend(s|ed|ing)?\b": "repair, fix",
    r"\bheirs?\b": "replica, successor",
    r"\btwins?\b": "duplicate",
    r"\bailments?\b": "problem",
    r"\bhousehold\b": "pods",
    r"(?<![Tt]here )\bis no (primary|replica|version|engine|number|name|label|image)\b": "is not a",
    r"\bagain and again\b": "repeatedly",
    r"\btried again\b": "retried",
    r"\bby now\b": "now",
    r"\bunder way\b": "in progress",
    r"\bfor dead\b": "consider dead",
    r"\bgo(es)? on\b": "continue, keep serving",
    r"\blook(s|ed)? (at|after)\b": "observe, check, manage",
    r"\bshut out\b|\blets? in\b": "cannot connect, can connect",
    r"\b(server|Redis) elsewhere\b": "external server",
    r"\blast words\b": "termination message",
    r"\bfor good\b": "permanently, final",
    r"\bdata (live|have)\b": "data is",
    r"\bshall\b": "must",
    r"\b(some|any)body\b": "another client, a person",
    r"\b(stores|and) our kinds\b": "these kinds",
    r"\bof ours\b": "of this database",
    r"\bdoes not answer\b": "does not respond",
    r"\bin the eyes of\b": "according to",
    r"\bmade again\b": "recreated",
}


def _messages(path: Path) -> Iterator[tuple[int, str]]:
    """Strings of more than one word that are not docstrings."""
    tree = ast.parse(path.read_text())
    loose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in loose:
            continue
        if isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def test_messages_have_no_private_idioms() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {text[:80]!r}: say {usual!r}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text in _messages(path)
        for idiom, usual in _USUAL.items()
        # A shell script is code; what it prints stands in quotes after `say`.
        if re.search(idiom, text if "\n" not in text else " ".join(re.findall('say "(.*)"', text)))
    ]
    assert not found, "\n".join(found)


# Pages that users read: the words of messages hold there too, and a few more.
_PAGES = (
    "README.md",
    *(
        f"docs/{name}.md"
        for name in (
            "backup",
            "conditions",
            "failover",
            "install",
            "monitoring",
            "namespaces",
            "point-in-time",
            "recovery",
            "redisfailover",
            "roadmap",
            "security",
            "standalone",
            "tutorial",
            "campaigns",
            "e2e",
        )
    ),
    "docs/how-to/*.md",
    "docs/runbooks/*.md",
)
_IN_PAGES = {
    **_USUAL,
    r"\bof which\b": "two sentences",
    r"\b(is|are|was|were) told\b|\b: told\b": "reported",
    r"\bour kinds\b": "these kinds",
    r"\bdata (are|were)\b": "data is",
    r"\bstands? still\b": "makes no progress, is stalled",
    r"\bfigures of (every|all|the) (server|database|operator)s?\b": "metrics",
}


def test_pages_for_users_have_no_private_idioms() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]!r}: say {usual!r}"
        for pattern in _PAGES
        for path in sorted(ROOT.glob(pattern))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for idiom, usual in _IN_PAGES.items()
        # An anchor that other pages link to keeps its name.
        if re.search(idiom, re.sub(r"`[^`]*`|#[a-z0-9-]+|<a id=.*>", "", line))
    ]
    assert not found, "\n".join(found)


# What is not plain English anywhere: in docs, docstrings, comments and names.
_NOWHERE = r"(?<![a-z])(anew|mended|heirs?|twins?|ailments?|households?|borne|grudges?)(?![a-z])"


def test_docs_docstrings_and_names_have_no_private_idioms() -> None:
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]
    code = [*SOURCE.rglob("*.py"), *ROOT.glob("tests/**/test_*.py")]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]!r}: {line.strip()[:80]!r}"
        for path in sorted({*pages, *code} - {Path(__file__)})
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (match := re.search(_NOWHERE, line, re.IGNORECASE))
    ]
    assert not found, "\n".join(found)
