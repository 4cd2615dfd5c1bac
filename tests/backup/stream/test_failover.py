"""The archive follows a shard through failovers, with and without writes that were lost in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from backup.stream.conftest import (
    Replicated,
    archived,
    archiver_of,
    digest,
    fed,
    info,
    replicated,
    running,
    sampled,
    shelf_in,
)
from redis_operator.backup.stream.archiver import Archiver
from redis_operator.backup.stream.catalogue import Catalogue, read_catalogue
from redis_operator.backup.stream.find import find_plan, find_window
from redis_operator.backup.stream.plan import NotArchived, Offset, chain
from redis_testing.servers import EngineBinary, Server
from support.pair_of_servers import eventually, speak

pytestmark = pytest.mark.servers


async def attached_to(archiver: Archiver, pod: str) -> None:
    async def so() -> bool:
        return archiver.state().attached == pod

    await eventually(so)


async def restored_equals(
    engine: EngineBinary, folder: Path, primary: Server, catalogue: Catalogue
) -> None:
    newest = await catalogue.newest()
    assert newest is not None  # the primary may have sent a PING since
    assert newest.replication_id == (await info(primary))["master_replid"]
    plan = await find_plan(catalogue, Offset(newest.replication_id, newest.last))
    server, servers = await fed(engine, folder, plan)
    async with servers:
        assert await digest(server) == await digest(primary)


async def write(server: Server, name: str, count: int = 300) -> int:
    await speak(server, *(("INCR", name) for _ in range(count)))
    return int((await info(server))["master_repl_offset"])


async def promote(shard: Replicated, chosen: Server, others: list[Server]) -> None:
    await speak(chosen, ("REPLICAOF", "NO", "ONE"))
    for other in others:
        await shard.follow(other, chosen)


@pytest.mark.slow
async def test_a_promotion_goes_on_in_the_same_line(engine: EngineBinary, tmp_path: Path) -> None:
    async with replicated(engine, 2) as shard:
        first, second, third = shard.servers
        archiver = archiver_of(shard, tmp_path)
        async with running(archiver):
            await archived(tmp_path, await write(first, "a"))
            await attached_to(archiver, "pod-1")
            await first.kill()
            await promote(shard, second, [third])
            await archived(tmp_path, await write(second, "b"))
            await attached_to(archiver, "pod-2")  # a replica, not the new primary
            second_id = (await info(second))["master_replid"]
            await promote(shard, third, [second])  # and once more, while it is attached there
            end = await write(third, "c")
            catalogue = await archived(tmp_path, end)
        assert [listed.line for listed in catalogue.lines] == [1]
        [listed] = catalogue.lines
        segments = await catalogue.segments(1, listed.segments)
        assert second_id in {segment.replication_id for segment in segments}
        assert sum(1 for segment in segments if segment.parent) == 2
        assert all(span.until == span.segment.last for span in chain(segments))  # nothing orphaned
        await restored_equals(engine, tmp_path, third, await read_catalogue(shelf_in(tmp_path)))


@pytest.mark.slow
async def test_writes_that_a_failover_lost_are_kept_as_orphaned_and_not_restored(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with replicated(engine, 3, repl_ping_replica_period="3600") as shard:
        first, second, third, fourth = shard.servers
        archiver = archiver_of(shard, tmp_path)
        async with running(archiver):
            await attached_to(archiver, "pod-1")
            await archived(tmp_path, await write(first, "n", 100))
            old = await info(first)
            # Two servers hear nothing more; the archive, behind the second, does.
            await speak(first, ("CLIENT", "PAUSE", 60_000, "WRITE"))
            both = await same_offset(third, fourth)
            for server in (third, fourth):
                await speak(server, ("REPLICAOF", "127.0.0.1", 1))
            assert await same_offset(third, fourth) == both
            await speak(first, ("CLIENT", "UNPAUSE"))
            lost = await write(first, "n", 50)
            await archived(tmp_path, lost)
            await first.kill()
            await promote(shard, third, [fourth, second])
            end = await write(third, "n", 30)
            await archived(tmp_path, end, history=(await info(third))["master_replid"])
            catalogue = await read_catalogue(shelf_in(tmp_path))
        assert [listed.line for listed in catalogue.lines] == [1]
        assert await speak(third, ("GET", "n")) == [b"130"]
        await restored_equals(engine, tmp_path, third, catalogue)
        with pytest.raises(NotArchived, match="lost in a failover"):
            await find_plan(catalogue, Offset(old["master_replid"], lost))
        [listed] = catalogue.lines
        spans = chain(await catalogue.segments(1, listed.segments))
        orphaned = [span.segment.last - span.until for span in spans]
        assert sum(orphaned) >= 50 * len("*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n")


async def same_offset(*servers: Server) -> int:
    """Wait until servers have come to the same offset, and return it."""
    found: set[str] = set()

    async def same() -> bool:
        found.clear()
        found.update([(await info(server))["slave_repl_offset"] for server in servers])
        return len(found) == 1

    await eventually(same)
    return int(found.pop())


@pytest.mark.slow
async def test_a_replica_that_has_to_start_over_is_a_gap_and_no_guess(
    engine: EngineBinary, tmp_path: Path
) -> None:
    """The only replica left keeps no byte of what came before; the primary is never attached to."""
    async with replicated(engine, 2) as shard:
        first, second, third = shard.servers
        archiver = archiver_of(shard, tmp_path)
        async with running(archiver):
            await attached_to(archiver, "pod-1")
            await archived(tmp_path, await write(first, "n", 100))
            await speak(third, ("REPLICAOF", "127.0.0.1", 1))
            await archived(tmp_path, await write(first, "n", 50))
            await first.kill()
            await promote(shard, third, [second])
            end = await write(third, "n", 30)
            await archived(tmp_path, end, history=(await info(third))["master_replid"])
            await attached_to(archiver, "pod-1")
        catalogue = await read_catalogue(shelf_in(tmp_path))
        assert [listed.line for listed in catalogue.lines] == [1, 2]
        await restored_equals(engine, tmp_path, third, catalogue)


@pytest.mark.slow
async def test_a_history_that_ended_is_a_new_base_and_a_stated_gap(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with replicated(engine, 1) as shard:
        first, second = shard.servers
        archiver = archiver_of(shard, tmp_path)
        async with running(archiver):
            await sampled(archiver)
            end = await write(first, "a")
            await archived(tmp_path, end)
            old = (await info(first))["master_replid"]
            await first.kill()
            await second.kill()
            await second.start()  # in memory alone: its data and its history are gone
            await speak(second, ("ACL", "SETUSER", "backup", "on", ">secret", "-@all"))
            rights = ("psync", "replconf", "ping", "info", "multi", "exec", "time")
            await speak(second, *(("ACL", "SETUSER", "backup", f"+{right}") for right in rights))
            third = await shard.add()
            await shard.follow(third, second)

            async def begun() -> bool:
                return archiver.state().line == 2 and archiver.state().attached == "pod-2"

            await eventually(begun)
            await sampled(archiver)
            await archived(tmp_path, await write(second, "b"))

            async def seen() -> bool:
                window = await find_window(await read_catalogue(shelf_in(tmp_path)))
                return len(window.gaps) == 1

            await eventually(seen)
        catalogue = await read_catalogue(shelf_in(tmp_path))
        window = await find_window(catalogue)
        [gap] = window.gaps
        assert window.oldest < gap.after < gap.before < window.newest
        assert old in gap.reason
        await restored_equals(engine, tmp_path, second, catalogue)
        held = await find_plan(catalogue, Offset(old, end))
        server, servers = await fed(engine, tmp_path, held)
        async with servers:
            assert await speak(server, ("GET", "a"), ("GET", "b")) == [b"300", None]
