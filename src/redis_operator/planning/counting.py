"""When a count last found no stray keys, and whether it covered every server."""

from __future__ import annotations

from msgspec import Struct

from .clusters import Counted
from .observed import Observed, Seen

__all__ = ["StrayCount", "after_look"]


class StrayCount(Struct, frozen=True):
    """The last count that found no stray keys; `whole` if every server responded then."""

    at: float = float("-inf")
    whole: bool = True


def after_look(before: StrayCount, observed: Observed, now: float) -> StrayCount:
    """Return what is known of the last count after one more observation.

    A count without a silent server still has value, so that it is not repeated all the time while
    that server is away; when all respond again, a new one is made at once. With no reachable server
    there is no count. I14
    """
    if not observed.seen:
        return before
    answered = len(observed.seen) == len(observed.nodes)
    if all(_is_in_place(observed, node) for node in observed.seen):
        return StrayCount(now, answered)
    if answered and not before.whole:
        return StrayCount()
    return before


def _is_in_place(observed: Observed, node: Seen) -> bool:
    """Whether every key of a server is in a slot that it owns, or is with the owner as well."""
    return isinstance(
        node.stranded, Counted
    ) and node.stranded.slots <= observed.cluster.duplicate_strays_of(node.id)
