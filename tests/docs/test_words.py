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
    r"\bis no (primary|replica|version|engine|number)\b": "is not a",
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
