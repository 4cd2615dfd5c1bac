"""Parse the header of an RDB, up to its first key. Pure.

Before the keys of a database a server writes how many there are (`RESIZEDB`). The first of these
counts comes before any value, so it is read from the first bytes. Those of later databases stand
between values: reading them would mean to parse every value.
"""

from __future__ import annotations

from typing import Final

__all__ = ["keys_announced"]

_HEADER_BYTES: Final = 9
_INTEGER_BYTES: Final = {0xC0: 1, 0xC1: 2, 0xC2: 4}
_COMPRESSED: Final = 0xC3


def keys_announced(beginning: bytes) -> dict[str, int] | None:
    """Return the keys of the first database by its number, {} for an empty RDB; None: not known."""
    try:
        return _announced(_Bytes(beginning[_HEADER_BYTES:]))
    except _EndError:
        return None


def _announced(read: _Bytes) -> dict[str, int] | None:
    database = 0
    while True:
        match read.byte():
            case 0xFA:  # AUX: a name and a value
                read.skip_string()
                read.skip_string()
            case 0xF5:  # FUNCTION2: a library
                read.skip_string()
            case 0xFE:  # SELECTDB
                database = read.length()
            case 0xFB:  # RESIZEDB: keys, and those with a time to live
                return {str(database): read.length()}
            case 0xFF:  # EOF
                return {}
            case _:
                return None


class _EndError(Exception):
    """The bytes end in the middle, or have a form that is not known."""


class _Bytes:
    """A place in some bytes."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def _take(self, count: int) -> bytes:
        found = self._content[self._at : self._at + count]
        if len(found) < count:
            raise _EndError
        self._at += count
        return found

    def byte(self) -> int:
        """Return the next byte."""
        return self._take(1)[0]

    def length(self, first: int | None = None) -> int:
        """Return a length, which has four forms."""
        first = self.byte() if first is None else first
        if first < 0x40:
            return first
        if first < 0x80:
            return (first & 0x3F) << 8 | self.byte()
        if first in (0x80, 0x81):
            return int.from_bytes(self._take(4 if first == 0x80 else 8), "big")
        raise _EndError

    def skip_string(self) -> None:
        """Skip a string: its bytes, a number, or compressed bytes."""
        first = self.byte()
        if first in _INTEGER_BYTES:
            self._take(_INTEGER_BYTES[first])
        elif first == _COMPRESSED:
            size = self.length()
            self.length()
            self._take(size)
        else:
            self._take(self.length(first))
