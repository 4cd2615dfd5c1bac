"""Messages of the product use words that people search for: docs/glossary.md."""

from __future__ import annotations

import ast
import io
import re
import tokenize
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
            "connect",
            "failover",
            "install",
            "modes",
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
            "bench",
            "glossary",
            "invariants",
            "newcomers",
            "decisions/*",
            "reference/*",
        )
    ),
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "docs/how-to/*.md",
    "docs/runbooks/*.md",
    "docs/kubecontroller/*.md",
    "docs/kubelocal/*.md",
    "src/kube*/README.md",
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


# Docstrings and comments of the packages and of their tools: what they may not say, and the usual
# word instead.
_IN_EXPLANATIONS = {
    **_IN_PAGES,
    r"\b(told|tells?|telling)\b": "report, say, send, observe",
    r"\beverybody\b": "every server, all",
    r"\b(a|one|next|every|each|last|this|many|another|first|same) looks?\b": "observation",
    r"\blook(s|ed|ing)? (again|once)\b": "observe again",
    r"\bours\b": "of this database, its own",
    r"\b(at|comes?|came|brings?|brought) home\b": "on, or to, the owner of the slot",
    r"\bbooks\b": "view, record",
    r"\b(let|lets|left) be\b": "does not count, is left alone",
    r"\b(ails|cures?)\b": "problem; fix",
    r"\bat rest\b": "settled",
    r"\b(servers|those|one) elsewhere\b": "external servers",
    r"\bof late\b": "recent",
    r"\blets? go of\b": "drop, release",
    r"\brides? along\b": "is part of",
    r"\bhears? of\b|\bheard of\b": "learn, know",
    r"(^|[.;:] )Who (?!owns|issues|may|decides)": "a server that, a node that",
    r"\bwhom\b": "the server that",
    r"(?<![Tt]here )\b(is|are) no (news|alarm|failure|reason)\b": "is not a",
    r"\blooks? it up\b|\blooks? itself\b": "find, check",
    r"\bcame to nothing\b": "failed",
    r"\bserves? on\b": "keep serving",
    r"\b(said|told|asked) otherwise\b": "renamed, other",
    r"\bas if nothing had been\b": "as before",
    r"\bwhose word\b|'s word for it\b": "claim",
    r"\bthe door\b": "the entry point; begin with",
    r"\bwhoever (asks?|comes?|installs?|wants?|knows?)\b": "a client that, a person who",
}
# The same for the packages about Kubernetes, and idioms that were found there.
_IN_KUBERNETES = {
    **_IN_EXPLANATIONS,
    r"\b[Ww]hoever\b|\b[Ww]homever\b": "a client that, the caller",
    r"\b(sets?|puts?|left) aside\b": "keep apart, rename, omit",
    r"\blets? go\b": "release",
    r"\bmade good\b|\bmakes? good\b": "restore",
    r"\b(says?|said) goodbye\b": "close",
    r"\bwrites? down\b|\bwritten down\b": "record",
    r"\bgiv(e|es|en) back\b": "release, return",
    r"\bputs? back\b": "recreate",
    r"\b(living|dying) (one|ones|owner|owners|namespace|namespaces|set)\b": "active, terminating",
    r"\btakes? note\b|\btook note\b": "record",
    r"\bdraws? chance\b|(^|\W)[Cc]hance\b": "randomness",
    r"\brooms?\b": "package, space",
    r"\bof one\'s own\b|\bof our own\b": "its own, custom",
    r"\bsay why not\b|\bin words why\b": "return why",
    r"(?<![Tt]here )\b(is|are) no "
    r"(event|list|object|record|mapping|member|pair|container|error|write|request|review|task|watch|"
    r"pointer|field|CEL|JSON|PEM|proof)\b": "is not a",
}
_EXPLAINED = {
    "src/redis_operator": _IN_EXPLANATIONS,
    "dev": _IN_EXPLANATIONS,
    "bench": _IN_EXPLANATIONS,
    "tools": _IN_EXPLANATIONS,
    "examples": _IN_EXPLANATIONS,
    "src/kubecontroller": _IN_KUBERNETES,
    "src/kubelocal": _IN_KUBERNETES,
}


def _explanations(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of docstrings, of strings that document a constant, and of comments."""
    text = path.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield from enumerate(str(node.value.value).splitlines(), node.lineno)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.removeprefix("# ")


def test_docstrings_and_comments_have_no_private_idioms() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]!r}: say {usual!r}"
        for folder, refused in _EXPLAINED.items()
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number, line in _explanations(path)
        for words in (re.sub(r"`[^`]*`", "", line),)
        for idiom, usual in refused.items()
        if re.search(idiom, words)
    ]
    assert not found, "\n".join(found)
