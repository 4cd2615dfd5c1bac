"""A shard of mode Cluster that is given slots while it is archived."""

from __future__ import annotations

from pathlib import Path

import pytest

from backup.stream.conftest import (
    LOGIN,
    QUICK,
    RULES,
    archived,
    begun,
    fed,
    info,
    running,
    shelf_in,
)
from redis_operator.backup.stream.archiver import Archiver, Shard
from redis_operator.backup.stream.catalogue import read_catalogue
from redis_operator.backup.stream.find import find_plan
from redis_operator.backup.stream.plan import Offset
from redis_operator.backup.task import Source
from redis_operator.redis.moving import Method
from redis_operator.redis.slots import SlotSet
from redis_testing.servers import EngineBinary
from support.pair_of_servers import eventually, fill, pair, run, speak

pytestmark = pytest.mark.servers


@pytest.mark.slow
@pytest.mark.parametrize("method", [Method.SCRIPT, Method.VALKEY_ATOMIC], ids=["keys", "atomic"])
async def test_keys_that_came_with_slots_are_archived_and_so_is_who_owned_them(
    engine: EngineBinary, tmp_path: Path, method: Method
) -> None:
    if method is Method.VALKEY_ATOMIC and engine.version.engine != "valkey":
        pytest.skip("no atomic moves")
    async with pair(engine) as found:
        slots = SlotSet(range(2, 400))
        keys = await fill(found)
        moved = sum(count for slot, count in keys.items() if slot in slots)
        servers = (found.target, found.replica)
        for server in servers:
            await speak(server, ("ACL", "SETUSER", "backup", *RULES, "+time", "+cluster"))
        sources = tuple(Source(f"pod-{n}", s.address.host) for n, s in enumerate(servers))
        version = ".".join(map(str, engine.version.number))
        archiver = Archiver(
            Shard("server-0", engine.version.engine, version, cluster=True),
            shelf_in(tmp_path),
            tmp_path / "spool",
            lambda: sources,
            lambda: LOGIN,
            limits=QUICK,
        )
        async with running(archiver):
            await begun(tmp_path)
            await run(found, found.move(slots), method)
            held = await found.keys("target")
            assert held == moved
            told = await info(found.target)
            end = int(told["master_repl_offset"])

            async def owns() -> bool:
                catalogue = await read_catalogue(shelf_in(tmp_path))
                newest = await catalogue.newest()
                return newest is not None and any(
                    slots - SlotSet.parse(owned.slots) == SlotSet() for owned in newest.owned
                )

            await eventually(owns)
            await archived(tmp_path, end)
        catalogue = await read_catalogue(shelf_in(tmp_path))
        plan = await find_plan(catalogue, Offset(told["master_replid"], end))
        assert plan.base.cluster
        server, group = await fed(
            engine, tmp_path, plan
        )  # it refuses nothing, though without slots
        async with group:
            assert await speak(server, ("DBSIZE",)) == [held]
