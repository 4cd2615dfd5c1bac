"""Data that take more than `maxmemory`: simulated and real servers agree."""

from __future__ import annotations

from typing import Any

import pytest

from redis_operator.redis.errors import OutOfMemoryError, ReplyError
from redis_operator.redis.slots import key_slot
from sim import fleet as f

pytestmark = pytest.mark.servers


async def open_slot(fleet_of: Any) -> tuple[f.Fleet, str]:
    """Two primaries, and a slot with one key that is open from one of them to the other."""
    fleet: f.Fleet = await fleet_of(2)
    ids = await f.form(fleet, primaries=2, count=2)
    key = next(k for k in map(str, range(30)) if key_slot(k) < 8192)
    await fleet.call(0, "SET", key, "v")
    await fleet.call(1, "CLUSTER", "SETSLOT", key_slot(key), "IMPORTING", ids[0])
    await fleet.call(0, "CLUSTER", "SETSLOT", key_slot(key), "MIGRATING", ids[1])
    return fleet, key


async def migrate(fleet: f.Fleet, key: str) -> Any:
    port = (await f.nodes(fleet, 0))[await f.my_id(fleet, 1)].port
    return await fleet.call(0, "MIGRATE", fleet.ip(1), port, key, 0, 1000)


async def fill(fleet: f.Fleet, index: int) -> None:
    """Allow less memory than the server has taken already."""
    await fleet.call(index, "CONFIG", "SET", "maxmemory", "1")


async def test_writes_are_refused_and_the_rest_is_served(fleet_of: Any) -> None:
    fleet, key = await open_slot(fleet_of)
    await fill(fleet, 0)
    with pytest.raises(OutOfMemoryError):
        await fleet.call(0, "SET", key, "w")
    assert await fleet.call(0, "GET", key) == b"v"
    assert b"cluster_state:ok" in await fleet.call(0, "CLUSTER", "INFO")
    await fleet.call(0, "CONFIG", "SET", "maxmemory", "0")
    assert await fleet.call(0, "SET", key, "w") == b"OK"
    await fill(fleet, 0)
    assert await fleet.call(0, "UNLINK", key) == 1


async def test_a_key_is_not_moved_to_a_server_without_memory_and_stays(fleet_of: Any) -> None:
    fleet, key = await open_slot(fleet_of)
    await fill(fleet, 1)
    with pytest.raises(ReplyError, match="OOM"):
        await migrate(fleet, key)
    assert await fleet.call(0, "GET", key) == b"v"
    assert await f.keys(fleet, 1) == 0
    await fleet.call(1, "CONFIG", "SET", "maxmemory", "0")
    assert await migrate(fleet, key) == b"OK"
    assert [await f.keys(fleet, 0), await f.keys(fleet, 1)] == [0, 1]


async def test_a_key_is_moved_away_from_a_server_without_memory(fleet_of: Any) -> None:
    fleet, key = await open_slot(fleet_of)
    await fill(fleet, 0)
    assert await migrate(fleet, key) == b"OK"
    assert [await f.keys(fleet, 0), await f.keys(fleet, 1)] == [0, 1]


async def test_a_replica_without_memory_takes_what_its_primary_has(fleet_of: Any) -> None:
    fleet: f.Fleet = await fleet_of(2)
    await f.form(fleet, primaries=1, count=2)
    await fill(fleet, 1)
    await fleet.call(0, "SET", "k", "v")

    async def has_it() -> bool:
        return await f.keys(fleet, 1) == 1

    await f.until(fleet, has_it)
