"""Every numbered finding has its line in docs/faults.md, and every test named there exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES = [
    [cell.strip() for cell in line.strip().strip("|").split("|", 1)]
    for line in (ROOT / "docs" / "faults.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| fault")
]
FINDINGS = (
    *(f"B{number}" for number in range(1, 47)),
    *(f"runtime H{number}" for number in range(1, 9)),
    *(f"runtime M{number}" for number in range(1, 22)),
    *(f"local {number}" for number in range(1, 11)),
    *(f"local 5.3.{number}" for number in range(1, 9)),
    *("local 5.4", "local 5.5", "local 6"),
    *(f"tests H{number}" for number in range(1, 6)),
    *(f"tests 1.{number}" for number in range(2, 7)),
    *("tests 2", "tests 3", "tests 5"),
)
NAMED = re.compile(r"(tests/[\w/]+\.py)?(?:::(\w+))?")


def numbers(cell: str) -> set[str]:
    """Return the findings that a line is about: `runtime M9, M15` are two of one list."""
    found = set(re.findall(r"\bB\d+\b", cell))
    for word in ("runtime", "local", "tests"):
        if re.match(rf"{word} [HM\d]", cell):
            listed = re.findall(r"\b[HM]\d+\b|(?<=\s)\d+(?:\.\d+)*\b", cell.partition(":")[0])
            found |= {f"{word} {number}" for number in listed}
    return found


@cache
def defined_in(path: str) -> frozenset[str]:
    """Return the tests of a file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def test_every_finding_has_a_line() -> None:
    told: set[str] = set()
    for what, _ in LINES:
        told |= numbers(what)
    assert [finding for finding in FINDINGS if finding not in told] == []


def test_every_line_names_tests_that_exist_or_says_why_there_is_none() -> None:
    wrong: list[str] = []
    for what, shown in LINES:
        file = ""
        if not re.search(r"tests/|none|not yet|redis_testing|config/rbac|bench/", shown):
            wrong.append(f"{what}: neither a test nor a reason")
        for found in NAMED.finditer(shown):
            if not found[0]:
                continue
            file = found[1] or file
            if not file or not (ROOT / file).exists():
                wrong.append(f"{what}: {found[0]} is in no file")
            elif found[2] and found[2] not in defined_in(file):
                wrong.append(f"{what}: {file} has no {found[2]}")
    assert wrong == []
