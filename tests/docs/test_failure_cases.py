"""Every failure case of the design has its line, and every test a line names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs" / "failure-cases.md").read_text()

# The cases of the design that concern single servers and clusters, by group.
CASES = {
    "IN": (1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25),
    "K": (1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26, 27),
    "ST": (1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14),
    "CL": (
        1,
        2,
        3,
        5,
        6,
        7,
        9,
        10,
        11,
        13,
        14,
        15,
        17,
        18,
        19,
        21,
        22,
        23,
        25,
        26,
        27,
        29,
        30,
        31,
        32,
        36,
    ),
}
# What does not exist here cannot fail: no webhook before pods, no names to resolve, no TLS and no
# standalone servers yet.
ELSEWHERE = {"K-15", "ST-01", "ST-02", "ST-14", "CL-27"}


def rows() -> dict[str, tuple[str, str]]:
    """Return each case with the cells that name its tests and its level."""
    found: dict[str, tuple[str, str]] = {}
    for line in TABLE.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not re.match(r"(IN|K|ST|CL)-\d\d", cells[0]):
            continue
        assert len(cells) == 4, line
        for case in cells[0].split(", "):
            assert case not in found, f"{case} has two lines"
            found[case] = (cells[2], cells[3])
    return found


@cache
def functions_in(path: str) -> frozenset[str]:
    """Return the names of the tests that a file defines."""
    tree = ast.parse((ROOT / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


def test_every_case_of_the_design_has_one_line() -> None:
    wanted = {f"{group}-{number:02d}" for group, numbers in CASES.items() for number in numbers}
    assert rows().keys() == wanted


def test_every_named_test_exists() -> None:
    cited = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TABLE)
    assert len(cited) > 100
    missing = [
        f"{path}::{name}"
        for path, name in cited
        if not (ROOT / path).exists() or name not in functions_in(path)
    ]
    assert not missing


def test_every_case_names_a_test_or_says_why_it_cannot() -> None:
    unnamed = {case for case, (shown, _) in rows().items() if "::" not in shown}
    assert unnamed == ELSEWHERE
    assert all(rows()[case][1] for case in unnamed)


def test_nothing_but_tests_and_words_is_in_the_cells() -> None:
    for case, (shown, _) in rows().items():
        rest = re.sub(r"`tests/[\w/]+\.py::\w+`", "", shown)
        assert not rest.strip(" ,"), f"{case}: {rest!r} names no test"
