"""The recorded demo in the README is what the demo prints."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from record_demo import PICTURE, Line, draw, shorten  # noqa: E402


def test_lines_appear_when_they_were_printed_and_long_waits_are_cut() -> None:
    shown = shorten([Line(0.5, "up"), Line(30.5, "a < b"), Line(31.0, "x" * 300)])
    assert [line.second for line in shown] == [0.5, 2.5, 3.0]
    assert len(shown[2].text) == 118
    picture = draw(shown, "make demo")
    assert "a &lt; b" in picture
    assert re.findall(r'keyTimes="0;([0-9.]+)"', picture) == ["0.0556", "0.2778", "0.3333"]


def test_the_recorded_run_kept_its_promises_and_is_of_no_particular_machine() -> None:
    picture = PICTURE.read_text()
    assert "Every promise was kept." in picture
    assert not re.search(r"/(root|home|tmp|work)/", picture)
