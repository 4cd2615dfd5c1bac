"""Reading container logs: `kubectl logs` with all its options.

The files are those that `keeper.logfile` writes: `TIME STREAM F|P TEXT`, rotated by size.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kubelocal.apiserver.pod_api import LogOptions

__all__ = ["read_log"]

_POLL = 0.1
_CHUNK = 1 << 16
_LONGEST_SINCE = 10**9


def _pieces(path: Path) -> list[Path]:
    """Return the files of a log, the oldest first."""
    rotated = sorted(
        (int(piece.suffix[1:]), piece)
        for piece in path.parent.glob(f"{path.name}.*")
        if piece.suffix[1:].isdecimal()
    )
    return [piece for _, piece in reversed(rotated)] + [path]


def _since(options: LogOptions, now: datetime) -> str:
    """Return the time before which lines are left out, in the format of the log."""
    moment = options.since_time
    if options.since_seconds is not None:
        moment = now - timedelta(seconds=min(options.since_seconds, _LONGEST_SINCE))
    if moment is None:
        return ""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


def _shown(line: bytes, *, since: bytes, timestamps: bool) -> bytes | None:
    """Return the shown part of a stored line, or None when it is too old."""
    time, _, rest = line.partition(b" ")
    if len(rest.split(b" ", 2)) < 3 or time < since:
        return None
    _, tag, text = rest.split(b" ", 2)
    whole = text + (b"\n" if tag == b"F" else b"")
    return time + b" " + whole if timestamps else whole


class _Selection:
    """Applies the options to lines, and counts bytes down to the limit."""

    def __init__(self, options: LogOptions, now: datetime) -> None:
        self._since = _since(options, now).encode()
        self._timestamps = options.timestamps
        self._left = options.limit_bytes

    @property
    def is_over(self) -> bool:
        """Whether the limit is reached."""
        return self._left is not None and self._left <= 0

    def take(self, lines: Iterator[bytes]) -> bytes:
        """Return the shown parts of some lines."""
        chosen = []
        for line in lines:
            shown = _shown(line, since=self._since, timestamps=self._timestamps)
            if shown is not None:
                chosen.append(shown)
        return self._cut(b"".join(chosen))

    def _cut(self, text: bytes) -> bytes:
        if self._left is None:
            return text
        text = text[: max(self._left, 0)]
        self._left -= len(text)
        return text


async def read_log(
    path: Path,
    options: LogOptions,
    *,
    is_over: Callable[[], bool],
    now: datetime | None = None,
) -> AsyncIterator[bytes]:
    """Yield a log according to the options; with `follow` until `is_over` and all was read."""
    selection = _Selection(options, now or datetime.now(UTC))
    lines, position, inode = await asyncio.to_thread(_read_all, path, options.tail_lines)
    text = selection.take(iter(lines))
    if text:
        yield text
    while options.follow and not selection.is_over:
        ended = is_over()
        lines, position, inode = _read_more(path, position, inode)
        if lines:
            text = selection.take(iter(lines))
            if text:
                yield text
        elif ended:
            return
        else:
            await asyncio.sleep(_POLL)


def _read_all(path: Path, tail: int | None) -> tuple[list[bytes], int, int]:
    """Return the last whole lines of a log, and the position after them."""
    kept: deque[bytes] = deque(maxlen=tail) if tail is not None else deque()
    position = inode = 0
    for piece in _pieces(path):
        try:
            with piece.open("rb") as log:
                inode, position = piece.stat().st_ino, 0
                for line in log:
                    if not line.endswith(b"\n"):
                        break
                    position += len(line)
                    kept.append(line[:-1])
        except OSError:
            continue
    return list(kept), position, inode


def _read_more(path: Path, position: int, inode: int) -> tuple[list[bytes], int, int]:
    """Return the whole lines written since, also when the log was rotated meanwhile."""
    lines: list[bytes] = []
    try:
        if path.stat().st_ino != inode:
            rotated = path.with_name(f"{path.name}.1")
            if rotated.exists() and rotated.stat().st_ino == inode:
                lines, position = _whole_lines(rotated, position)
                if lines:
                    return lines, position, inode  # more of it may be left
            position, inode = 0, path.stat().st_ino
        more, position = _whole_lines(path, position)
    except OSError:
        return lines, position, inode
    return lines + more, position, inode


def _whole_lines(path: Path, position: int) -> tuple[list[bytes], int]:
    with path.open("rb") as log:
        log.seek(position)
        text = log.read(_CHUNK)
    end = text.rfind(b"\n") + 1
    return text[:end].split(b"\n")[:-1] if end else [], position + end
