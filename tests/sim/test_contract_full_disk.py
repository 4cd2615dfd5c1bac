"""Disks that are full and files that were cut off: simulated and real servers agree."""

from __future__ import annotations

from typing import Any

import pytest

from redis_operator.redis.errors import MisconfError
from redis_operator.redis.versions import Ability, can
from sim import fleet as f

pytestmark = pytest.mark.servers
AOF = {"appendonly": "yes", "save": ""}


async def pair(fleet_of: Any) -> f.Fleet:
    """A primary with a replica, each with one key in its file."""
    fleet: f.Fleet = await fleet_of(2, **AOF)
    await f.form(fleet, primaries=1, count=2)
    await fleet.call(0, "SET", "first", "v")
    await f.until(fleet, lambda: has(fleet, 1, 1))
    for _ in range(30):
        await fleet.tick()  # an fsync comes once a second
    return fleet


async def has(fleet: f.Fleet, index: int, count: int) -> bool:
    return await f.keys(fleet, index) == count


async def test_a_primary_whose_disk_is_full_refuses_writes_and_serves_reads(fleet_of: Any) -> None:
    fleet = await pair(fleet_of)
    await fleet.fill_disk(0)

    async def refuses() -> bool:
        try:
            await fleet.call(0, "SET", "second", "v" * 2000)
        except MisconfError:
            return True
        return False

    await f.until(fleet, refuses)
    with pytest.raises(MisconfError):
        await fleet.call(0, "PING")
    assert await fleet.call(0, "GET", "first") == b"v"
    assert b"aof_last_write_status:err" in await fleet.call(0, "INFO", "persistence")
    assert b"cluster_state:ok" in await fleet.call(0, "CLUSTER", "INFO")
    await fleet.make_room(0)

    async def writes() -> bool:
        return not await refuses()

    await f.until(fleet, writes)


async def test_a_replica_whose_disk_is_full_goes_on_in_memory_or_ends(fleet_of: Any) -> None:
    fleet = await pair(fleet_of)
    await fleet.fill_disk(1)
    await fleet.call(0, "SET", "second", "v" * 2000)
    if can(fleet.version, Ability.FUNCTIONS):

        async def ended() -> bool:
            await fleet.call(0, "SET", "second", "v" * 2000)
            return not fleet.runs(1)

        await f.until(fleet, ended)
        assert await f.keys(fleet, 0) == 2
        return
    await f.until(fleet, lambda: has(fleet, 1, 2))
    await fleet.end(1)
    await fleet.freeze(0)
    await fleet.start(1)
    assert await f.keys(fleet, 1) == 1
    await fleet.thaw(0)


async def test_a_file_that_was_cut_off_loads_without_its_last_write(fleet_of: Any) -> None:
    fleet = await pair(fleet_of)
    await fleet.call(0, "SET", "second", "v")
    await fleet.call(0, "SET", "third", "v")
    await f.until(fleet, lambda: has(fleet, 1, 3))
    for _ in range(30):
        await fleet.tick()
    await fleet.freeze(1)
    await fleet.end(0)
    await fleet.cut_last_write(0, "third")
    await fleet.start(0)
    assert await f.keys(fleet, 0) == 2
    await fleet.thaw(1)
