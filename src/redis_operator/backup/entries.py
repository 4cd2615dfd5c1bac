"""Iterate over an RDB: its keys, and where each value begins and ends. Pure.

A value is never decoded. To find its end, its structure is enough: how many strings and how many
bytes it has, which the table below contains for each type. For a version, a type or an opcode that
the table does not have, `NotSplit` is raised, and the caller has to find another way.

Formats 9, 10, 11 and 80 were seen with Redis 6.2, Redis 7.0 and Valkey 9.1. An entry of the table
that is wrong shows at once: the walk has to meet a known type after every value, the end of the RDB
at its last byte, and as many keys as the server announced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

__all__ = ["LARGEST", "Entry", "NotSplit", "Walk"]

Entry: TypeAlias = tuple[int, bytes, int, int, int, int]
"""Type, key, where the value begins and ends in the buffer, when it expires (milliseconds since
1970; 0: never), and the number of its database."""
_Skip: TypeAlias = Callable[[bytes, int], int]
_Add: TypeAlias = Callable[[Entry], None]

LARGEST: Final = 8 << 20
"""How many bytes an entry may have: some copies of it are in memory at once."""
_HEADER: Final = 9
_STRING: Final = 0
_FUNCTION, _SLOT, _IDLE, _FREQUENCY, _AUX, _RESIZE = 0xF5, 0xF4, 0xF8, 0xF9, 0xFA, 0xFB
_EXPIRES, _DATABASE, _END = 0xFC, 0xFE, 0xFF
_CHECKSUM: Final = 8
_COMPRESSED: Final = 0xC3
_INTEGERS: Final = {0xC0: 1, 0xC1: 2, 0xC2: 4}


class NotSplit(Exception):  # noqa: N818 - what it is
    """The RDB has an element of unknown size. This says nothing about the RDB's health."""


def _length(buffer: bytes, at: int) -> tuple[int, int]:
    """Return a length, which has four forms, and where it ends."""
    first = buffer[at]
    if first < 0x40:
        return first, at + 1
    if first < 0x80:
        return (first & 0x3F) << 8 | buffer[at + 1], at + 2
    if first == 0x80:
        return int.from_bytes(buffer[at + 1 : at + 5], "big"), at + 5
    if first == 0x81:
        return int.from_bytes(buffer[at + 1 : at + 9], "big"), at + 9
    raise NotSplit(f"a length begins with {first:#x}")


def _lengths(buffer: bytes, at: int, count: int) -> int:
    for _ in range(count):
        _, at = _length(buffer, at)
    return at


def _string(buffer: bytes, at: int) -> int:
    """Return where a string ends: its bytes, a number, or compressed bytes."""
    first = buffer[at]
    if first in _INTEGERS:
        return at + 1 + _INTEGERS[first]
    if first == _COMPRESSED:
        size, at = _length(buffer, at + 1)
        return _lengths(buffer, at, 1) + size
    size, at = _length(buffer, at)
    return at + size


def _strings(buffer: bytes, at: int, count: int) -> int:
    for _ in range(count):
        size = buffer[at]
        at = at + size + 1 if size < 0x40 else _string(buffer, at)
    return at


def _before(buffer: bytes, at: int) -> tuple[int, int]:
    """Return when the entry expires whose attributes begin here (0: never), and where they end."""
    expires = 0
    while (kind := buffer[at]) in (_EXPIRES, _IDLE, _FREQUENCY):
        if kind == _EXPIRES:
            expires = max(int.from_bytes(buffer[at + 1 : at + 9], "little", signed=True), 1)
            at += 9
        else:
            at = at + 2 if kind == _FREQUENCY else _lengths(buffer, at + 1, 1)
    return expires, at


def _items(*, strings: int, lengths: int = 0, more: int = 0) -> _Skip:
    """Return how to skip a number of items, each of lengths, strings and bytes."""

    def skip(buffer: bytes, at: int) -> int:
        count, at = _length(buffer, at)
        if not lengths and not more:
            return _strings(buffer, at, count * strings)
        for _ in range(count):
            at = _strings(buffer, _lengths(buffer, at, lengths), strings) + more
        return at

    return skip


def _stream(version: int) -> _Skip:
    """Return how to skip a stream: nodes, counters, groups with their pending entries."""

    def skip(buffer: bytes, at: int) -> int:
        nodes, at = _length(buffer, at)
        at = _lengths(buffer, _strings(buffer, at, 2 * nodes), 3 if version == 1 else 8)
        groups, at = _length(buffer, at)
        for _ in range(groups):
            at = _lengths(buffer, _string(buffer, at), 2 if version == 1 else 3)
            pending, at = _length(buffer, at)
            for _ in range(pending):
                at = _lengths(buffer, at + 24, 1)
            consumers, at = _length(buffer, at)
            for _ in range(consumers):
                at = _string(buffer, at) + (16 if version == 3 else 8)
                pending, at = _length(buffer, at)
                at += 16 * pending
        return at

    return skip


_COMMON: Final[dict[int, _Skip]] = {
    _STRING: _string,
    1: _items(strings=1),  # list
    2: _items(strings=1),  # set
    4: _items(strings=2),  # hash
    5: _items(strings=1, more=8),  # sorted set: members and scores
    10: _string,  # list as a ziplist
    11: _string,  # set of integers
    12: _string,  # sorted set as a ziplist
    13: _string,  # hash as a ziplist
    14: _items(strings=1),  # list of ziplists
    15: _stream(1),
    16: _string,  # hash as a listpack
    17: _string,  # sorted set as a listpack
    18: _items(strings=1, lengths=1),  # list of listpacks and large elements
    19: _stream(2),
    20: _string,  # set as a listpack
    21: _stream(3),
}
_VALKEY_9: Final = {22: _items(strings=2, more=8)}  # hash whose fields expire
_SHAPES: Final[dict[bytes, dict[int, _Skip]]] = {
    b"REDIS0009": _COMMON,
    b"REDIS0010": _COMMON,
    b"REDIS0011": _COMMON,
    b"VALKEY080": _COMMON | _VALKEY_9,
}


def _key(buffer: bytes, at: int) -> tuple[bytes, int]:
    """Return a key, whatever its form, and where it ends. Raises `IndexError`: not whole."""
    first = buffer[at]
    if first < 0x40:  # most of them
        return buffer[at + 1 : at + 1 + first], at + 1 + first
    end = _string(buffer, at)
    if end > len(buffer):
        raise IndexError(end)
    if first in _INTEGERS:
        return b"%d" % int.from_bytes(buffer[at + 1 : end], "little", signed=True), end
    if first == _COMPRESSED:
        packed, start = _length(buffer, at + 1)
        size, start = _length(buffer, start)
        return _unpacked(buffer[start : start + packed], size), end
    _, start = _length(buffer, at)
    return buffer[start:end], end


def _unpacked(packed: bytes, size: int) -> bytes:
    """Return what LZF has compressed: runs of bytes, and copies of what came before."""
    found, at = bytearray(), 0
    while at < len(packed):
        first = packed[at]
        at += 1
        if first < 32:
            found += packed[at : at + first + 1]
            at += first + 1
            continue
        count = first >> 5
        if count == 7:
            count += packed[at]
            at += 1
        back = len(found) - ((first & 31) << 8 | packed[at]) - 1
        at += 1
        for place in range(back, back + count + 2):
            found.append(found[place])
    if len(found) != size:
        raise NotSplit("a key that is compressed has another size than it should have")
    return bytes(found)


class Walk:
    """Takes an RDB piece by piece. What an entry says of its value is a place in `buffer`.

    Memory is a piece, or the largest entry with its value: at most `LARGEST`, else `NotSplit`.
    """

    def __init__(self) -> None:
        self.buffer = b""
        self.version = 0  # of the format, once it is known
        self.functions = b""  # as they stand in the RDB
        self.announced: dict[int, int] = {}  # keys of each database, as its server counted them
        self.keys: dict[int, int] = {}  # keys of each database that were found so far
        self._shapes: dict[int, _Skip] = {}
        self._coming: list[bytes] = []
        self._size = 0  # of what is coming
        self._wanted = _HEADER  # before this there is no whole entry
        self._database = 0
        self._ended = False

    def feed(self, piece: bytes) -> list[Entry]:
        """Take a piece; return the entries that are whole now. Raises `NotSplit`."""
        found: list[Entry] = []
        self._take(piece, found.append)
        return found

    def count(self, piece: bytes) -> None:
        """Take a piece; count the entries that are whole now. Raises `NotSplit`."""
        self._take(piece, None)

    def finish(self) -> list[Entry]:
        """Return the last entries. Raises `NotSplit` where the RDB does not end."""
        found: list[Entry] = []
        self._pass(found.append)
        if not self._ended or self._size:
            raise NotSplit("it does not end where it should")
        return found

    def _take(self, piece: bytes, add: _Add | None) -> None:
        self._coming.append(piece)
        self._size += len(piece)
        if self._size >= self._wanted:
            self._pass(add)

    def _pass(self, add: _Add | None) -> None:
        self.buffer = b"".join(self._coming)
        at = 0
        if not self._shapes:
            at = self._header()
        at = self._entries(at, add)
        rest = self.buffer[at:]
        if len(rest) > LARGEST:
            raise NotSplit(f"an entry is larger than {LARGEST >> 20} MiB")
        self._coming, self._size = [rest], len(rest)
        self._wanted = min(2 * len(rest), LARGEST + 1) if len(rest) > 1 << 20 else 0

    def _header(self) -> int:
        magic = self.buffer[:_HEADER]
        if magic not in _SHAPES:
            raise NotSplit(f"it begins with {magic!r}, whose types are not known")
        self._shapes, self.version = _SHAPES[magic], int(magic.lstrip(b"REDISVALKY"))
        return _HEADER

    def _entries(self, whole: int, add: _Add | None) -> int:
        """Add the entries that are whole; return where the first one begins that is not."""
        more = True
        while more and not self._ended:
            whole, more = self._others(self._plain(whole, add), add)
        return whole

    def _plain(self, whole: int, add: _Add | None) -> int:
        """Add strings, as most entries are, without a call for each.

        Return where something else begins, or an entry that is not whole.
        """
        buffer, size, database = self.buffer, len(self.buffer), self._database
        at, keys = whole, 0
        try:
            while True:
                kind, expires = buffer[at], 0
                if kind >= _IDLE:
                    expires, at = _before(buffer, at)
                    kind = buffer[at]
                long = buffer[at + 1]
                if kind or long >= 0x80:
                    break
                named = at + 2 if long < 0x40 else at + 3
                begun = named + (long if long < 0x40 else (long & 0x3F) << 8 | buffer[at + 2])
                first = buffer[begun]
                if first < 0x40:
                    end = begun + 1 + first
                elif first < 0x80:
                    end = begun + 2 + ((first & 0x3F) << 8 | buffer[begun + 1])
                else:
                    end = _string(buffer, begun)
                if end > size:
                    break
                if add is not None:
                    add((_STRING, buffer[named:begun], begun, end, expires, database))
                keys += 1
                at = whole = end
        except IndexError:
            pass
        self._count(keys, database)
        return whole

    def _others(self, whole: int, add: _Add | None) -> tuple[int, bool]:
        """Add entries of all types up to a string or a mark, and at least one of anything.

        Return where the next one begins, and whether all of them were whole.
        """
        buffer, size, shapes, database = self.buffer, len(self.buffer), self._shapes, self._database
        keys, more = 0, False
        try:
            while not more:
                at, kind, expires = whole, buffer[whole], 0
                if kind >= _IDLE:
                    expires, at = _before(buffer, at)
                    kind = buffer[at]
                if kind not in shapes:
                    end = self._mark(kind, at + 1)
                    whole, more = (end, True) if end <= size else (whole, False)
                    break
                key, begun = _key(buffer, at + 1)
                end = shapes[kind](buffer, begun)
                if end > size:
                    break
                if add is not None:
                    add((kind, key, begun, end, expires, database))
                keys += 1
                whole = end
                more = kind == _STRING or buffer[whole] == _STRING
        except IndexError:
            pass
        self._count(keys, database)
        return whole, more

    def _count(self, keys: int, database: int) -> None:
        if keys:
            self.keys[database] = self.keys.get(database, 0) + keys

    def _mark(self, kind: int, at: int) -> int:
        """Take in what stands between keys; return where it ends."""
        buffer, begun = self.buffer, at
        if kind == _AUX:
            return _strings(buffer, at, 2)
        if kind == _RESIZE:
            keys, at = _length(buffer, at)
            self.announced[self._database] = keys
            return _lengths(buffer, at, 1)
        if kind == _SLOT:
            return _lengths(buffer, at, 3)
        if kind == _DATABASE:
            number, at = _length(buffer, at)
            if at <= len(buffer):
                self._database = number
            return at
        if kind == _FUNCTION:
            at = _string(buffer, at)
            if at <= len(buffer):
                self.functions += buffer[begun - 1 : at]
            return at
        if kind == _END:
            at += _CHECKSUM
            self._ended = at <= len(buffer)
            return at
        raise NotSplit(f"it has an entry of type {kind}, which is not known")
