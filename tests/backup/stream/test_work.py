"""The worker's tasks: archive until asked to end, mark a point, tell the window, serve a moment."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from backup.stream.conftest import (
    LOGIN,
    QUICK,
    Replicated,
    archived,
    archiver_of,
    info,
    offset_of,
    replicated,
    running,
    shelf_in,
)
from kubelocal.loopback import free_host
from redis_operator.backup.errors import PointTaken, SourceError, StoreError, WorkerError
from redis_operator.backup.replica import Login
from redis_operator.backup.store import open_shelf
from redis_operator.backup.stream.catalogue import read_catalogue
from redis_operator.backup.stream.find import find_plan
from redis_operator.backup.stream.plan import NotArchived, Offset
from redis_operator.backup.stream.prune import prune
from redis_operator.backup.stream.run import archive
from redis_operator.backup.stream.status import ArchiverReport
from redis_operator.backup.stream.until import wanted_of
from redis_operator.backup.stream.work import mark, serve_until, tell_window
from redis_operator.backup.task import (
    ArchiveTask,
    PointTask,
    ServeTask,
    ShardTask,
    Store,
    Until,
    WindowTask,
)
from redis_operator.redis import commands
from redis_operator.redis.connection import Address, Credentials, connect
from redis_testing.servers import EngineBinary, Server, Servers, find_engines
from support.pair_of_servers import eventually, speak

pytestmark = pytest.mark.servers

NEWEST = find_engines()[-1]
STORE = Store("archive")


def shard_task(shard: Replicated) -> ShardTask:
    return ShardTask("server-0", shard.sources())


async def told_at(host: str, port: int) -> dict[str, ArchiverReport]:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return msgspec.json.decode(answer.partition(b"\r\n\r\n")[2], type=dict[str, ArchiverReport])


@contextlib.asynccontextmanager
async def serving(task: ServeTask, folder: Path) -> AsyncIterator[tuple[str, asyncio.Task[object]]]:
    stop, host = asyncio.Event(), free_host()
    login = Login("replication", "word")
    work = asyncio.create_task(
        serve_until(task, lambda: login, stop, host=host, folder=str(folder))
    )
    try:
        yield host, work
    finally:
        stop.set()
        await work


async def refused_by(server: Server) -> int:
    """Return how many commands of its stream a server refused, as the operator reads it."""
    async with await server.connect() as link:
        return (await link.run(commands.info(), timeout=5)).stats.refused_commands


async def replicate(server: Server, host: str) -> None:
    """Have a server replicate until it has come as far as its primary says that it is."""
    await speak(
        server,
        ("CONFIG", "SET", "masteruser", "replication"),
        ("CONFIG", "SET", "masterauth", "word"),
        ("REPLICAOF", host, 6379),
    )

    async def whole() -> bool:
        told = await info(server)
        if told["master_link_status"] != "up":
            return False
        login = Credentials("replication", "word")
        async with await connect(Address(host, 6379), timeout=5, credentials=login) as link:
            fed = await link.run(commands.info_replication(), timeout=5)
        return int(told["slave_repl_offset"]) >= fed.offset

    await eventually(whole)
    await speak(server, ("REPLICAOF", "NO", "ONE"))


async def test_a_worker_archives_until_it_is_asked_to_end_and_a_named_point_comes_back(
    engine: EngineBinary, tmp_path: Path
) -> None:
    version = ".".join(map(str, engine.version.number))
    async with replicated(engine, 1) as shard:
        host, stop = free_host(), asyncio.Event()
        task = ArchiveTask(
            STORE,
            "backup",
            engine.version.engine,
            version,
            (shard_task(shard),),
            status_port=6380,
        )
        work = asyncio.create_task(
            archive(
                task,
                lambda: LOGIN,
                stop,
                folder=str(tmp_path),
                spool=str(tmp_path / "spool"),
                host=host,
            )
        )

        async def attached() -> bool:
            with contextlib.suppress(OSError):
                told = await told_at(host, 6380)
                one = told["server-0"]
                return one.attached == "pod-1" and one.based > 0 and one.sampled > 0
            return False

        await eventually(attached)
        await speak(shard.primary, *(("INCR", "n") for _ in range(1000)))
        point = PointTask(STORE, "backup", "before-release-7", (shard_task(shard),))
        report = await mark(point, lambda: LOGIN, folder=str(tmp_path))
        assert int(report.parts[0]["offset"]) <= await offset_of(shard.primary)
        with pytest.raises(StoreError, match="there is a restore point before-release-7 already"):
            await mark(point, lambda: LOGIN, folder=str(tmp_path))
        await speak(shard.primary, ("FLUSHALL",), ("SET", "n", "lost"))
        end = await offset_of(shard.primary)

        async def received() -> bool:
            return (await told_at(host, 6380))["server-0"].received >= end

        await eventually(received)
        stop.set()  # seals and uploads what has arrived
        await work
        told = await tell_window(WindowTask(STORE, ("server-0",)), folder=str(tmp_path))
        assert "" < str(told.parts[0]["oldest"]) <= str(told.parts[0]["newest"])
        assert told.parts[0]["gaps"] == ""
        for named in ("server-0", ""):
            until = Until(named, point="before-release-7")
            serve = ServeTask(STORE, "replication", until=until)
            async with serving(serve, tmp_path) as (feeder, _), Servers(engine) as servers:
                [server] = await servers.start(1, cluster=False)
                await replicate(server, feeder)
                assert await speak(server, ("GET", "n"), ("DBSIZE",)) == [b"1000", 1]
                assert await refused_by(server) == 0
                [other] = await servers.start(
                    1, cluster=False, options={"rename-command": 'INCR ""'}
                )
                await replicate(other, feeder)
                assert await refused_by(other) == 1000


@pytest.mark.parametrize(
    ("until", "words"),
    [
        (Until("s"), "until names nothing"),
        (Until("s", time="2026-01-01T00:00:00Z", point="x"), "until names time, point"),
        (Until("s", time="yesterday"), "write the time like"),
        (Until("s", time="2026-01-01T00:00:00"), "has no time zone"),
        (Until("s", time="2026-01-01T00:00:00Z", bound="about"), "notAfter or include"),
    ],
)
def test_a_moment_that_cannot_be_understood_is_named(until: Until, words: str) -> None:
    with pytest.raises(WorkerError, match=words):
        wanted_of(until)


async def test_a_point_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    async with replicated(NEWEST, 1) as shard:
        async with running(archiver_of(shard, tmp_path)):
            await archived(tmp_path, 0)
            point = PointTask(STORE, "backup", "monday", (shard_task(shard),), request="u/1")
            first = await mark(point, lambda: LOGIN, folder=str(tmp_path))
            await speak(shard.primary, ("SET", "n", 1))
            again = await mark(point, lambda: LOGIN, folder=str(tmp_path))  # its answer was lost
            assert (again.parts, again.time) == (first.parts, first.time)
            with pytest.raises(PointTaken, match="there is a restore point monday already"):
                await mark(replace(point, request="u/2"), lambda: LOGIN, folder=str(tmp_path))
        catalogue = await read_catalogue(shelf_in(tmp_path))
        with pytest.raises(WorkerError, match="no restore point tuesday; there are: monday"):
            await find_plan(catalogue, "tuesday", shard="server-0")
        bad = PointTask(STORE, "backup", "../x", (shard_task(shard),))
        with pytest.raises(WorkerError, match="cannot be the name of a restore point"):
            await mark(bad, lambda: LOGIN, folder=str(tmp_path))


async def test_what_is_pruned_leaves_everything_after_the_last_old_base(tmp_path: Path) -> None:
    async with replicated(NEWEST, 1) as shard:
        limits = replace(QUICK, base_seconds=1.0)
        async with running(archiver_of(shard, tmp_path, limits=limits)):

            async def several() -> bool:
                await speak(shard.primary, *(("INCR", "n") for _ in range(20)))
                catalogue = await read_catalogue(shelf_in(tmp_path))
                return bool(catalogue.lines) and len(catalogue.lines[0].bases) > 2

            await eventually(several)
            end = await offset_of(shard.primary)
            await archived(tmp_path, end)
        history = (await info(shard.primary))["master_replid"]
        shelf = shelf_in(tmp_path)
        before = await read_catalogue(shelf)
        bases = await before.bases(1)
        first = bases[0].part.offset + 1
        assert await prune(shelf, bases[0].taken - 1) == 0
        assert await prune(shelf, int(time.time() * 1e6)) > 0
        after = await read_catalogue(shelf)
        assert after.lines[0].bases == before.lines[0].bases[-1:]
        await find_plan(after, Offset(history, end))
        with pytest.raises(NotArchived):
            await find_plan(after, Offset(history, first))


async def test_a_point_of_several_shards_names_where_each_is_and_leaves_no_pause(
    engine: EngineBinary, tmp_path: Path
) -> None:
    pause = ("+client|pause", "+client|unpause") if engine.version.major >= 7 else ("+client",)
    async with replicated(engine, 0) as one, replicated(engine, 0) as other:
        primaries = (one.primary, other.primary)
        names = ("server-0", "server-1")
        for server in primaries:
            await speak(server, ("ACL", "SETUSER", "backup", *pause))
        ends: list[int] = []

        async def write() -> None:
            for number in range(100_000):
                for server in primaries:
                    await speak(server, ("SET", "n", number))
                if ends:
                    return

        writing = asyncio.create_task(write())
        shards = tuple(
            ShardTask(name, shard.sources())
            for name, shard in zip(names, (one, other), strict=True)
        )
        both = PointTask(STORE, "backup", "both", shards)

        async def marked() -> bool:  # refused where a busy machine took longer than the pause
            with contextlib.suppress(SourceError):
                report = await mark(both, lambda: LOGIN, folder=str(tmp_path))
                return [part["name"] for part in report.parts] == list(names)
            return False

        await eventually(marked)
        ends.append(1)
        await writing  # it is not held up for good
        for name, server in zip(names, primaries, strict=True):
            shelf = open_shelf(Store(f"archive/{name}"), folder=str(tmp_path))
            point = await (await read_catalogue(shelf)).point("both")
            assert point.shards[name].replication_id == (await info(server))["master_replid"]
            assert point.shards[name].offset <= await offset_of(server)
