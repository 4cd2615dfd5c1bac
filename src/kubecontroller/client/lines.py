"""Lines from the pieces of a watch stream, joined without copying twice.

Sans-I/O. Pieces of one line are kept apart until its newline arrives and are joined once, so that
the cost of a long line grows with its length, not with its square.
"""

from __future__ import annotations

from kubecontroller.client.errors import GarbledLine

__all__ = ["LineJoiner"]

_LARGEST_LINE = 256 * 1024 * 1024


class LineJoiner:
    """Collects the pieces of a stream and returns its whole lines, without their newlines."""

    def __init__(self, *, largest: int = _LARGEST_LINE) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._largest = largest

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished line are held."""
        return self._size

    def feed(self, piece: bytes) -> list[bytes]:
        """Take one piece and return the lines it completes; empty lines are left out.

        Errors: a line longer than `largest` raises `GarbledLine`, so that a server that never
        ends its line cannot fill the memory.
        """
        if b"\n" not in piece:
            self._keep(piece)
            return []
        first, *middle, last = piece.split(b"\n")
        if self._pieces:
            self._pieces.append(first)
            first = b"".join(self._pieces)
            self._pieces.clear()
            self._size = 0
        if last:
            self._keep(last)
        return [line for line in (first, *middle) if line and not line.isspace()]

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._largest:
            beginning = (self._pieces[0] if self._pieces else piece)[:80]
            raise GarbledLine(f"one line is longer than {self._largest} bytes", excerpt=beginning)
        self._pieces.append(piece)
