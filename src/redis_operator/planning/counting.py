"""When all keys were last found at home, and whether every server had been asked."""

from __future__ import annotations

from msgspec import Struct

from .clusters import Counted
from .observed import Observed, Seen

__all__ = ["Census", "after_look"]


class Census(Struct, frozen=True):
    """The last count of stray keys that found none; `whole` if no server was silent then."""

    at: float = float("-inf")
    whole: bool = True


def after_look(before: Census, observed: Observed, now: float) -> Census:
    """Return what is known of the last count after one more look.

    A count without a silent server is worth something, so that it is not made over and over while
    that one is away; when all answer again, it is recreated at once. Where no server is there to be
    asked, nothing was counted. I14
    """
    if not observed.seen:
        return before
    answered = len(observed.seen) == len(observed.nodes)
    if all(_is_home(observed, node) for node in observed.seen):
        return Census(now, answered)
    if answered and not before.whole:
        return Census()
    return before


def _is_home(observed: Observed, node: Seen) -> bool:
    """Whether every key of a server was found where its slot is, or is there as well."""
    return isinstance(node.stranded, Counted) and node.stranded.slots <= observed.cluster.shadowed(
        node.id
    )
