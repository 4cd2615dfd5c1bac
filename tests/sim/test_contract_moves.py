"""How keys and slots travel: what the simulated servers do, real ones do. All runs on both."""

from __future__ import annotations

from typing import Any

import pytest

from redis_operator.redis import commands
from redis_operator.redis.replies import MigrationJob
from redis_operator.redis.slots import even_shares, key_slot
from redis_operator.redis.tally import DIGEST
from redis_operator.redis.versions import Ability, can
from sim import fleet as f

pytestmark = pytest.mark.servers


async def opened(fleet: f.Fleet, ids: list[str], *keys: str) -> None:
    """Open the slots of keys to move from the first server to the second."""
    for slot in sorted({key_slot(key) for key in keys}):
        await fleet.call(1, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
        await fleet.call(0, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])


async def test_a_key_travels_with_its_time_to_live(fleet_of: Any) -> None:
    fleet = await fleet_of(2)
    ids = await f.form(fleet, primaries=2, count=2)
    key = f.key_of(0, 2)
    await fleet.call(0, "SET", key, "v", "PX", 60_000)
    await opened(fleet, ids, key)
    assert await fleet.call(0, "MIGRATE", fleet.ip(1), 6379, "", 0, 1000, "KEYS", key) == b"OK"
    _, left = await fleet.pipe(1, ("ASKING",), ("PTTL", key))
    assert 0 < left <= 60_000


async def test_a_key_whose_time_is_over_is_gone_everywhere(fleet_of: Any) -> None:
    fleet = await fleet_of(2)
    await f.form(fleet, primaries=1, count=2)
    await fleet.call(0, "SET", "k", "v", "PX", 150)

    async def gone() -> bool:
        return await f.keys(fleet, 0) == 0 and await f.keys(fleet, 1) == 0

    await f.until(fleet, gone)
    assert await fleet.call(0, "GET", "k") is None


async def test_while_a_slot_is_open_clients_are_sent_to_where_the_key_is(fleet_of: Any) -> None:
    fleet = await fleet_of(2)
    ids = await f.form(fleet, primaries=2, count=2)
    key = f.key_of(0, 2)
    await fleet.call(0, "SET", key, "old")
    await opened(fleet, ids, key)
    assert await fleet.call(0, "GET", key) == b"old"
    assert "MOVED" in await f.refusal(fleet, 1, "GET", key)
    await fleet.call(0, "MIGRATE", fleet.ip(1), 6379, "", 0, 1000, "KEYS", key)
    assert f"ASK {key_slot(key)} {fleet.ip(1)}" in await f.refusal(fleet, 0, "GET", key)
    _, value = await fleet.pipe(1, ("ASKING",), ("GET", key))
    assert value == b"old"


async def test_a_migrate_whose_target_stands_still_leaves_the_key_on_both_sides(
    fleet_of: Any,
) -> None:
    """Why a move replaces what it finds at the target, and what an owner has counts."""
    fleet = await fleet_of(2)
    ids = await f.form(fleet, primaries=2, count=2)
    key = f.key_of(0, 2)
    await fleet.call(0, "SET", key, "v")
    await opened(fleet, ids, key)
    await fleet.freeze(1)
    told = await f.refusal(fleet, 0, "MIGRATE", fleet.ip(1), 6379, "", 0, 100, "KEYS", key)
    assert "IOERR" in told
    assert await f.keys(fleet, 0) == 1
    await fleet.thaw(1)

    async def arrived() -> bool:
        return await f.keys(fleet, 1) == 1

    await f.until(fleet, arrived)
    assert await f.keys(fleet, 0) == 1


async def test_of_several_keys_those_that_are_not_refused_move(fleet_of: Any) -> None:
    fleet = await fleet_of(2)
    ids = await f.form(fleet, primaries=2, count=2)
    tag = f.key_of(0, 2)
    keys = [f"{{{tag}}}{number}" for number in range(3)]
    await opened(fleet, ids, tag)
    await fleet.pipe(1, ("ASKING",), ("SET", keys[1], "theirs"))
    for key in keys:
        # The slot is open, so a key that is not there yet would be sent on: set it before.
        await fleet.call(0, "CLUSTER", "SETSLOT", key_slot(tag), "STABLE")
        await fleet.call(0, "SET", key, "mine")
    await fleet.call(0, "CLUSTER", "SETSLOT", key_slot(tag), "MIGRATING", ids[1])
    words = ("MIGRATE", fleet.ip(1), 6379, "", 0, 1000, "KEYS", *keys)
    assert "BUSYKEY" in await f.refusal(fleet, 0, *words)
    assert await f.keys(fleet, 0) == 1
    assert await f.keys(fleet, 1) == 3


async def test_scripts_are_kept_in_memory_only(fleet_of: Any) -> None:
    fleet = await fleet_of(1)
    await fleet.call(0, "CLUSTER", "ADDSLOTS", *even_shares(1)[0])
    call = ("EVALSHA_RO", DIGEST, 0, 0, 16383)
    if not can(fleet.version, Ability.FUNCTIONS):
        assert "unknown command" in (await f.refusal(fleet, 0, *call)).lower()
        return
    assert "NOSCRIPT" in await f.refusal(fleet, 0, *call)
    loaded = await fleet.call(0, "SCRIPT", "LOAD", f.TALLY)
    assert loaded.decode() == DIGEST

    async def serves() -> bool:
        return b"cluster_state:ok" in await fleet.call(0, "CLUSTER", "INFO")

    await f.until(fleet, serves)
    await fleet.call(0, "SET", "k", "v")
    assert await fleet.call(0, *call) == [key_slot("k"), 1]
    await fleet.kill(0)
    await fleet.start(0)
    assert "NOSCRIPT" in await f.refusal(fleet, 0, *call)


# Atomic migration by Valkey


async def jobs(fleet: f.Fleet, index: int) -> tuple[MigrationJob, ...]:
    return commands.slot_migrations().read(await fleet.call(index, "CLUSTER", "GETSLOTMIGRATIONS"))


async def atomic(fleet_of: Any, count: int, primaries: int) -> tuple[f.Fleet, list[str]]:
    fleet = await fleet_of(count)
    if not can(fleet.version, Ability.MIGRATESLOTS):
        told = await f.refusal(fleet, 0, "CLUSTER", "GETSLOTMIGRATIONS")
        assert "unknown" in told.lower()
        pytest.skip("this engine has no CLUSTER MIGRATESLOTS")
    return fleet, await f.form(fleet, primaries=primaries, count=count)


def migrate(target: str) -> tuple[str | int, ...]:
    return ("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, 99, "NODE", target)


async def test_slots_move_at_once_with_their_keys_under_a_new_epoch(fleet_of: Any) -> None:
    fleet, ids = await atomic(fleet_of, 4, 3)
    keys = [key for key in f.keys_of(0, 3) if key_slot(key) < 100][:20]
    for key in keys:
        await fleet.call(0, "SET", key, "v")
    before = (await f.myself(fleet, 1)).config_epoch
    await fleet.call(0, *migrate(ids[1]))
    assert "already migrating" in await f.refusal(fleet, 0, *migrate(ids[1]))

    async def done() -> bool:
        return (await jobs(fleet, 0))[0].is_finished

    await f.until(fleet, done)
    assert (await jobs(fleet, 0))[0].is_successful
    assert set(range(100)) <= set(await f.owned(fleet, 1))
    assert not set(range(100)) & set(await f.owned(fleet, 0))
    assert (await f.myself(fleet, 1)).config_epoch > before
    assert await f.keys(fleet, 0) == 0
    assert await f.keys(fleet, 1) == len(keys)

    async def dropped() -> bool:
        return await f.keys(fleet, 3) == 0

    await f.until(fleet, dropped)  # by the source's replica too
    assert await fleet.call(1, "GET", keys[0]) == b"v"


async def test_jobs_that_cannot_be_are_refused_or_fail(fleet_of: Any) -> None:
    fleet, ids = await atomic(fleet_of, 4, 3)
    assert "Unknown node" in await f.refusal(fleet, 0, *migrate("0" * 40))
    assert "this node" in await f.refusal(fleet, 0, *migrate(ids[0]))
    assert "not served" in await f.refusal(fleet, 1, *migrate(ids[2]))
    assert "primary" in await f.refusal(fleet, 3, *migrate(ids[1]))
    assert "No migrations" in await f.refusal(fleet, 0, "CLUSTER", "CANCELSLOTMIGRATIONS")
    await fleet.call(0, *migrate(ids[3]))

    async def failed() -> bool:
        return (await jobs(fleet, 0))[0].state == "failed"

    await f.until(fleet, failed)
    assert "primary" in (await jobs(fleet, 0))[0].message


async def test_a_job_whose_target_is_gone_fails_and_the_source_has_everything(
    fleet_of: Any,
) -> None:
    fleet, ids = await atomic(fleet_of, 3, 3)
    key = next(key for key in f.keys_of(0, 3) if key_slot(key) < 100)
    await fleet.call(0, "SET", key, "v")
    await fleet.freeze(1)
    await fleet.call(0, *migrate(ids[1]))

    async def ended() -> bool:
        return (await jobs(fleet, 0))[0].is_finished

    await f.never(fleet, ended, ticks=6)
    await fleet.call(0, "CLUSTER", "CANCELSLOTMIGRATIONS")
    assert (await jobs(fleet, 0))[0].state == "cancelled"
    await fleet.call(0, *migrate(ids[1]))
    await fleet.end(1)

    await f.until(fleet, ended)
    assert (await jobs(fleet, 0))[0].state == "failed"
    assert set(range(100)) <= set(await f.owned(fleet, 0))
    assert await f.keys(fleet, 0) == 1
