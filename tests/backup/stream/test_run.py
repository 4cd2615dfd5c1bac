"""The worker of an archive follows what the operator writes beside it: shards, and wanted bases."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from backup.stream.conftest import LOGIN, Replicated, archiver_of, replicated, running, shelf_in
from kubelocal.loopback import free_host
from redis_operator.backup.errors import StoreError
from redis_operator.backup.store import Shelf, open_shelf
from redis_operator.backup.stream.catalogue import read_catalogue
from redis_operator.backup.stream.plan import text_of
from redis_operator.backup.stream.run import archive
from redis_operator.backup.task import ArchiverReport, ArchiveTask, Store
from redis_operator.operator.backups import workers
from redis_testing.servers import find_engines
from support.pair_of_servers import eventually, speak

pytestmark = pytest.mark.servers

NEWEST = find_engines()[-1]


class Work:
    """A worker with the files that it is given."""

    def __init__(self, folder: Path, host: str, task: asyncio.Task[Any]) -> None:
        self.folder, self.host, self.task = folder, host, task

    def name(self, **shards: Replicated) -> None:
        """Say which shards there are."""
        found = {name: msgspec.to_builtins(shard.sources()) for name, shard in shards.items()}
        self.write("shards.json", msgspec.json.encode(found).decode())

    def write(self, name: str, text: str) -> None:
        partial = self.folder / f"{name}.part"
        partial.write_text(text)
        partial.replace(self.folder / name)

    async def told(self) -> dict[str, ArchiverReport]:
        return await workers.ask_archiver(self.host) or {}

    async def until(self, *names: str) -> dict[str, ArchiverReport]:
        """Wait until these shards, and no others, are attached to and have a base."""
        found: dict[str, ArchiverReport] = {}

        async def holds() -> bool:
            assert not self.task.done()
            found.clear()
            found.update(await self.told())
            ready = [name for name, one in found.items() if one.attached and one.based]
            return sorted(ready) == sorted(names) == sorted(found)

        await eventually(holds)
        return found


@contextlib.asynccontextmanager
async def working(folder: Path) -> AsyncIterator[Work]:
    host, stop = free_host(), asyncio.Event()
    version = ".".join(map(str, NEWEST.version.number))
    given = ArchiveTask(
        Store("archive"),
        "backup",
        NEWEST.version.engine,
        version,
        allow_primary=True,
        keep_seconds=1,
        prune_seconds=1,
        status_port=9181,
    )
    task = asyncio.create_task(
        archive(
            given,
            lambda: LOGIN,
            stop,
            folder=str(folder),
            spool=str(folder / "spool"),
            sources=str(folder / "shards.json"),
            bases=str(folder / "base"),
            host=host,
        )
    )
    try:
        yield Work(folder, host, task)
    finally:
        stop.set()
        await task


@pytest.mark.slow
async def test_shards_come_and_go_bases_are_taken_on_request_and_old_ones_deleted(
    tmp_path: Path,
) -> None:
    async with (
        replicated(NEWEST, 0) as one,
        replicated(NEWEST, 0) as other,
        working(tmp_path) as work,
    ):
        work.name(first=one)
        began = (await work.until("first"))["first"].based
        work.name(first=one, second=other)
        await work.until("first", "second")
        work.write("shards.json", "{ this is not")  # what was said before stands
        work.write("base", "at noon")
        await speak(one.primary, ("SET", "k", "v"))
        work.write("base", text_of(int(time.time() * 1e6)))

        async def based() -> bool:
            return all(found.based > began for found in (await work.until(*both)).values())

        both = ("first", "second")
        await eventually(based)

        async def pruned() -> bool:
            catalogue = await read_catalogue(
                open_shelf(Store("archive/first"), folder=str(tmp_path))
            )
            [line] = catalogue.lines
            found = (await work.told())["first"]
            return len(line.bases) == 1 and found.oldest > began and found.gaps == ()

        await eventually(pruned)
        work.name(second=other)
        [last] = (await work.until("second")).values()
        assert last.trouble == ""
        assert last.gaps == ()


class Away(Shelf):
    """A store that does not answer at first."""

    def __init__(self, inner: Shelf) -> None:
        super().__init__(inner._store, "volume:/away", inner._folder)
        self.is_away = True

    async def sizes(self) -> dict[str, int]:
        if self.is_away:
            raise StoreError("volume:/away does not answer")
        return dict(await super().sizes())


async def test_a_store_that_is_away_at_the_beginning_is_waited_for(tmp_path: Path) -> None:
    shelf = Away(shelf_in(tmp_path))
    async with replicated(NEWEST, 1) as shard:
        archiver = archiver_of(shard, tmp_path, shelf=shelf)
        async with running(archiver) as task:

            async def complained() -> bool:
                return "does not answer" in archiver.state().trouble

            await eventually(complained)
            shelf.is_away = False

            async def attached() -> bool:
                return not task.done() and bool(archiver.state().attached)

            await eventually(attached)
