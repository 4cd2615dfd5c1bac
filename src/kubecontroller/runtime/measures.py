"""Numbers that are cheap to update and are read only when scraped.

The hot paths count in these; `metrics` turns them into Prometheus samples when scraped.
`Buckets.observe` costs a third of a Prometheus histogram.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

__all__ = ["DURATION_BOUNDS", "Buckets"]

DURATION_BOUNDS: Final = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
"""Upper bounds in seconds, as in the work queue metrics of Kubernetes controllers."""


class Buckets:
    """A histogram: how many observations fell into each bucket, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = DURATION_BOUNDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many values were counted."""
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, float]]:
        """Return (upper bound, values up to it) pairs, the last bound being `+Inf`."""
        pairs: list[tuple[str, float]] = []
        seen = 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), list(self.counts), strict=True):
            seen += count
            pairs.append((bound, float(seen)))
        return pairs
