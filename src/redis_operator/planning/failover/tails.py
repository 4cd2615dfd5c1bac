"""Writes of a primary that another one does not have, judged by histories and offsets. Pure."""

from __future__ import annotations

from ..observed import Seen
from .election import holds

__all__ = ["tail"]


def tail(node: Seen, primary: Seen) -> str:
    """Describe the writes that only this server has; empty: the primary has all of them."""
    if not node.is_primary or not holds(node):
        return ""
    mine, other = node.replication, primary.replication
    common: int | None = None
    if mine.id2 and mine.id2 in (other.id, other.id2):
        common = mine.id2_offset - 1
        if mine.id2 == other.id2:
            common = min(common, other.id2_offset - 1)
    elif mine.id and mine.id == other.id2:
        common = other.id2_offset - 1
    elif mine.id and mine.id == other.id:
        common = other.offset
    if common is None:
        return f"{node.keys} keys of a history of its own"
    lead = mine.offset - common
    return f"{lead} bytes of writes after offset {common}" if lead > 0 else ""
