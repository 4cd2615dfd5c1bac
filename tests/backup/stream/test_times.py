"""A time is an offset: nothing later with `notAfter`, nothing missed with `include`."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from backup.stream.conftest import (
    QUICK,
    archived,
    archiver_of,
    begun,
    fed,
    info,
    offset_of,
    replicated,
    running,
    sampled,
    shelf_in,
)
from redis_operator.backup.stream.catalogue import read_catalogue
from redis_operator.backup.stream.find import find_plan, find_window
from redis_operator.backup.stream.plan import AtTime, Bound, NotArchived, Offset
from redis_testing.servers import EngineBinary, Server
from support.pair_of_servers import eventually, speak

pytestmark = pytest.mark.servers


async def server_time(server: Server) -> int:
    [reply] = await speak(server, ("TIME",))
    assert isinstance(reply, list)
    return int(reply[0]) * 1_000_000 + int(reply[1])


@pytest.mark.slow
async def test_a_restore_to_a_time_is_bounded_on_the_side_that_was_chosen(
    engine: EngineBinary, tmp_path: Path
) -> None:
    marks: list[tuple[int, int, int]] = []  # the counter before, the time, and the counter after
    async with replicated(engine, 1) as shard:
        archiver = archiver_of(shard, tmp_path)
        async with running(archiver):
            await archived(tmp_path, 0)
            await sampled(archiver)
            count = 0
            for _ in range(30):
                before = count
                moment = await server_time(shard.primary)
                marks.append((before, moment, 0))
                await speak(shard.primary, *(("INCR", "n") for _ in range(50)))
                count += 50
                await asyncio.sleep(0.03)
            end = await offset_of(shard.primary)
            await archived(tmp_path, end)
            moment = await server_time(shard.primary)

            async def recent() -> bool:
                found = await find_window(await read_catalogue(shelf_in(tmp_path)))
                return found.newest > moment

            await eventually(recent)
        catalogue = await read_catalogue(shelf_in(tmp_path))
        window = await find_window(catalogue)
        assert window.oldest < marks[5][1] < window.newest
        assert window.gaps == ()
        for before, moment, _ in (marks[10], marks[20], marks[29]):
            found = {}
            for bound in Bound:
                plan = await find_plan(catalogue, AtTime(moment, bound))
                server, servers = await fed(engine, tmp_path, plan)
                async with servers:
                    [value] = await speak(server, ("GET", "n"))
                    found[bound] = int(value or 0)  # type: ignore[call-overload]
            assert found[Bound.NOT_AFTER] <= before <= found[Bound.INCLUDE]
        with pytest.raises(NotArchived, match="is before what the archive has"):
            await find_plan(catalogue, AtTime(window.oldest - 3_600_000_000))
        with pytest.raises(NotArchived, match="is later than what the archive has"):
            await find_plan(catalogue, AtTime(window.newest + 3_600_000_000))


async def test_a_cut_within_a_transaction_goes_back_to_its_beginning(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with replicated(engine, 1, repl_ping_replica_period="3600") as shard:
        async with running(archiver_of(shard, tmp_path)):
            await begun(tmp_path)
            await speak(shard.primary, ("SET", "a", "before"))
            start = await offset_of(shard.primary)
            await speak(
                shard.primary, ("MULTI",), ("SET", "a", "in"), ("SET", "b", "in"), ("EXEC",)
            )
            end = await offset_of(shard.primary)
            history = (await info(shard.primary))["master_replid"]
            await archived(tmp_path, end)
        catalogue = await read_catalogue(shelf_in(tmp_path))
        for offset in (start + 3, (start + end) // 2, end - 1):
            plan = await find_plan(catalogue, Offset(history, offset))
            server, servers = await fed(engine, tmp_path, plan)
            async with servers:
                assert await speak(server, ("MGET", "a", "b")) == [[b"before", None]]


async def test_keys_that_have_expired_since_do_not_come_back(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with replicated(engine, 1) as shard:
        async with running(archiver_of(shard, tmp_path)):
            await archived(tmp_path, 0)
            short = [
                *(("SET", f"px:{n}", "x", "PX", 700) for n in range(3)),
                *(("PSETEX", f"psetex:{n}", 700, "x") for n in range(3)),
                ("SET", "expire", 5),
                ("PEXPIRE", "expire", 700),
                ("INCR", "expire"),
                ("SET", "getex", 5),
                ("GETEX", "getex", "PX", 700),
                ("SET", "long", "x", "EX", 5000),
                ("SET", "longer", "x"),
                ("EXPIRE", "longer", 6000),
                ("SET", "for-ever", "x"),
            ]
            await speak(shard.primary, *short)
            told = await info(shard.primary)
            await archived(tmp_path, int(told["master_repl_offset"]))
            given = time.time()

            async def expired() -> bool:
                return await speak(shard.primary, ("DBSIZE",)) == [3]

            await eventually(expired)
        catalogue = await read_catalogue(shelf_in(tmp_path))
        plan = await find_plan(
            catalogue, Offset(told["master_replid"], int(told["master_repl_offset"]))
        )
        server, servers = await fed(engine, tmp_path, plan)
        async with servers:
            keys = [f"{kind}:{n}" for kind in ("px", "psetex") for n in range(3)]
            gone = await speak(server, ("EXISTS", *keys, "expire", "getex"))
            assert gone == [0]
            ttls = await speak(server, ("PTTL", "long"), ("PTTL", "longer"), ("PTTL", "for-ever"))
            passed = (time.time() - given) * 1000
            long, longer, for_ever = (int(str(ttl)) for ttl in ttls)
            assert for_ever == -1
            assert 0 < 5_000_000 - long < passed + 10_000
            assert 0 < 6_000_000 - longer < passed + 10_000


@pytest.mark.slow
async def test_a_later_base_spares_the_stream_before_it(
    engine: EngineBinary, tmp_path: Path
) -> None:
    async with replicated(engine, 1) as shard:
        limits = replace(QUICK, base_seconds=1.0)
        async with running(archiver_of(shard, tmp_path, limits=limits)):
            for _ in range(8):
                await speak(shard.primary, *(("INCR", "n") for _ in range(100)))
                await archived(tmp_path, await offset_of(shard.primary))
            told = await info(shard.primary)

            async def several() -> bool:
                catalogue = await read_catalogue(shelf_in(tmp_path))
                return len(catalogue.lines[0].bases) > 2

            await eventually(several)
            end = await offset_of(shard.primary)
            await archived(tmp_path, end)
        catalogue = await read_catalogue(shelf_in(tmp_path))
        plan = await find_plan(catalogue, Offset(told["master_replid"], end))
        assert plan.base.number > 1
        server, servers = await fed(engine, tmp_path, plan)
        async with servers:
            assert await speak(server, ("GET", "n")) == [b"800"]
