"""Runs the demo and draws what it printed, when it printed it, as docs/demo.svg.

    .venv/bin/python tools/record_demo.py

Nothing is made up: the picture is the output of one run, each line appears at the moment it did,
and the waits in between are as long as they were, but for those that are longer than two seconds.
The home folder of whoever records it is `~`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

COMMAND = (".venv/bin/redis-operator", "demo")
PICTURE = Path(__file__).parent.parent / "docs" / "demo.svg"
_LONGEST_WAIT = 2.0
_HOLD = 6.0  # the whole text stays before it restarts
_WIDTH = 118
_ROW, _COLUMN, _MARGIN = 18, 7.6, 14


class Line(NamedTuple):
    """A line of output and the second at which it was printed."""

    second: float
    text: str


def listen(command: Sequence[str]) -> list[Line]:
    """Run a command and return what it printed."""
    begun = time.monotonic()
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdout is not None
        for text in process.stdout:
            shown = text.rstrip("\n").replace(str(Path.home()), "~")
            lines.append(Line(time.monotonic() - begun, shown))
            print(text, end="", flush=True)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return lines


def shorten(lines: Iterable[Line]) -> list[Line]:
    """Shorten waits that are too long to watch, and lines that are too wide."""
    shown: list[Line] = []
    cut = last = 0.0
    for second, text in lines:
        cut += max(0.0, second - last - _LONGEST_WAIT)
        last = second
        shown.append(Line(second - cut, text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"))
    return shown


def draw(lines: Sequence[Line], prompt: str) -> str:
    """Return the picture."""
    rows = [Line(0.0, f"$ {prompt}"), *lines]
    whole = rows[-1].second + _HOLD
    width = round(_WIDTH * _COLUMN + 2 * _MARGIN)
    height = len(rows) * _ROW + 2 * _MARGIN
    font = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12.5"'
    box = f'viewBox="0 0 {width} {height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {box} {font} role="img">',
            f"<title>{escape(prompt)}, as it was printed</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#14181f"/>',
            *(_row(number, line, whole) for number, line in enumerate(rows) if line.text.strip()),
            "</svg>\n",
        ]
    )


def _row(number: int, line: Line, whole: float) -> str:
    """One line of text that appears at its moment, repeatedly."""
    share = line.second / whole
    appears = (
        f'<animate attributeName="opacity" values="0;1" keyTimes="0;{share:.4f}" '
        f'calcMode="discrete" dur="{whole:.2f}s" repeatCount="indefinite"/>'
        if share > 0
        else ""
    )
    colour = "#8bd49c" if number == 0 else "#d7dce4"
    place = f'x="{_MARGIN}" y="{_MARGIN + (number + 1) * _ROW - 5}"'
    return f'<text {place} fill="{colour}" xml:space="preserve">{escape(line.text)}{appears}</text>'


def main() -> None:
    """Record one run."""
    lines = shorten(listen([*COMMAND, *sys.argv[1:]]))
    PICTURE.write_text(draw(lines, "make demo"))


if __name__ == "__main__":
    main()
