"""Snapshots of several servers that are of one moment, while an application writes to all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from itertools import accumulate, islice
from pathlib import Path

import msgspec
import pytest

from backup.conftest import LOGIN, STORE, task
from kubelocal.loopback import free_host
from redis_operator.backup.cut import waits
from redis_operator.backup.errors import SourceError
from redis_operator.backup.primary import Primary, manifest_of
from redis_operator.backup.replica import Login
from redis_operator.backup.store import open_shelf
from redis_operator.backup.take import report_of, take
from redis_operator.backup.task import ShardTask, Source, TakeTask
from redis_operator.manifests.users import BACKUP_RULES
from redis_operator.redis import commands
from redis_testing.servers import EngineBinary, Server, Servers
from support.pair_of_servers import eventually, speak

pytestmark = pytest.mark.servers

RULES = tuple(BACKUP_RULES.split())


@contextlib.asynccontextmanager
async def shards(engine: EngineBinary, count: int) -> AsyncIterator[list[tuple[Server, Server]]]:
    """Start primaries with a replica each; replicas wait before they sync, as by default."""
    async with Servers(engine) as servers:
        started = await servers.start(2 * count, cluster=False, options={})
        pairs = list(zip(started[:count], started[count:], strict=True))
        for primary, replica in pairs:
            for server in (primary, replica):
                await speak(server, ("ACL", "SETUSER", "backup", "on", ">secret", *RULES))
            await speak(primary, ("CONFIG", "SET", "repl-diskless-sync-delay", "0"))
            await speak(replica, ("REPLICAOF", primary.address.host, primary.address.port))

        async def linked() -> bool:
            for _, replica in pairs:
                async with await replica.connect() as link:
                    info = await link.run(commands.info_replication(), timeout=5)
                    if not info.link_up or info.sync_in_progress:
                        return False
            return True

        await eventually(linked)
        yield pairs


def asked(pairs: list[tuple[Server, Server]], *, from_primaries: bool = False) -> TakeTask:
    found = []
    for number, (primary, replica) in enumerate(pairs):
        lead = Source(f"primary-{number}", primary.address.host)
        read = lead if from_primaries else Source(f"replica-{number}", replica.address.host)
        found.append(ShardTask(f"shard-{number}", (read,), primary=lead))
    return msgspec.structs.replace(task(pairs[0][0]), shards=tuple(found), cut=True)


async def counter_in(engine: EngineBinary, folder: Path, number: int) -> int:
    """Load a part into an empty server, and return what its counter was."""
    shelf = open_shelf(STORE, folder=str(folder))
    manifest = await manifest_of(shelf)
    host, login = free_host(), Login("x", "word")
    server = await Primary(shelf, manifest, manifest.parts[number], lambda: login).serve(host, 6379)
    options = {"masteruser": "x", "masterauth": "word"}
    async with Servers(engine, options=options) as others:
        [empty] = await others.start(1, cluster=False, options={})
        await speak(empty, ("REPLICAOF", host, 6379))

        async def there() -> bool:
            return (await speak(empty, ("EXISTS", "counter")))[0] == 1

        await eventually(there)
        [value] = await speak(empty, ("GET", "counter"))
    server.close()
    return int(bytes(value))  # type: ignore[call-overload, no-any-return]


def test_writes_go_on_most_of_the_time_while_no_cut_succeeds() -> None:
    """A replica that is always late would else have writes held two seconds out of three."""
    times = list(accumulate(2.0 + wait for wait in islice(waits(), 10)))
    held_in_a_minute = 2.0 * sum(time < 60 for time in (0.0, *times))
    assert held_in_a_minute <= 10


@pytest.mark.parametrize("from_primaries", [False, True], ids=["replicas", "primaries"])
async def test_what_was_written_one_after_the_other_is_cut_in_between(
    engine: EngineBinary, tmp_path: Path, from_primaries: bool
) -> None:
    async with shards(engine, 2) as pairs:
        (first, _), (second, _) = pairs
        stop = asyncio.Event()
        written = 0

        async def write() -> None:
            """Count on one shard and, once that is answered, on the other."""
            nonlocal written
            while not stop.is_set():
                await speak(first, ("INCR", "counter"))
                await speak(second, ("INCR", "counter"))
                written += 1

        async def some() -> bool:
            return written > 20

        writing = asyncio.ensure_future(write())
        await eventually(some)
        shelf = open_shelf(task(first).store, folder=str(tmp_path))
        manifest = await take(
            asked(pairs, from_primaries=from_primaries), shelf, lambda: LOGIN, patience=30
        )
        before = written

        async def more() -> bool:
            return written > before + 20  # nobody is paused any more

        await eventually(more)
        stop.set()
        await writing
    assert manifest.cut is not None
    assert 0 < manifest.cut.paused < 3000
    assert report_of(manifest).paused == manifest.cut.paused
    one = await counter_in(engine, tmp_path, 0)
    other = await counter_in(engine, tmp_path, 1)
    assert one - other in (0, 1)
    assert 20 <= other < before + 2


async def test_a_source_that_does_not_begin_in_time_leaves_nobody_paused(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with shards(engine, 2) as pairs:
        (first, _), (_, behind) = pairs
        task_ = asked(pairs)
        await speak(behind, ("CONFIG", "SET", "masterauth", "wrong"), ("REPLICAOF", "NO", "ONE"))
        shelf = open_shelf(task_.store, folder=str(tmp_path))
        with pytest.raises(SourceError, match="replica-1 is a primary now"):
            await take(task_, shelf, lambda: LOGIN, patience=0.1)
        for primary, _ in pairs:
            async with asyncio.timeout(2):  # less than the pause
                await speak(primary, ("SET", "still", "1"))
        assert await shelf.names() == []
        assert first.is_running


async def test_a_worker_that_may_not_pause_says_so(engine: EngineBinary, tmp_path: Path) -> None:
    async with shards(engine, 1) as pairs:
        await speak(pairs[0][0], ("ACL", "SETUSER", "backup", "-client"))
        shelf = open_shelf(task(pairs[0][0]).store, folder=str(tmp_path))
        with pytest.raises(SourceError, match="primary-0 refuses CLIENT: NOPERM"):
            await take(asked(pairs), shelf, lambda: LOGIN, patience=0.1)


@pytest.mark.slow
async def test_a_pause_that_somebody_else_ended_is_no_proof(
    engine: EngineBinary, tmp_path: Path
) -> None:
    """Writes of one shard would be in the backup, and those before them of another not."""
    async with shards(engine, 2) as pairs:
        stop = asyncio.Event()

        async def meddle() -> None:
            while not stop.is_set():
                await speak(pairs[1][0], ("CLIENT", "UNPAUSE"))

        meddling = asyncio.ensure_future(meddle())
        shelf = open_shelf(task(pairs[0][0]).store, folder=str(tmp_path))
        try:
            with pytest.raises(SourceError, match=r"primary-1: .*CLIENT UNPAUSE"):
                await take(asked(pairs), shelf, lambda: LOGIN, patience=0.1)
        finally:
            stop.set()
            await meddling
        assert await shelf.names() == []
