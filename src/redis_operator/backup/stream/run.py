"""The task that archives: an archiver for each shard, for as long as there is that shard.

The shards, and the addresses of their servers, are in a file that the operator maintains: a new
shard is archived and a removed one is ended, without a restart. A file that cannot be read is
ignored: the archivers continue.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from ..errors import WorkerError
from ..replica import Login
from ..store import open_shelf
from ..task import BASES, FOLDER, SOURCES, SPOOL, ArchiverReport, ArchiveTask, Report, Source
from .archiver import Archiver
from .plan import text_of
from .prune import keep_after, prune
from .state import Limits, Shard
from .status import report_of, serve_status
from .work import shelf_of

__all__ = ["archive"]

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
_FIRST_PRUNE_SECONDS = 60.0  # when archivers have found where to continue


class _Running(Struct, frozen=True):
    """A shard that is archived."""

    archiver: Archiver
    stop: asyncio.Event
    task: asyncio.Task[None]


async def archive(
    task: ArchiveTask,
    login: Callable[[], Login],
    stop: asyncio.Event,
    *,
    folder: str = FOLDER,
    spool: str = SPOOL,
    sources: str = SOURCES,
    bases: str = BASES,
    host: str = "",
) -> Report:
    """Archive every shard until `stop` is set. Raises `WorkerError`."""
    files = _Files(task, Path(sources), Path(bases))
    running: dict[str, _Running] = {}

    def reports() -> dict[str, ArchiverReport]:
        return {name: report_of(found.archiver) for name, found in running.items()}

    def begin(name: str, group: asyncio.TaskGroup) -> _Running:
        shelf, ended = shelf_of(task.store, name, folder), asyncio.Event()
        archiver = Archiver(
            Shard(
                name,
                task.engine,
                task.version,
                allow_primary=task.allow_primary,
                cluster=task.cluster,
                bridge=task.bridge,
            ),
            shelf,
            Path(spool) / name,
            lambda: files.shards().get(name, ()),
            login,
            limits=Limits(base_seconds=task.base_seconds, spool_bytes=task.spool_bytes),
            base_wanted=files.base,
        )
        return _Running(archiver, ended, group.create_task(archiver.run(ended)))

    async with AsyncExitStack() as stack:
        if task.status_port:
            await stack.enter_async_context(serve_status(reports, host, task.status_port))
        async with asyncio.TaskGroup() as group:
            pruning = group.create_task(_prune(running, task, folder))
            while not stop.is_set():
                wanted = files.shards()
                for name in wanted.keys() - running.keys():
                    running[name] = begin(name, group)
                for found in running.values():
                    found.archiver.limit_spool(task.spool_bytes // len(running))
                await _let_go(running, [name for name in running if name not in wanted])
                await _heard(stop)
            pruning.cancel()
            await _let_go(running, list(running), keep=True)
    return Report(parts=tuple({"name": name, **_line(found)} for name, found in reports().items()))


async def _let_go(running: dict[str, _Running], names: list[str], *, keep: bool = False) -> None:
    """Stop archivers: what has arrived is sealed first."""
    for name in names:
        running[name].stop.set()
    for name in names:
        await running[name].task
        if not keep:
            del running[name]


async def _heard(stop: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(_LOOK_SECONDS):
            await stop.wait()
    except TimeoutError:
        return


def _line(found: ArchiverReport) -> dict[str, str | int]:
    """Return a shard's state for the report."""
    return {"newest": text_of(found.newest) if found.newest else "", "line": found.line}


async def _prune(running: Mapping[str, _Running], task: ArchiveTask, folder: str) -> None:
    if not task.keep_seconds:
        return
    await asyncio.sleep(min(_FIRST_PRUNE_SECONDS, task.prune_seconds))
    while True:
        newest = max((found.archiver.state().newest for found in running.values()), default=0)
        after = keep_after(task.keep_seconds, now=time.time_ns() // 1000, newest=newest)
        try:
            shards = await open_shelf(task.store, folder=folder).folders() if after > 0 else []
        except WorkerError as error:
            _LOG.warning("what is no longer needed is still there: %s", error)
            shards = []
        for name in shards:  # also those that the database does not have any more
            try:
                pruned = await prune(shelf_of(task.store, name, folder), after)
                if name in running and pruned:
                    await running[name].archiver.overview.read()
            except WorkerError as error:
                _LOG.warning("what is no longer needed of %s is still there: %s", name, error)
        await asyncio.sleep(task.prune_seconds)


class _Files:
    """The file of the operator, as it was read last."""

    def __init__(self, task: ArchiveTask, sources: Path, bases: Path) -> None:
        self._sources, self._bases = sources, bases
        self._shards = {shard.name: shard.sources for shard in task.shards}
        self._base = 0
        self._said: dict[Path, str] = {}

    def shards(self) -> Mapping[str, tuple[Source, ...]]:
        """Return the servers of each shard."""
        try:
            raw = self._sources.read_bytes()
            self._shards = msgspec.json.decode(raw, type=dict[str, tuple[Source, ...]])
        except FileNotFoundError:
            pass  # the task alone names them
        except (OSError, msgspec.DecodeError) as error:
            self._complain(self._sources, str(error))
        return self._shards

    def base(self) -> int:
        """Return since when a base is wanted, in microseconds since 1970."""
        try:
            text = self._bases.read_text().strip()
            self._base = round(datetime.fromisoformat(text).timestamp() * 1e6) if text else 0
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            self._complain(self._bases, str(error))
        return self._base

    def _complain(self, path: Path, error: str) -> None:
        if self._said.get(path) != error:
            _LOG.warning("%s cannot be read, what it said before stands: %s", path, error)
        self._said[path] = error
