"""How much each slot weighs, in keys or bytes, and which slots to cut off for a given weight. Pure.

Slots are moved by number so that the end is always the same; weights only choose which ones, so
that shards with as many slots as they shall have also hold as much as they shall.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from .slots import SLOTS, SlotSet

__all__ = ["SlotWeights"]

_TOLERANCE: Final = 0.02  # of the weight that shall move: less is not worth a torn range


class SlotWeights:
    """The weight of every slot that was weighed; the others weigh nothing."""

    __slots__ = ("_sums",)

    def __init__(self, by_slot: Iterable[tuple[int, int]]) -> None:
        weights = [0] * SLOTS
        for slot, weight in by_slot:
            weights[slot] = weight
        self._sums = [0, *accumulate(weights)]

    @property
    def total(self) -> int:
        """What all slots weigh together."""
        return self._sums[SLOTS]

    def of(self, slots: SlotSet) -> int:
        """What these slots weigh together."""
        return sum(self._span(first, last) for first, last in slots.ranges())

    def best_cut(self, owned: SlotSet, usual: SlotSet, *, near: SlotSet, wanted: float) -> SlotSet:
        """As many of the owned slots as in `usual`, of about the wanted weight.

        Whole windows of neighbours only. Of those that are near enough in weight the one that
        tears the fewest ranges is taken, and the usual cut when it is no worse.
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
