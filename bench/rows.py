"""One measured comparison, and how a list of them is shown and kept.

A figure is the median of its runs; the smallest and the largest stand beside it. An aim that
compares two sides is met by the medians; `no_worse` asks for more: even the worse end of what
the runs leave open must lie within the margin.
"""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

__all__ = [
    "Row",
    "at_least",
    "at_most",
    "better_if_less",
    "better_if_more",
    "no_worse",
    "show",
    "stated",
    "write",
]

_RESAMPLES = 4000
_MARGIN = 1.10

Figures = float | Sequence[float]


@dataclass(frozen=True, slots=True)
class Row:
    """This project against a peer. `ratio` is how many times better it is; `aim` the least
    wanted."""

    name: str
    ours: float
    peer: float | None
    unit: str
    ratio: float | None
    aim: str
    met: bool | None
    spread: tuple[float, float]
    peer_spread: tuple[float, float] | None = None
    runs: int = 1
    part: str = ""
    commit: str = ""
    kernel: str = ""
    load: float = 0.0


class _Side:
    """The runs of one side."""

    def __init__(self, figures: Figures) -> None:
        self.runs = [float(f) for f in figures] if isinstance(figures, Sequence) else [figures]
        self.median = statistics.median(self.runs)
        self.spread = (min(self.runs), max(self.runs))


def better_if_less(name: str, ours: Figures, peer: Figures, unit: str, *, aim: float) -> Row:
    """Compare costs (seconds, bytes): the ratio is peer / this project."""
    one, other = _Side(ours), _Side(peer)
    ratio = other.median / one.median if one.median else float("inf")
    return _compared(name, one, other, unit, ratio, f">= {aim:g}x", met=ratio >= aim)


def better_if_more(name: str, ours: Figures, peer: Figures, unit: str, *, aim: float) -> Row:
    """Compare rates: the ratio is this project / peer."""
    one, other = _Side(ours), _Side(peer)
    ratio = one.median / other.median if other.median else float("inf")
    return _compared(name, one, other, unit, ratio, f">= {aim:g}x", met=ratio >= aim)


def no_worse(
    name: str, ours: Sequence[float], peer: Sequence[float], unit: str, *, margin: float = _MARGIN
) -> Row:
    """Compare costs that must not be larger than the peer's, by more than a margin.

    Met when the upper end of the 95 % interval of the ratio of medians (to the peer's, by
    resampling both sides) is within the margin. Few or scattered runs make the interval wide:
    what they leave open counts against us.
    """
    one, other = _Side(ours), _Side(peer)
    upper = _upper_bound(one.runs, other.runs)
    aim = f"ratio <= {margin:g} (95 %: {upper:.2f})"
    return _compared(name, one, other, unit, other.median / one.median, aim, met=upper <= margin)


def _upper_bound(ours: Sequence[float], peer: Sequence[float]) -> float:
    chance = random.Random(len(ours) * 1000 + len(peer))  # the same runs give the same answer
    ratios = sorted(
        statistics.median(chance.choices(ours, k=len(ours)))
        / statistics.median(chance.choices(peer, k=len(peer)))
        for _ in range(_RESAMPLES)
    )
    return ratios[int(_RESAMPLES * 0.975)]


def at_most(name: str, ours: Figures, unit: str, *, limit: float) -> Row:
    """State a cost that has a limit and no peer."""
    one = _Side(ours)
    return _alone(name, one, unit, f"<= {limit:g} {unit}", met=one.median <= limit)


def at_least(name: str, ours: Figures, unit: str, *, floor: float) -> Row:
    """State a rate that has a floor and no peer."""
    one = _Side(ours)
    return _alone(name, one, unit, f">= {floor:g} {unit}", met=one.median >= floor)


def stated(name: str, ours: Figures, peer: Figures | None, unit: str) -> Row:
    """State a figure that has no aim."""
    one = _Side(ours)
    if peer is None:
        return _alone(name, one, unit, "stated", met=None)
    other = _Side(peer)
    ratio = other.median / one.median if one.median else None
    return _compared(name, one, other, unit, ratio, "stated", met=None)


def _alone(name: str, one: _Side, unit: str, aim: str, *, met: bool | None) -> Row:
    return Row(name, one.median, None, unit, None, aim, met, one.spread, runs=len(one.runs))


def _compared(
    name: str,
    one: _Side,
    other: _Side,
    unit: str,
    ratio: float | None,
    aim: str,
    *,
    met: bool | None,
) -> Row:
    row = Row(name, one.median, other.median, unit, ratio, aim, met, one.spread, other.spread)
    return replace(row, runs=min(len(one.runs), len(other.runs)))


def show(rows: Sequence[Row]) -> str:
    """Return the rows as a table for people."""
    head = ("name", "ours", "[min, max]", "peer", "[min, max]", "unit", "runs", "ratio", "aim")
    table = [(*head, "met"), *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    )


def _cells(row: Row) -> tuple[str, ...]:
    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:,.4g}"

    def spread(ends: tuple[float, float] | None) -> str:
        wide = ends is not None and ends[0] != ends[1]
        return f"[{number(ends[0])}, {number(ends[1])}]" if wide and ends is not None else "-"

    met = {True: "yes", False: "NO", None: "-"}[row.met]
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}x"
    return (
        *(row.name, number(row.ours), spread(row.spread), number(row.peer)),
        *(spread(row.peer_spread), row.unit, str(row.runs), ratio, row.aim, met),
    )


def write(rows: Sequence[Row], path: Path) -> None:
    """Keep the rows as JSON; rows of parts that were not measured now stay as they were."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = {row.part for row in rows}
    try:
        before = [row for row in json.loads(path.read_text()) if row.get("part") not in parts]
    except (OSError, ValueError):
        before = []
    kept = [*before, *(asdict(row) for row in rows)]
    path.write_text(json.dumps(kept, indent=1) + "\n")
