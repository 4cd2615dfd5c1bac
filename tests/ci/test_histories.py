"""What a run draws of the possible histories: some by its seed, and all when all are asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.histories import ALL, draw_some

TESTS = Path(__file__).parents[1]


@pytest.mark.skipif(ALL, reason="everything is played")
def test_what_is_drawn_is_in_order_and_the_same_for_the_same_name() -> None:
    found = draw_some(range(100), 5, name="one")
    assert len(found) == 5
    assert found == sorted(set(found))
    assert found == draw_some(range(100), 5, name="one")
    assert found != draw_some(range(100), 5, name="another")


def test_no_more_is_drawn_than_there_is() -> None:
    assert draw_some("ab", 2, name="few") == ["a", "b"]
    assert draw_some("ab", 9, name="few") == ["a", "b"]


def test_everything_is_played_when_all_is_asked_for() -> None:
    program = "from support.histories import draw_some; print(draw_some('abc', 1, name='x'))"
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={"HISTORIES": "all", "SEED": "1", "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "['a', 'b', 'c']"
