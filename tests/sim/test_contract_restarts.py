"""What a server has after its end and a new start: simulated and real servers agree."""

from __future__ import annotations

from typing import Any

import pytest

from redis_operator.redis.versions import Ability, can
from sim import fleet as f

pytestmark = pytest.mark.servers
AOF = {"appendonly": "yes", "save": ""}
ENDS = ("end", "stop")  # killed, or asked to end


async def pair(fleet_of: Any, **options: str) -> f.Fleet:
    """A primary with a replica that has its ten keys."""
    fleet = await fleet_of(2, **options)
    await f.form(fleet, primaries=1, count=2)
    for number in range(10):
        await fleet.call(0, "SET", f"k{number}", "v")

    async def copied() -> bool:
        return await f.keys(fleet, 1) == 10

    await f.until(fleet, copied)
    return fleet


@pytest.mark.parametrize("how", ENDS)
async def test_an_append_only_file_keeps_every_write_and_no_history(
    fleet_of: Any, how: str
) -> None:
    """Nobody can tell from offsets who has more once servers have started again."""
    fleet = await pair(fleet_of, **AOF)
    for _ in range(50):
        await fleet.tick()  # while an fsync is under way, what is acknowledged waits in memory
    before = await f.replication(fleet, 0)
    await fleet.freeze(1)  # a replica that syncs at once would show its primary's history
    await getattr(fleet, how)(0)
    await fleet.start(0)
    after = await f.replication(fleet, 0)
    assert await f.keys(fleet, 0) == 10
    assert after.replication_id != before.replication_id
    assert set(after.replication_id2) == {"0"}
    assert after.offset <= 1
    await fleet.thaw(1)


@pytest.mark.parametrize("how", ENDS)
async def test_a_replica_with_an_append_only_file_needs_a_full_sync(
    fleet_of: Any, how: str
) -> None:
    fleet = await pair(fleet_of, **AOF)
    before = await f.replication(fleet, 0)
    await getattr(fleet, how)(1)
    await fleet.freeze(0)
    await fleet.start(1)
    alone = await f.replication(fleet, 1)
    assert alone.replication_id != before.replication_id
    assert alone.offset <= 1
    await fleet.thaw(0)
    await f.until(fleet, lambda: f.link_up(fleet, 1))
    assert await f.keys(fleet, 1) == 10
    assert b"sync_full:2" in await fleet.call(0, "INFO", "stats")


async def test_a_snapshot_keeps_what_was_saved_and_a_killed_process_loses_the_rest(
    fleet_of: Any,
) -> None:
    fleet = await fleet_of(1)
    await fleet.call(0, "CLUSTER", "ADDSLOTSRANGE" if _new(fleet) else "ADDSLOTS", *_all(fleet))

    async def serves() -> bool:
        return b"cluster_state:ok" in await fleet.call(0, "CLUSTER", "INFO")

    await f.until(fleet, serves)
    await fleet.call(0, "SET", "saved", "v")
    await fleet.call(0, "SAVE")
    await fleet.call(0, "SET", "unsaved", "v")
    await fleet.end(0)
    await fleet.start(0)
    assert await f.keys(fleet, 0) == 1
    await f.until(fleet, serves)
    await fleet.call(0, "SET", "saved at the end", "v")
    await fleet.stop(0)
    await fleet.start(0)
    assert await f.keys(fleet, 0) == 2


def _new(fleet: f.Fleet) -> bool:
    return can(fleet.version, Ability.ADDSLOTSRANGE)


def _all(fleet: f.Fleet) -> tuple[int, ...]:
    return (0, 16383) if _new(fleet) else tuple(range(16384))


async def test_a_replica_goes_on_from_its_snapshot(fleet_of: Any) -> None:
    fleet = await pair(fleet_of)
    before = await f.replication(fleet, 0)
    await fleet.stop(1)
    await fleet.freeze(0)
    await fleet.start(1)
    alone = await f.replication(fleet, 1)
    assert alone.replication_id == before.replication_id
    assert alone.offset >= before.offset
    await fleet.thaw(0)
    await f.until(fleet, lambda: f.link_up(fleet, 1))
    assert b"sync_partial_ok:1" in await fleet.call(0, "INFO", "stats")


async def test_a_primary_that_saved_at_its_end_remembers_its_history_where_the_engine_can(
    fleet_of: Any,
) -> None:
    fleet = await pair(fleet_of)
    before = await f.replication(fleet, 0)
    await fleet.freeze(1)
    await fleet.stop(0)
    await fleet.start(0)
    after = await f.replication(fleet, 0)
    assert await f.keys(fleet, 0) == 10
    assert after.replication_id != before.replication_id
    if can(fleet.version, Ability.FUNCTIONS):
        assert after.replication_id2 == before.replication_id
        assert after.offset >= before.offset
    else:
        assert after.offset == 0
    await fleet.thaw(1)


async def test_a_replica_that_missed_more_than_the_backlog_holds_syncs_in_full(
    fleet_of: Any,
) -> None:
    fleet = await pair(fleet_of, repl_backlog_size="16kb")
    await fleet.stop(1)
    for number in range(10):
        await fleet.call(0, "SET", f"k{number}", "v" * 4000)
    await fleet.start(1)
    await f.until(fleet, lambda: f.link_up(fleet, 1))
    assert await f.keys(fleet, 1) == 10
    assert b"sync_full:2" in await fleet.call(0, "INFO", "stats")
