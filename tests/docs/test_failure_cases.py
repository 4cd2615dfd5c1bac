"""Every failure case of the design has its line, and every test a line names shows it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs" / "failure-cases.md").read_text()

# The cases of the design, by group.
CASES = {
    "IN": (1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26, 27, 28, 29),
    "K": (
        *(1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26),
        *(27, 28, 29, 30, 31, 32, 33),
    ),
    "ST": (1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14),
    "SE": (1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23),
    "CL": (
        *(1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26, 27, 29, 30),
        *(31, 32, 33, 34, 35, 36, 37),
    ),
    "T": (1, 2, 3, 5, 6, 7, 9),
    "X": (1, 2, 3, 5, 6, 7, 9, 10, 11),
    "L": (1, 2),
}
CITED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
SERVERS = re.compile(r"mark\.(e2e|servers)\b")


def rows() -> dict[str, tuple[list[tuple[str, str]], str]]:
    """Return each case with the tests that show it, and what is said of real servers."""
    found: dict[str, tuple[list[tuple[str, str]], str]] = {}
    for line in TABLE.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not re.match(r"(IN|K|ST|SE|CL|T|X|L)-\d\d", cells[0]):
            continue
        assert len(cells) == 4, line
        rest = CITED.sub("", cells[2])
        assert not rest.strip(" ,"), f"{cells[0]}: {rest!r} names no test"
        for case in cells[0].split(", "):
            assert case not in found, f"{case} has two lines"
            found[case] = (CITED.findall(cells[2]), cells[3])
    return found


@cache
def defined_in(path: str) -> dict[str, str]:
    """Return the tests that a file defines, each with its marks and those of the file."""
    text = (ROOT / path).read_text()
    tree = ast.parse(text)
    marks = " ".join(
        ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    )
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        node.name: " ".join([marks, *(ast.unparse(each) for each in node.decorator_list)])
        for node in tree.body
        if isinstance(node, kinds)
    }


def test_every_case_of_the_design_has_one_line() -> None:
    wanted = {f"{group}-{number:02d}" for group, numbers in CASES.items() for number in numbers}
    assert rows().keys() == wanted


def test_every_named_test_exists() -> None:
    cited = [one for tests, _ in rows().values() for one in tests]
    assert len(cited) > 150
    missing = [
        f"{path}::{name}"
        for path, name in cited
        if not (ROOT / path).exists() or name not in defined_in(path)
    ]
    assert not missing


def test_every_line_says_whether_real_servers_show_it_and_if_not_why() -> None:
    for case, (tests, said) in rows().items():
        answer = re.match(r"(yes|no)\b(.*)", said)
        assert answer, f"{case}: {said!r}"
        if answer[1] == "no":
            assert len(answer[2]) > len(": why"), f"{case} does not say why"
            continue
        texts = [defined_in(path)[name] + _parameters(path) for path, name in tests]
        assert any(SERVERS.search(text) for text in texts), f"{case}: no test has real servers"


def _parameters(path: str) -> str:
    """Return how a file runs its tests on several kinds of servers, if it does."""
    text = (ROOT / path).read_text()
    starts = "mark.servers" in text or "redis_testing.servers" in text
    return "mark.servers" if starts else ""


def test_no_named_test_runs_in_the_campaign_only_unless_its_line_says_so() -> None:
    hidden = [
        f"{case}: {path}::{name}"
        for case, (tests, said) in rows().items()
        for path, name in tests
        if "campaign" in defined_in(path)[name] and "campaign" not in said
    ]
    assert not hidden
