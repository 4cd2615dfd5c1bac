"""Container logs on disk: one line a line, with its time and stream, rotated by size.

The format is that of container runtimes: `TIME STREAM F|P TEXT`, where `P` marks a piece of a line
that continues. Numbered files (`0.log.1` is the youngest) are the rotated ones.
"""

# The keeper does not use pathlib: every pod waits for its start.
# ruff: noqa: PTH105, PTH110

from __future__ import annotations

import contextlib
import os
import time

__all__ = ["LogFile", "stamp"]

_LONGEST_LINE = 16 * 1024
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


def stamp(nanoseconds: int) -> str:
    """Return an instant as RFC 3339 with nine decimals, as container runtimes write it."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09d}Z"


class LogFile:
    """The log of one container instance, fed by its two output pipes.

    Guarantees: a full disk loses log lines, never blocks or ends the container.
    """

    def __init__(self, path: str, *, limit: int, kept: int) -> None:
        self._path = path
        self._limit = limit
        self._kept = kept
        self._rest: dict[str, bytes] = {}
        self._fd = os.open(path, _FLAGS, 0o640)
        self._size = os.fstat(self._fd).st_size

    def feed(self, stream: str, chunk: bytes) -> None:
        """Add output of one stream; whole lines are written at once."""
        head = f"{stamp(time.time_ns())} {stream} ".encode()
        lines = (self._rest.get(stream, b"") + chunk).split(b"\n")
        rest = lines.pop()
        pieces: list[bytes] = []
        for line in lines:
            pieces.extend(_entry(head, line, last=True))
        if len(rest) > _LONGEST_LINE:
            pieces.extend(_entry(head, rest, last=False))
            rest = b""
        self._rest[stream] = rest
        if pieces:
            self._write(b"".join(pieces))

    def _write(self, entries: bytes) -> None:
        if self._size and self._size + len(entries) > self._limit:
            with contextlib.suppress(OSError):  # then it grows until it can be rotated
                self._rotate()
        with contextlib.suppress(OSError):
            self._size += os.write(self._fd, entries)

    def _rotate(self) -> None:
        """Begin a new file; the old one is in use until everything that can fail is done."""
        fresh = os.open(f"{self._path}.new", _FLAGS | os.O_TRUNC, 0o640)
        try:
            self._rename()
        except OSError:
            os.close(fresh)
            raise
        old, self._fd, self._size = self._fd, fresh, 0
        with contextlib.suppress(OSError):
            os.close(old)

    def _rename(self) -> None:
        for number in range(self._kept - 1, 0, -1):
            older = f"{self._path}.{number}"
            if os.path.exists(older):
                os.replace(older, f"{self._path}.{number + 1}")
        if self._kept:
            os.replace(self._path, f"{self._path}.1")
        os.replace(f"{self._path}.new", self._path)

    def close(self) -> None:
        """Write what is left of unfinished lines and close the file."""
        head = stamp(time.time_ns())
        for stream, rest in self._rest.items():
            if rest:
                self._write(b"".join(_entry(f"{head} {stream} ".encode(), rest, last=False)))
        self._rest = {}
        with contextlib.suppress(OSError):  # what was written late, on a full disk
            os.close(self._fd)


def _entry(head: bytes, line: bytes, *, last: bool) -> list[bytes]:
    entries = []
    while len(line) > _LONGEST_LINE:
        entries.append(head + b"P " + line[:_LONGEST_LINE] + b"\n")
        line = line[_LONGEST_LINE:]
    entries.append(head + (b"F " if last else b"P ") + line + b"\n")
    return entries
