"""Columns of tables, and spans of time as people read them."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from kubelocal.apiserver.storage.entries import Object

__all__ = ["Column", "age", "duration"]


class Column(Struct, frozen=True):
    """One column of a table; priority above zero shows only in wide output."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""

    def definition(self) -> Object:
        """Return the column in the form of a Table."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}
_SPANS: tuple[tuple[str, str, int, int | None], ...] = (
    # unit, the next smaller one, below how many that one is shown too, and where a span is too long
    ("s", "s", 0, 120),
    ("m", "s", 10, 180),
    ("h", "m", 8, 48),
    ("d", "h", 8, 730),
    ("y", "d", 8, None),
)


def duration(seconds: float) -> str:
    """Return a span as people read it: `45s`, `3m5s`, `4d`."""
    total = int(seconds)
    if total < 0:
        return "<invalid>" if total < -1 else "0s"
    for size, smaller, exact, rough in _SPANS:
        units = total // _SECONDS[size]
        if rough is not None and units >= rough:
            continue
        rest = total % _SECONDS[size] // _SECONDS[smaller] if units < exact else 0
        return f"{units}{size}{rest}{smaller}" if rest else f"{units}{size}"
    raise AssertionError("the last unit has no end")


def age(stamp: str | None, now: datetime) -> str:
    """Return how long ago an instant was."""
    if not stamp:
        return "<unknown>"
    try:
        return duration((now - datetime.fromisoformat(stamp)).total_seconds())
    except ValueError:
        return "<invalid>"
