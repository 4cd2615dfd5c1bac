"""A shard with one replica: what that misses while it restarts is in the archive all the same."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from backup.stream.conftest import (
    RULES,
    Replicated,
    archived,
    archiver_of,
    digest,
    fed,
    info,
    offset_of,
    replicated,
    running,
    sampled,
    shelf_in,
)
from redis_operator.backup.stream.archiver import Archiver
from redis_operator.backup.stream.catalogue import read_catalogue
from redis_operator.backup.stream.find import find_plan, find_window
from redis_operator.backup.stream.plan import AtTime, Offset
from redis_testing.servers import EngineBinary, Server
from support.pair_of_servers import eventually, speak

pytestmark = pytest.mark.servers


async def write(server: Server, name: str, count: int = 200) -> int:
    await speak(server, *(("INCR", name) for _ in range(count)))
    return await offset_of(server)


async def server_time(server: Server) -> int:
    [reply] = await speak(server, ("TIME",))
    assert isinstance(reply, list)
    return int(reply[0]) * 1_000_000 + int(reply[1])


async def attached_to(archiver: Archiver, pod: str) -> None:
    async def so() -> bool:
        return archiver.state().attached == pod

    await eventually(so)


async def moment_of(archiver: Archiver, server: Server) -> int:
    """Return a time before and after which the primary was asked, with no write in between."""
    written = await server_time(server)

    async def later_than(time: int) -> None:
        async def asked() -> bool:
            return archiver.state().sampled > time

        await eventually(asked)

    await later_than(written)
    moment = await server_time(server)
    await later_than(moment)
    return moment


async def start_over(shard: Replicated, replica: Server, primary: Server) -> None:
    """Start a replica that was killed: in memory alone, so that it copies its primary whole."""
    await replica.start()
    await speak(replica, ("ACL", "SETUSER", "backup", *RULES))
    await shard.follow(replica, primary)


async def test_a_single_replica_that_starts_over_leaves_no_gap(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with replicated(engine, 1) as shard:
        first, second = shard.servers
        archiver = archiver_of(shard, tmp_path, bridge=True)
        async with running(archiver):
            await archived(tmp_path, await write(first, "a"))
            await sampled(archiver)
            await second.kill()
            await attached_to(archiver, "")
            await write(first, "b")
            between = await moment_of(archiver, first)  # the primary is asked all the same
            await write(first, "b")
            await start_over(shard, second, first)
            end = await write(first, "c")
            await archived(tmp_path, end)
            await attached_to(archiver, "pod-1")
            assert int((await info(first))["connected_slaves"]) == 1  # the worker left
            await sampled(archiver)
            now = await digest(first)
            history = (await info(first))["master_replid"]
        catalogue = await read_catalogue(shelf_in(tmp_path))
        assert [listed.line for listed in catalogue.lines] == [1]
        assert (await find_window(catalogue)).gaps == ()
        server, servers = await fed(
            engine, tmp_path, await find_plan(catalogue, Offset(history, end))
        )
        async with servers:
            assert await digest(server) == now
        server, servers = await fed(engine, tmp_path, await find_plan(catalogue, AtTime(between)))
        async with servers:  # a time at which no worker was attached
            assert await speak(server, ("GET", "b"), ("GET", "c")) == [b"200", None]


@pytest.mark.slow
async def test_a_failover_to_the_single_replica_leaves_no_gap(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with replicated(engine, 1) as shard:
        first, second = shard.servers
        archiver = archiver_of(shard, tmp_path, bridge=True)
        async with running(archiver):
            await archived(tmp_path, await write(first, "a"))
            await first.kill()
            await speak(second, ("REPLICAOF", "NO", "ONE"))
            await attached_to(archiver, "")
            await write(second, "b")
            between = await moment_of(archiver, second)
            await write(second, "b")
            await start_over(shard, first, second)
            end = await write(second, "c")
            history = (await info(second))["master_replid"]
            await archived(tmp_path, end, history=history)
            await sampled(archiver)
            now = await digest(second)
        catalogue = await read_catalogue(shelf_in(tmp_path))
        assert [listed.line for listed in catalogue.lines] == [1]
        server, servers = await fed(
            engine, tmp_path, await find_plan(catalogue, Offset(history, end))
        )
        async with servers:
            assert await digest(server) == now
        server, servers = await fed(engine, tmp_path, await find_plan(catalogue, AtTime(between)))
        async with servers:
            assert await speak(server, ("GET", "a"), ("GET", "b")) == [b"200", b"200"]


async def test_a_shard_without_writes_can_be_gone_back_to_without_a_byte(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with replicated(engine, 1, repl_ping_replica_period="3600") as shard:
        archiver = archiver_of(shard, tmp_path)
        async with running(archiver):
            end = await write(shard.primary, "a")
            await archived(tmp_path, end)
            moment = await server_time(shard.primary)

            async def recent() -> bool:
                return archiver.state().newest > moment

            await eventually(recent)
            assert await offset_of(shard.primary) == end
            later = await write(shard.primary, "b")
            await archived(tmp_path, later)
            await sampled(archiver)
        catalogue = await read_catalogue(shelf_in(tmp_path))
        [listed] = catalogue.lines
        segments = await catalogue.segments(1, listed.segments)
        assert any(segment.size == 0 for segment in segments)
        assert all(after.first == before.last + 1 for before, after in pairwise(segments))
        found = await find_plan(catalogue, AtTime(moment))
        assert found.cut.offset == end
        server, servers = await fed(engine, tmp_path, found)
        async with servers:
            assert await speak(server, ("GET", "a"), ("GET", "b")) == [b"200", None]
