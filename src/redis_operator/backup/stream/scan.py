"""Find where commands end in a replication stream, without parsing their values. Pure.

A cut is made only where a command has ended outside of MULTI .. EXEC: a server that gets half of a
transaction drops it, and one that gets half of a command waits without end.
"""

from __future__ import annotations

from .. import errors

__all__ = ["Scanner", "StreamDamaged"]

_MULTI = b"*1\r\n$5\r\nMULTI\r\n"
_EXEC = b"*1\r\n$4\r\nEXEC\r\n"
_SELECT = b"*2\r\n$6\r\nSELECT\r\n"


class StreamDamaged(errors.Damaged):
    """What is in the stream is not a command."""


class Scanner:
    """Follows a stream from a place where a command begins, piece by piece.

    `position`: bytes taken in. `clean`: how many of them belong to whole commands that end outside
    of a transaction. `database`: what was last selected, as of `clean`; -1 where it is unknown.
    """

    def __init__(self, *, database: int = -1) -> None:
        self.position = 0
        self.clean = 0
        self.database = database
        self._kept = b""
        self._selected = database
        self._in_transaction = False

    @property
    def is_clean(self) -> bool:
        """Whether the stream has come to an end of a command, outside of a transaction."""
        return self.clean == self.position

    def feed(self, piece: bytes) -> None:
        """Take in the next bytes. Raises `StreamDamaged`."""
        text = self._kept + piece if self._kept else piece
        start = self.position - len(self._kept)
        self.position += len(piece)
        at, end = 0, len(text)
        clean = -1
        inside = self._in_transaction
        while at < end:
            after = _skip(text, at, end)
            if after < 0:
                break
            if text[at + 1] < 0x33 and text[at : at + 1] == b"*":  # one or two words, or ten
                if text.startswith(_MULTI, at) or text[at:after].upper() == _MULTI:
                    inside = True
                elif text[at:after].upper() == _EXEC:
                    inside = False
                elif text[at : at + len(_SELECT)].upper() == _SELECT:
                    self._selected = _number(text[at:after])
            at = after
            if not inside:
                clean = at
                self.database = self._selected
        self._in_transaction = inside
        self._kept = text[at:] if at < end else b""
        if clean >= 0:
            self.clean = start + clean


def _skip(text: bytes, at: int, end: int) -> int:
    """Return where the command at `at` has ended; -1: not within this text."""
    find = text.find
    line = find(b"\r\n", at, at + 32)
    if line < 0:
        if end - at >= 32:
            raise StreamDamaged("the stream holds something else than commands")
        return -1
    head = text[at]
    if head != 0x2A:  # *
        if head == 0x0A or line == at:  # an empty line, a keepalive
            return at + 1 if head == 0x0A else line + 2
        raise StreamDamaged("the stream holds something else than commands")
    try:
        words = int(text[at + 1 : line])
        at = line + 2
        for _ in range(words):
            line = find(b"\r\n", at, at + 32)
            if line < 0:
                return -1 if end - at < 32 else _refuse()
            if text[at] != 0x24:  # $
                _refuse()
            at = line + 4 + int(text[at + 1 : line])
            if at > end:
                return -1
    except ValueError as error:
        raise StreamDamaged("the stream holds something else than commands") from error
    return at


def _refuse() -> int:
    raise StreamDamaged("the stream holds something else than commands")


def _number(command: bytes) -> int:
    try:
        return int(command.rsplit(b"\r\n", 2)[-2])
    except ValueError as error:
        raise StreamDamaged("the stream selects something else than a number") from error
