"""The tasks of a worker that have to do with archives: archive, mark a point, tell, serve."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ..errors import WorkerError
from ..replica import Login
from ..store import Shelf, open_shelf
from ..task import (
    FOLDER,
    SOURCES,
    SPOOL,
    ArchiveTask,
    PointTask,
    Report,
    ServeTask,
    ShardTask,
    Source,
    Store,
    WindowTask,
)
from .archiver import Archiver, Limits, Shard
from .catalogue import read_catalogue
from .feed import primary_of
from .find import find_plan, find_window
from .plan import text_of
from .point import mark_point
from .prune import prune
from .status import Told, serve_status, told_of
from .until import wanted_of

__all__ = ["archive", "mark", "serve_until", "tell_window"]

_LOG = logging.getLogger(__name__)
_PRUNE_SECONDS = 600.0


def _shelf(store: Store, shard: str, folder: str) -> Shelf:
    return open_shelf(replace(store, path=f"{store.path}/{shard}"), folder=folder)


async def archive(
    task: ArchiveTask,
    login: Callable[[], Login],
    stop: asyncio.Event,
    *,
    folder: str = FOLDER,
    spool: str = SPOOL,
    sources: str = SOURCES,
    host: str = "",
) -> Report:
    """Archive every shard until `stop` is set. Raises `WorkerError`."""
    limits = Limits(base_seconds=task.base_seconds, spool_bytes=task.spool_bytes)
    archivers = {}
    shelves = {}
    for shard in task.shards:
        shelves[shard.name] = _shelf(task.store, shard.name, folder)
        archivers[shard.name] = Archiver(
            Shard(
                shard.name,
                task.engine,
                task.version,
                allow_primary=task.allow_primary,
                cluster=task.cluster,
            ),
            shelves[shard.name],
            Path(spool) / shard.name,
            _sources(shard, Path(sources)),
            login,
            limits=limits,
        )

    def told() -> dict[str, Told]:
        return {name: told_of(archiver) for name, archiver in archivers.items()}

    async with AsyncExitStack() as stack:
        if task.status_port:
            await stack.enter_async_context(serve_status(told, host, task.status_port))
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(found.run(stop)) for found in archivers.values()]
            pruning = group.create_task(_prune(list(shelves.values()), task.keep_seconds))
            await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
            pruning.cancel()
    return Report(parts=tuple({"name": name, **line(found)} for name, found in told().items()))


def line(found: Told) -> dict[str, str | int]:
    """Return a shard's state for the report."""
    return {"newest": text_of(found.newest) if found.newest else "", "line": found.line}


async def _prune(shelves: list[Shelf], keep_seconds: int) -> None:
    if not keep_seconds:
        return
    while True:
        for shelf in shelves:
            try:
                await prune(shelf, int((time.time() - keep_seconds) * 1e6))
            except WorkerError as error:
                _LOG.warning("what is no longer needed is still there: %s", error)
        await asyncio.sleep(_PRUNE_SECONDS)


def _sources(shard: ShardTask, path: Path) -> Callable[[], tuple[Source, ...]]:
    """Return how the servers of a shard are looked up; a file that cannot be read is not used."""

    def read() -> tuple[Source, ...]:
        with suppress(OSError, msgspec.DecodeError):
            found = msgspec.json.decode(path.read_bytes(), type=dict[str, tuple[Source, ...]])
            return found.get(shard.name, shard.sources)
        return shard.sources

    return read


async def mark(task: PointTask, login: Callable[[], Login], *, folder: str = FOLDER) -> Report:
    """Write a named restore point."""
    shelves = {shard.name: _shelf(task.store, shard.name, folder) for shard in task.shards}
    point = await mark_point(task.name, task.shards, shelves, login())
    return Report(
        parts=tuple(
            {"name": name, "offset": found.offset, "time": text_of(found.server)}
            for name, found in point.shards.items()
        )
    )


async def tell_window(task: WindowTask, *, folder: str = FOLDER) -> Report:
    """Say for each shard how far back, how recent, and where gaps are."""
    parts: list[dict[str, str | int]] = []
    for shard in task.shards:
        window = await find_window(await read_catalogue(_shelf(task.store, shard, folder)))
        gaps = "; ".join(
            f"{text_of(gap.after)} to {text_of(gap.before)}: {gap.reason}" for gap in window.gaps
        )
        oldest = text_of(window.oldest) if window.oldest else ""
        newest = text_of(window.newest) if window.newest else ""
        parts.append({"name": shard, "oldest": oldest, "newest": newest, "gaps": gaps})
    return Report(parts=tuple(parts))


async def serve_until(
    task: ServeTask,
    login: Callable[[], Login],
    stop: asyncio.Event,
    *,
    host: str = "",
    folder: str = FOLDER,
) -> Report:
    """Play primary with an archive up to a moment, until `stop` is set. Raises `WorkerError`."""
    assert task.until is not None
    shelf = _shelf(task.store, task.until.shard, folder)
    wanted = wanted_of(task.until)
    plan = await find_plan(await read_catalogue(shelf), wanted, shard=task.until.shard)
    primary = await primary_of(shelf, plan, login)
    _LOG.info(
        "%s is whole up to offset %s: a base of %s bytes and %s segments",
        task.until.shard,
        plan.cut.offset,
        plan.base.part.size,
        len(plan.spans),
    )
    server = await primary.serve(host, task.port)
    await stop.wait()
    server.close()
    part = plan.base.part
    return Report(size=part.size, stored=part.stored, rdb=part.rdb)
