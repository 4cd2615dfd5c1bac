"""A part for a scratch server, and which of its keys a new database gets. A value."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from msgspec import Struct

from redis_operator.redis.slots import ALL_SLOTS, SlotSet

from .manifest import Manifest, StoredPart
from .store import Shelf

__all__ = ["Piece"]


class Piece(Struct, frozen=True):
    """A snapshot of one shard, and the stream after it where it is of an archive.

    Keys of `slots` are taken from it, all keys where it is None. Of the other slots those of `open`
    were moving: their keys are taken where the shard that owned them does not have them.
    """

    shelf: Shelf
    manifest: Manifest
    part: StoredPart
    slots: SlotSet | None = None
    open: SlotSet = ALL_SLOTS
    stream: Callable[[], AsyncIterator[bytes]] | None = None
    stream_size: int = 0
    offset: int = 0  # of the last byte of the stream, as the archived server counted
    reached: int = 0  # the archived server's clock then, in microseconds; 0: not known
