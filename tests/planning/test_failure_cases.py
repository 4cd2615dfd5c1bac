"""Every test that the table of failure cases names exists, and every case has a line."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs" / "failure-cases.md").read_text()
CITED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TABLE)


def test_every_named_test_exists() -> None:
    missing = [
        f"{path}::{name}"
        for path, name in CITED
        if not (ROOT / path).exists() or not re.search(rf"def {name}\(", (ROOT / path).read_text())
    ]
    assert len(CITED) > 60
    assert not missing


def test_a_case_without_a_test_says_why() -> None:
    rows = [line.split("|") for line in TABLE.splitlines() if re.match(r"\| (IN|K|ST|CL)-", line)]
    assert len(rows) > 60
    silent = [row[1].strip() for row in rows if not row[3].strip() and not row[4].strip()]
    assert not silent
