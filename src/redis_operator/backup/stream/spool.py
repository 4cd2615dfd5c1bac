"""Segments on the worker's own disk, between the stream and the store.

A store that is slow or down never makes a server wait: segments that are not stored yet stay here,
and when there is no room left the archiver detaches by itself and attaches again while the server
still has what it missed.

Guarantees:
    - Segments reach the store in their order, each with its manifest last.
    - What was sealed before the worker ended is found again by the next one on the same disk.

Errors: `Superseded`, when another archiver writes the same archive; `StoreError` is waited out.
`SourceError`, when the disk takes nothing: what grew stays in memory, and the spool is full until
the disk has room for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from ..errors import Damaged, SourceError, StoreError, WorkerError
from ..store import Shelf
from .records import Segment, decode, encode, segment_names
from .sealing import Growing, Sealed, seal

__all__ = ["Spool", "Superseded"]

_LOG = logging.getLogger(__name__)
_RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)


class Superseded(WorkerError):  # noqa: N818 - what it is
    """Another archiver has written a segment of this number."""

    reason = "ArchiveSuperseded"


class Spool:
    """The queue of one shard."""

    def __init__(self, folder: Path, shelf: Shelf, *, limit: int) -> None:
        self.newest: Segment | None = None  # in the store
        self.stored = 0  # bytes that were stored
        self.limit = limit
        self._folder = folder
        self._shelf = shelf
        self._waiting: list[Segment] = []
        self._bytes = 0
        self._refusal = ""  # why the store refuses segments now
        self._disk = ""  # why the disk does
        self._needed = 0  # bytes that it did not take
        self._more = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def trouble(self) -> str:
        """Why the disk or the store takes no segments now; empty: they do."""
        return self._disk or self._refusal

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another segment; a disk that had none is checked."""
        if self._disk and self._has_room():
            self._disk = ""
        return bool(self._disk) or self._bytes >= self.limit

    @property
    def size(self) -> int:
        """Segments that wait for the store."""
        return self._bytes

    @property
    def last(self) -> Segment | None:
        """The newest segment that is kept here."""
        return self._waiting[-1] if self._waiting else None

    def recover(self, after: Segment | None) -> None:
        """Find the segments of an earlier worker. Those that do not continue `after` are
        dropped."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._folder.glob("*.json")):
            try:
                found = decode(path.read_bytes(), Segment, path.name)
                size = path.with_suffix(".zst").stat().st_size
            except (Damaged, OSError) as error:
                _LOG.warning("%s is dropped: %s", path.name, error)
                self._drop(path)
                continue
            if size != found.stored or not _follows(found, self.last or after):
                self._drop(path)
                continue
            self._queue(found)

    def put(self, segment: Segment, content: bytes) -> None:
        """Keep a segment; it is on disk when this returns. Blocks: call it in a thread."""
        path = self._path(segment)
        partial = path.with_suffix(".part")
        try:
            path.with_suffix(".zst").write_bytes(content)
            partial.write_bytes(encode(segment))
            partial.replace(path)
        except OSError as error:
            self._disk = f"the disk of the worker does not take what is archived: {error}"
            self._needed = 2 * len(content) + 4096
            with suppress(OSError):
                partial.unlink(missing_ok=True)
                self._drop(path)
            raise SourceError(self._disk, passing=True) from error

    def _has_room(self) -> bool:
        """Whether the disk has room for what it did not take."""
        path = self._folder / "room"
        try:
            with path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, self._needed)
            path.unlink()
        except OSError:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            return False
        return True

    def seal(
        self, growing: Growing, *, line: int, number: int, engine: str, version: str
    ) -> Sealed | None:
        """Put the whole commands of what grew; None: there is nothing yet. Blocks, as `put`."""
        sealed = seal(growing, line=line, number=number, engine=engine, version=version)
        if sealed is not None:
            self.put(sealed.segment, sealed.content)
        return sealed

    def queue(self, segment: Segment) -> None:
        """Queue a segment that was put for the store."""
        self._queue(segment)

    async def upload(self) -> None:
        """Write the segments to the store, without end. Raises `Superseded`."""
        tries = 0
        while True:
            await self._more.wait()
            segment = self._waiting[0]
            try:
                await self._store(segment)
            except StoreError as error:
                self._refusal = str(error)
                pause = _RETRY_SECONDS[min(tries, len(_RETRY_SECONDS) - 1)]
                _LOG.warning("retry in %g s: %s", pause, error)
                tries += 1
                await asyncio.sleep(pause)
                continue
            tries = 0
            self._refusal = ""
            self.newest = segment
            self._waiting.pop(0)
            self._bytes -= segment.stored
            self.stored += segment.stored
            self._drop(self._path(segment))
            if not self._waiting:
                self._more.clear()
                self._empty.set()

    async def wait_empty(self) -> None:
        """Wait until the store has everything."""
        await self._empty.wait()

    async def _store(self, segment: Segment) -> None:
        content = await asyncio.to_thread(self._path(segment).with_suffix(".zst").read_bytes)
        await self._shelf.write(segment.object, _whole(content))  # encrypted where there is a key
        name = segment_names(segment.line, segment.number).manifest
        if await self._shelf.create(name, encode(segment)):
            return
        if await self._shelf.get(name) != encode(segment):
            raise Superseded(
                f"{name} was written by another archiver of the same shard; this one ends"
            )

    def _queue(self, segment: Segment) -> None:
        self._waiting.append(segment)
        self._bytes += segment.stored
        self._empty.clear()
        self._more.set()

    def _path(self, segment: Segment) -> Path:
        return self._folder / f"{segment.line:06d}-{segment.number:08d}.json"

    def _drop(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        path.with_suffix(".zst").unlink(missing_ok=True)


async def _whole(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _follows(found: Segment, before: Segment | None) -> bool:
    if before is None:
        return found.number == 1
    if found.line != before.line:
        return found.line == before.line + 1 and found.number == 1
    return found.number == before.number + 1
