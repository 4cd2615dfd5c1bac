"""Split a snapshot by slots and send each key to the primary that owns it.

Strings are written as they are (`SET`), everything else as the bytes that stand in the snapshot
(`RESTORE`), which the engine reads: no value is decoded here. A first walk over the whole snapshot
shows whether all of it can be split; nothing is sent before.

Memory: data in flight to all targets (16 MiB), as much in the queue, and the largest entry of a
snapshot (`entries.LARGEST` at most) several times.
Errors: `WorkerError`.
"""

from __future__ import annotations

import asyncio
from binascii import crc_hqx
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import Final, TypeAlias

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
from .send import Batch, Room, Sender
from .task import FillTarget

__all__ = ["Given", "Survey", "give", "payloads", "survey"]

_BATCH_BYTES: Final = 1 << 18
_ON_THEIR_WAY: Final = 16 << 20
_STRING: Final = 0
_COMPRESSED: Final = 0xC3
_FIRST_BYTES: Final = {0x80: 5, 0x81: 9}
_OFTEN: Final = 4096
_UNTIL: Final = b"\r\n$4\r\nPXAT\r\n$%d\r\n%d\r\n"
_Place: TypeAlias = tuple[int, int, bool]
"""A target, a database, and whether keys that are there already are left as they are."""


class Survey(Struct, frozen=True):
    """The result of iterating over a snapshot: keys of each database, and functions as a payload.

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
    """How many keys were sent, and how many of them have no time to live and were its own."""

    keys: int = 0
    lasting: int = 0


async def survey(piece: Piece) -> Survey:
    """Walk over a snapshot from end to end. Raises `Damaged` unless it is what was written."""
    walk, obstacle = Walk(), ""
    async with aclosing(rdb_of(piece.shelf, piece.part)) as contents:
        try:
            async for content in contents:
                walk.count(content)
            walk.finish()
        except NotSplit as error:
            obstacle = str(error)
            async for _ in contents:  # all of it has to be what was written all the same
                pass
    keys = walk.keys
    if not obstacle and walk.announced != keys:
        obstacle = f"it has other numbers of keys than it announces: {keys}, {walk.announced}"
    if obstacle:
        return Survey(obstacle=obstacle)
    functions = payloads([walk.functions], walk.version)[0] if walk.functions else b""
    return Survey(keys, functions)


def payloads(contents: list[bytes], version: int) -> list[bytes]:
    """Return contents as `RESTORE` takes them: with the version of the format, and a checksum."""
    ends = version.to_bytes(2, "little")
    whole = [content + ends for content in contents]
    sums = crc64_all(whole)
    return [one + crc.to_bytes(8, "little") for one, crc in zip(whole, sums, strict=True)]


async def give(
    piece: Piece,
    targets: tuple[FillTarget, ...],
    owners: list[int],
    login: Callable[[], Login],
    patience: float,
) -> Given:
    """Give every key of a snapshot to its target. `owners`: of each slot; empty: all to the first.

    Keys of slots that the shard did not own were moving: they are given where the target does not
    have them.
    """
    room = Room(_ON_THEIR_WAY)
    senders = [Sender(target, login, patience, room) for target in targets]
    made = _Commands(owners, piece.slots, _ON_THEIR_WAY // len(targets))
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


class _WithLength(dict[int, bytes]):
    """Bytes of a command with a length in them, by that length; those of short ones are kept."""

    def __init__(self, text: bytes) -> None:
        super().__init__()
        self._text = text

    def __missing__(self, length: int) -> bytes:
        made = self._text % length
        if length < _OFTEN:
            self[length] = made
        return made


class _Commands:
    """Makes commands of entries, and batches of commands."""

    def __init__(self, owners: list[int], own: SlotSet | None, most: int) -> None:
        self._least = min(_BATCH_BYTES, most)
        self.given = Given()
        self._walk = Walk()
        self._owners = owners or [0] * SLOTS
        self._targets = range(max(self._owners) + 1)
        self._own = [own is None or slot in own for slot in range(SLOTS)]
        self._set = _WithLength(b"*3\r\n$3\r\nSET\r\n$%d\r\n")
        self._set_until = _WithLength(b"*5\r\n$3\r\nSET\r\n$%d\r\n")
        self._size = _WithLength(b"\r\n$%d\r\n")
        self._batches: dict[_Place, Batch] = {}

    def full(self, content: bytes) -> list[tuple[int, Batch]]:
        """Take more of the snapshot; return the batches that are large enough to be sent."""
        self._add(self._walk.feed(content))
        return self._taken(self._least)

    def last(self) -> list[tuple[int, Batch]]:
        """Return what is left at the end."""
        self._add(self._walk.finish())
        return self._taken(0)

    def _add(self, entries: list[Entry]) -> None:
        made: defaultdict[_Place, list[bytes]] = defaultdict(list)
        buffer, owners, own, size = self._walk.buffer, self._owners, self._own, self._size
        others: list[tuple[Entry, int]] = []
        plain: list[list[bytes]] = []
        lasting, of = 0, -1
        for entry in entries:
            kind, key, begin, end, expires, database = entry
            slot = crc_hqx(key, 0) % SLOTS if b"{" not in key else key_slot(key)
            first = buffer[begin]
            if kind != _STRING or first == _COMPRESSED or not own[slot]:
                others.append((entry, slot))
                continue
            if first < 0x80:  # most of them, without a call
                value = buffer[begin + (1 if first < 0x40 else 2) : end]
            else:
                value = _text(buffer, begin, end)
            if expires:
                begun, ended = self._set_until[len(key)], _UNTIL % (len(str(expires)), expires)
            else:
                begun, ended = self._set[len(key)], b"\r\n"
                lasting += 1
            if database != of:
                plain = [made[owner, database, False] for owner in self._targets]
                of = database
            plain[owners[slot]].append(b"".join((begun, key, size[len(value)], value, ended)))
        contents = [bytes((e[0],)) + buffer[e[2] : e[3]] for e, _ in others]
        restored = payloads(contents, self._walk.version)
        for (entry, slot), payload in zip(others, restored, strict=True):
            _, key, _, _, expires, database = entry
            options = ("REPLACE", "ABSTTL") if own[slot] else ("ABSTTL",)
            command = encode(("RESTORE", key, expires, payload, *options))
            made[owners[slot], database, not own[slot]].append(command)
            lasting += own[slot] and not expires
        self.given.keys += len(entries)
        self.given.lasting += lasting
        self._batch(made)

    def _batch(self, made: dict[_Place, list[bytes]]) -> None:
        for place, commands in made.items():
            if not commands:
                continue
            batch = self._batches.setdefault(place, Batch(place[1], place[2]))
            batch.commands += commands
            batch.size += sum(map(len, commands))

    def _taken(self, least: int) -> list[tuple[int, Batch]]:
        large = [place for place, batch in self._batches.items() if batch.size >= least]
        return [(place[0], self._batches.pop(place)) for place in large]


def _text(buffer: bytes, begin: int, end: int) -> bytes:
    """Return a string that is not compressed, and whose length takes more than two bytes."""
    first = buffer[begin]
    if first in _FIRST_BYTES:
        return buffer[begin + _FIRST_BYTES[first] : end]
    return b"%d" % int.from_bytes(buffer[begin + 1 : end], "little", signed=True)
