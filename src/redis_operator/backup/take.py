"""Take a backup: one snapshot of every shard into the store, at the same time, the manifest last.

Guarantees:
    - Memory is bounded for any size of a shard: data is streamed and not collected.
    - A manifest names parts that one worker wrote completely; two workers at once never mix.
    - A backup that exists already is reported and not taken twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from .cut import Begun, begin_all, wait_received, waits
from .errors import SourceError, WorkerError
from .flow import Flow
from .manifest import MANIFEST, Cut, Manifest, StoredPart
from .primary import trusted
from .rdb import keys_announced
from .replica import Login, Snapshot, attach
from .squeeze import Compressor
from .store import Shelf
from .task import Report, ShardTask, Source, TakeTask

__all__ = ["Squeeze", "report_of", "take"]

_LOG = logging.getLogger(__name__)
_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 1.0
_MAGIC = (b"REDIS", b"VALKEY")
_MAGIC_BYTES = 9
_BATCH = 1 << 20


async def take(
    task: TakeTask,
    shelf: Shelf,
    login: Callable[[], Login],
    *,
    patience: float = _PATIENCE_SECONDS,
    flow: Flow | None = None,
) -> Manifest:
    """Take the backup that a task asks for, or return the one that is there. Raises `WorkerError`.

    Temporary errors (a server that is loading, a user that it does not know yet) are retried, as
    long as `patience` says.
    """
    known = await shelf.get(MANIFEST)
    if known is not None:
        manifest = trusted(shelf, known)
        await _tidy(shelf, manifest)  # its worker may have ended before it could
        return manifest
    if shelf.seal is not None:
        shelf.seal.sealing()  # a missing key is reported before anything is read
    begun = _now()
    turns = asyncio.Semaphore(task.parallel)
    flow = flow or Flow(task.bandwidth)
    common = _Common(task, shelf, login, patience, flow)

    async def one(shard: ShardTask) -> StoredPart:
        async with turns:
            return await _part(common, shard)

    cut = None
    if task.cut:
        parts, cut = await _cut(common)
    else:
        async with asyncio.TaskGroup() as group:
            work = [group.create_task(one(shard)) for shard in task.shards]
        parts = [job.result() for job in work]
    manifest = Manifest(
        namespace=task.namespace,
        redis=task.redis,
        uid=task.uid,
        mode=task.mode,
        engine=task.engine,
        version=task.version,
        begun=begun,
        ended=_now(),
        parts=tuple(parts),
        cut=cut,
        backup=task.store.path.rpartition("/")[2],
        encryption=shelf.seal.sealing() if shelf.seal is not None else None,
    )
    text = msgspec.json.format(msgspec.json.encode(manifest))
    if shelf.seal is not None:
        text = shelf.seal.signed(text)
        manifest = trusted(shelf, text)
    if not await shelf.create(MANIFEST, text):
        written = await shelf.get(MANIFEST)
        assert written is not None
        manifest = trusted(shelf, written)
    await _tidy(shelf, manifest)
    return manifest


async def _tidy(shelf: Shelf, manifest: Manifest) -> None:
    """Remove the objects of earlier attempts; no backup fails for that."""
    kept = {MANIFEST, *(part.object for part in manifest.parts)}
    try:
        await shelf.delete([name for name in await shelf.names() if name not in kept])
    except WorkerError as error:
        _LOG.warning("what earlier attempts left is still there: %s", error)
    await shelf.end_uploads()


class _Common(Struct, frozen=True):
    """What all shards of a backup have in common."""

    task: TakeTask
    shelf: Shelf
    login: Callable[[], Login]
    patience: float
    flow: Flow


async def _part(common: _Common, shard: ShardTask) -> StoredPart:
    """Read one shard from the first of its sources that gives it."""
    end = time.monotonic() + common.patience
    while True:
        errors: list[SourceError] = []
        for source in shard.sources:
            try:
                return await _from(common, shard, source)
            except SourceError as error:
                _LOG.info("%s: %s", shard.name, error)
                errors.append(error)
        if time.monotonic() >= end or not any(error.passing for error in errors):
            reasons = "; ".join(dict.fromkeys(map(str, errors))) or "no server to read from"
            raise SourceError(f"{shard.name}: {reasons}")
        await asyncio.sleep(_PAUSE_SECONDS)


async def _cut(common: _Common) -> tuple[list[StoredPart], Cut]:
    """Read all shards at one moment; what passes is retried, before anything is read."""
    task, end = common.task, time.monotonic() + common.patience
    for wait in waits():
        begun: list[Begun] = []
        try:
            async with begin_all(task.shards, common.login, task.version) as (begun, waited):
                cut = Cut(_now(), round(waited * 1000))
                async with asyncio.TaskGroup() as group:
                    work = [group.create_task(_rest(common, one)) for one in begun]
                return [job.result() for job in work], cut
        except SourceError as error:
            if begun or not error.passing or time.monotonic() >= end:
                raise
            _LOG.info("no cut yet: %s", error)
        await asyncio.sleep(wait)
    raise AssertionError("there is always another wait")


async def _rest(common: _Common, one: Begun) -> StoredPart:
    snapshot = await one.attached.snapshot(one.replication_id, one.offset)
    return await _stored(common, one.shard, one.attached.source, snapshot)


async def _from(common: _Common, shard: ShardTask, source: Source) -> StoredPart:
    await wait_received(source, shard.primary, common.login())
    async with attach(source, common.login(), common.task.version) as snapshot:
        return await _stored(common, shard, source, snapshot)


async def _stored(
    common: _Common, shard: ShardTask, source: Source, snapshot: Snapshot
) -> StoredPart:
    task, flow = common.task, common.flow
    # A worker whose Job a person deleted may still write: the next one has the same number.
    name = f"{shard.name}-{task.attempt}-{secrets.token_hex(4)}.rdb.zst"
    squeeze = Squeeze(task.level, flow)
    async with aclosing(squeeze.squeezed(snapshot.chunks())) as pieces:
        stored = await common.shelf.write(name, pieces)
    flow.parts += 1
    return StoredPart(
        name=shard.name,
        object=name,
        replication_id=snapshot.replication_id,
        offset=snapshot.offset,
        rdb=squeeze.magic,
        size=squeeze.size,
        stored=stored,
        sha256=squeeze.digest.hexdigest(),
        slots=shard.slots,
        source=source.pod,
        keys=squeeze.keys,
    )


class Squeeze:
    """Counts, hashes and compresses what goes through, in a thread beside the reading."""

    def __init__(self, level: int, flow: Flow) -> None:
        self._flow = flow
        self.digest = hashlib.sha256()
        self.size = 0
        self.magic = ""
        self.keys: dict[str, int] | None = None
        self._compressor = Compressor(level)

    async def squeezed(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Return what the store is given."""
        batches = _batches(chunks, self._flow)
        ahead = asyncio.ensure_future(anext(batches, b""))
        try:
            while batch := await ahead:
                ahead = asyncio.ensure_future(anext(batches, b""))
                if not self.magic:
                    self.magic, self.keys = _magic(batch), keys_announced(batch)
                made = await asyncio.to_thread(self._take, batch)
                if made:
                    self._flow.stored += len(made)
                    yield made
        finally:
            ahead.cancel()
        if not self.magic:
            raise SourceError("the server sent an empty snapshot")
        yield await asyncio.to_thread(self._compressor.flush)

    def _take(self, batch: bytes) -> bytes:
        self.digest.update(batch)
        self.size += len(batch)
        return self._compressor.compress(batch)


def _magic(beginning: bytes) -> str:
    if not beginning.startswith(_MAGIC):
        raise SourceError("the server sent something else than a snapshot")
    return beginning[:_MAGIC_BYTES].decode(errors="replace")


async def _batches(chunks: AsyncIterator[bytes], flow: Flow) -> AsyncGenerator[bytes, None]:
    """Gather small pieces: each batch costs a thread a wake-up."""
    found: list[bytes] = []
    size = 0
    async for chunk in chunks:
        found.append(chunk)
        size += len(chunk)
        await flow.passed(len(chunk))
        if size >= _BATCH:
            yield b"".join(found)
            found, size = [], 0
    if size:
        yield b"".join(found)


def report_of(manifest: Manifest) -> Report:
    """Return the report of a backup for the operator."""
    parts: tuple[dict[str, str | int], ...] = tuple(
        {
            "name": part.name,
            "slots": part.slots,
            "pod": part.source,
            "offset": part.offset,
            "size": part.size,
            "stored": part.stored,
        }
        for part in manifest.parts
    )
    rdb = max(part.rdb for part in manifest.parts)
    paused = manifest.cut.paused if manifest.cut is not None else 0
    return Report(size=manifest.size, stored=manifest.stored, rdb=rdb, paused=paused, parts=parts)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
