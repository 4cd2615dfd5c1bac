"""Splits a snapshot by slots and gives each key to the primary that it belongs to.

Strings are written as they are (`SET`), everything else as the bytes that stand in the snapshot
(`RESTORE`), which the engine reads: no value is decoded here. A first walk over the whole snapshot
tells whether all of it can be split; nothing is sent before.

Memory: a few pieces of 1 MiB, two batches for each target, and the largest entry of a snapshot
(`entries.LARGEST` at most) some times over.
Errors: `WorkerError`.
"""

from __future__ import annotations

import asyncio
from binascii import crc_hqx
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import Final

from msgspec import Struct

from redis_operator.redis.resp import encode
from redis_operator.redis.slots import SLOTS, SlotSet, key_slot

from .crc64 import crc64_all
from .entries import Entry, NotSplit, Walk
from .errors import Damaged
from .loader import Keyspace
from .piece import Piece
from .primary import rdb_of
from .replica import Login
from .send import Batch, Sender
from .task import Target

__all__ = ["Given", "Survey", "give", "payloads", "survey"]

_BATCH_KEYS: Final = 2000
_BATCH_BYTES: Final = 1 << 20
_STRING: Final = 0
_COMPRESSED: Final = 0xC3
_FIRST_BYTES: Final = {0x80: 5, 0x81: 9}


class Survey(Struct, frozen=True):
    """What a walk over a snapshot found: keys of each database, and functions as a payload.

    `obstacle`: why it cannot be split; then nothing else is known.
    """

    keys: dict[int, int] = {}
    functions: bytes = b""
    obstacle: str = ""

    @property
    def databases(self) -> list[Keyspace]:
        """The databases that have keys."""
        return [Keyspace(number, keys, 0) for number, keys in self.keys.items()]


class Given(Struct):
    """How many keys were given, and how many of them have no time to live and were its own."""

    keys: int = 0
    lasting: int = 0


async def survey(piece: Piece) -> Survey:
    """Walk over a snapshot from end to end. Raises `Damaged` unless it is what was written."""
    walk, keys, obstacle = Walk(), Counter[int](), ""
    async with aclosing(rdb_of(piece.shelf, piece.part)) as contents:
        try:
            async for content in contents:
                keys.update(entry[5] for entry in walk.feed(content))
            keys.update(entry[5] for entry in walk.finish())
        except NotSplit as error:
            obstacle = str(error)
            async for _ in contents:  # all of it has to be what was written all the same
                pass
    if obstacle:
        return Survey(obstacle=obstacle)
    functions = payloads([walk.functions], walk.version)[0] if walk.functions else b""
    return Survey(dict(keys), functions)


def payloads(contents: list[bytes], version: int) -> list[bytes]:
    """Return contents as `RESTORE` takes them: with the version of the format, and a checksum."""
    ends = version.to_bytes(2, "little")
    whole = [content + ends for content in contents]
    sums = crc64_all(whole)
    return [one + crc.to_bytes(8, "little") for one, crc in zip(whole, sums, strict=True)]


async def give(
    piece: Piece,
    targets: tuple[Target, ...],
    owners: list[int],
    login: Callable[[], Login],
    patience: float,
) -> Given:
    """Give every key of a snapshot to its target. `owners`: of each slot; empty: all to the first.

    Keys of slots that the shard did not own were moving: they are given where the target does not
    have them.
    """
    senders = [Sender(target, login, patience) for target in targets]
    made = _Commands(owners, piece.slots)
    try:
        async with (
            aclosing(rdb_of(piece.shelf, piece.part)) as contents,
            asyncio.TaskGroup() as group,
        ):
            for sender in senders:
                group.create_task(sender.run())
            async for content in contents:
                await _put(made.full(content), senders)
            await _put(made.last(), senders)
            for sender in senders:
                await sender.put(None)
    except ExceptionGroup as group:
        first = group.exceptions[0]
        if isinstance(first, NotSplit):
            raise Damaged(f"{piece.part.object} was changed while it was read: {first}") from first
        raise first from group
    return made.given


async def _put(batches: Iterable[tuple[int, Batch]], senders: list[Sender]) -> None:
    for owner, batch in batches:
        await senders[owner].put(batch)


class _Commands:
    """Makes commands of entries, and batches of commands."""

    def __init__(self, owners: list[int], own: SlotSet | None) -> None:
        self.given = Given()
        self._walk = Walk()
        self._owners = owners or [0] * SLOTS
        self._own = [own is None or slot in own for slot in range(SLOTS)]
        self._batches: dict[tuple[int, int, bool], Batch] = {}

    def full(self, content: bytes) -> list[tuple[int, Batch]]:
        """Take more of the snapshot; return the batches that are large enough to be sent."""
        return self._add(self._walk.feed(content))

    def last(self) -> list[tuple[int, Batch]]:
        """Return what is left at the end."""
        found = self._add(self._walk.finish())
        found += [(place[0], batch) for place, batch in self._batches.items()]
        self._batches.clear()
        return found

    def _add(self, entries: list[Entry]) -> list[tuple[int, Batch]]:
        found: list[tuple[int, Batch]] = []
        buffer, owners, own, others = self._walk.buffer, self._owners, self._own, []
        for entry in entries:
            kind, key, begin, end, expires, database = entry
            slot = crc_hqx(key, 0) % SLOTS if b"{" not in key else key_slot(key)
            if kind == _STRING and own[slot] and buffer[begin] != _COMPRESSED:
                words = ("SET", key, _text(buffer, begin, end))
                command = encode((*words, "PXAT", expires) if expires else words)
                self._append((owners[slot], database, False), command, found)
                self.given.lasting += not expires
            else:
                others.append((entry, slot))
        contents = [bytes((e[0],)) + buffer[e[2] : e[3]] for e, _ in others]
        restored = payloads(contents, self._walk.version)
        for (entry, slot), payload in zip(others, restored, strict=True):
            _, key, _, _, expires, database = entry
            options = ("REPLACE", "ABSTTL") if own[slot] else ("ABSTTL",)
            command = encode(("RESTORE", key, expires, payload, *options))
            self._append((owners[slot], database, not own[slot]), command, found)
            self.given.lasting += own[slot] and not expires
        self.given.keys += len(entries)
        return found

    def _append(
        self, place: tuple[int, int, bool], command: bytes, full: list[tuple[int, Batch]]
    ) -> None:
        batch = self._batches.get(place)
        if batch is None:
            batch = self._batches[place] = Batch(place[1], place[2])
        batch.commands.append(command)
        batch.size += len(command)
        if batch.size > _BATCH_BYTES or len(batch.commands) >= _BATCH_KEYS:
            full.append((place[0], self._batches.pop(place)))


def _text(buffer: bytes, begin: int, end: int) -> bytes:
    """Return a string that is not compressed."""
    first = buffer[begin]
    if first < 0x40:
        return buffer[begin + 1 : end]
    if first < 0x80:
        return buffer[begin + 2 : end]
    if first in _FIRST_BYTES:
        return buffer[begin + _FIRST_BYTES[first] : end]
    return b"%d" % int.from_bytes(buffer[begin + 1 : end], "little", signed=True)
