"""The weight of each slot, in keys or bytes, and which slots to take for a given weight. Pure.

The number of slots to move is fixed, so that the result is always the same; weights only choose
which ones, so that shards also hold their share of the data.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from .slots import SLOTS, SlotSet

__all__ = ["SlotWeights"]

_TOLERANCE: Final = 0.02  # of the weight to move: less is not worth a fragmented range


class SlotWeights:
    """The weight of every slot that was measured; the others have weight 0."""

    __slots__ = ("_sums",)

    def __init__(self, by_slot: Iterable[tuple[int, int]]) -> None:
        weights = [0] * SLOTS
        for slot, weight in by_slot:
            weights[slot] = weight
        self._sums = [0, *accumulate(weights)]

    @property
    def total(self) -> int:
        """Return the sum of all weights."""
        return self._sums[SLOTS]

    def of(self, slots: SlotSet) -> int:
        """Return the sum of the weights of these slots."""
        return sum(self._span(first, last) for first, last in slots.ranges())

    def best_cut(self, owned: SlotSet, usual: SlotSet, *, near: SlotSet, wanted: float) -> SlotSet:
        """Return as many of the owned slots as in `usual`, of about the wanted weight.

        Only whole windows of neighbours. Of those that are near enough in weight, the one that
        fragments the fewest ranges is taken, and the usual cut when it is not worse.
        """
        count = len(usual)
        candidates = [usual]
        for first, last in owned.ranges():
            starts = range(first, last - count + 2)
            if not starts:
                continue
            closest = min(
                starts, key=lambda start: abs(self._span(start, start + count - 1) - wanted)
            )
            candidates += [
                SlotSet.span(start, start + count - 1) for start in (starts[0], starts[-1], closest)
            ]
        slack = wanted * _TOLERANCE

        def rank(cut: SlotSet) -> tuple[float, int, float]:
            off = abs(self.of(cut) - wanted)
            torn = len((owned - cut).ranges()) + len((near | cut).ranges())
            return (max(0.0, off - slack), torn, off if off > slack else 0.0)

        return min(candidates, key=rank)

    def _span(self, first: int, last: int) -> int:
        return self._sums[last + 1] - self._sums[first]
