"""One measured comparison, and how a list of them is shown and kept."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = [
    "Row",
    "at_least",
    "at_most",
    "better_if_less",
    "better_if_more",
    "no_longer",
    "show",
    "stated",
    "write",
]

_RARE = 1.645  # standard deviations: once in twenty times by chance alone


@dataclass(frozen=True, slots=True)
class Row:
    """Ours against the peer's. `ratio` is how many times better ours is; `aim` the least wanted."""

    name: str
    ours: float
    peer: float | None
    unit: str
    ratio: float | None
    aim: str
    met: bool | None


def better_if_less(name: str, ours: float, peer: float, unit: str, *, aim: float) -> Row:
    """Compare costs (seconds, bytes): the ratio is peer / ours."""
    ratio = peer / ours if ours else float("inf")
    return Row(name, ours, peer, unit, ratio, f">= {aim:g}x", ratio >= aim)


def no_longer(name: str, ours: Sequence[float], peer: Sequence[float], unit: str) -> Row:
    """Compare the medians of waits that chance makes short or long, on both sides alike.

    Missed is the aim when ours are longer, and by more than chance explains.
    """
    one, other = statistics.median(ours), statistics.median(peer)
    met = one <= other or _more_by_rank(ours, peer) < _RARE
    return Row(name, one, other, unit, other / one, ">= 1x but for chance", met)


def _more_by_rank(ours: Sequence[float], peer: Sequence[float]) -> float:
    """How many standard deviations more pairs have ours as the greater one than would by chance."""
    pairs = len(ours) * len(peer)
    wins = sum((one > other) + (one == other) / 2 for one in ours for other in peer)
    deviation = math.sqrt(pairs * (len(ours) + len(peer) + 1) / 12)
    return (wins - pairs / 2) / deviation


def better_if_more(name: str, ours: float, peer: float, unit: str, *, aim: float) -> Row:
    """Compare rates: the ratio is ours / peer."""
    ratio = ours / peer if peer else float("inf")
    return Row(name, ours, peer, unit, ratio, f">= {aim:g}x", ratio >= aim)


def at_most(name: str, ours: float, unit: str, *, limit: float) -> Row:
    """State a cost that has a limit and no peer."""
    return Row(name, ours, None, unit, None, f"<= {limit:g} {unit}", ours <= limit)


def at_least(name: str, ours: float, unit: str, *, floor: float) -> Row:
    """State a rate that has a floor and no peer."""
    return Row(name, ours, None, unit, None, f">= {floor:g} {unit}", ours >= floor)


def stated(name: str, ours: float, peer: float | None, unit: str) -> Row:
    """State a figure nobody set an aim for."""
    return Row(name, ours, peer, unit, peer / ours if peer and ours else None, "stated", None)


def show(rows: Sequence[Row]) -> str:
    """Return the rows as a table for people."""
    head = ("name", "ours", "peer", "unit", "ratio", "aim", "met")
    table = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    )


def _cells(row: Row) -> tuple[str, ...]:
    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:,.4g}"

    met = {True: "yes", False: "NO", None: "-"}[row.met]
    ratio = "-" if row.ratio is None else f"{row.ratio:.1f}x"
    return row.name, number(row.ours), number(row.peer), row.unit, ratio, row.aim, met


def write(rows: Sequence[Row], path: Path) -> None:
    """Keep the rows as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
