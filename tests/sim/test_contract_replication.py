"""What simulated servers without cluster support do as replicas, real ones do."""

from __future__ import annotations

from typing import Any

import pytest

from sim import fleet as f
from sim import sentinel_fleet as s

pytestmark = pytest.mark.servers


async def test_a_replica_has_the_data_and_the_history_and_takes_no_writes(group_of: Any) -> None:
    group = await group_of(2, 0)
    await group.call(0, "SET", "k", "v")
    await s.follow(group, 1, 0)
    assert await f.keys(group, 1) == 1
    assert "READONLY" in await f.refusal(group, 1, "SET", "k", "w")
    assert "Already" in await s.say(group, 1, "REPLICAOF", group.ip(0), 6379)
    above = await s.replication(group, 0)
    assert (above.connected_replicas, above.replicas[0].ip) == (1, group.ip(1))


async def test_a_promoted_replica_goes_on_under_a_new_id_and_knows_the_old_one(
    group_of: Any,
) -> None:
    group = await group_of(2, 0)
    await group.call(0, "SET", "k", "v")
    await s.follow(group, 1, 0)
    before = await s.replication(group, 0)
    await group.call(1, "REPLICAOF", "NO", "ONE")
    after = await s.replication(group, 1)
    assert after.is_primary
    assert after.replication_id != before.replication_id
    assert after.replication_id2 == before.replication_id
    assert after.second_offset == after.offset + 1
    await group.call(1, "SET", "k2", "v")


async def test_an_old_primary_that_is_not_ahead_follows_without_a_full_sync(group_of: Any) -> None:
    group = await group_of(2, 0)
    await group.call(0, "SET", "k", "v")
    await s.follow(group, 1, 0)
    await f.until(group, lambda: s.linked(group, 1, 0))
    await group.call(1, "REPLICAOF", "NO", "ONE")
    await group.call(1, "SET", "k2", "v")
    await s.follow(group, 0, 1)
    stats = await s.stats(group, 1)
    assert (stats.full_syncs, stats.partial_syncs) == (0, 1)
    assert await f.keys(group, 0) == 2


async def test_an_old_primary_that_is_ahead_loses_its_tail_in_a_full_sync(group_of: Any) -> None:
    """The offsets alone do not tell it: later the new one is further."""
    group = await group_of(2, 0)
    await group.call(0, "SET", "k", "v")
    await s.follow(group, 1, 0)
    await f.until(group, lambda: s.linked(group, 1, 0))
    await group.call(1, "REPLICAOF", "NO", "ONE")
    await group.call(0, "SET", "tail", "v")
    for number in range(9):
        await group.call(1, "SET", f"more{number}", "v")
    await s.follow(group, 0, 1)
    assert (await s.stats(group, 1)).full_syncs == 1
    assert await group.call(0, "GET", "tail") is None
    assert await f.keys(group, 0) == 10


async def test_replicas_of_replicas_have_the_history_of_the_first(group_of: Any) -> None:
    group = await group_of(3, 0)
    await s.follow(group, 1, 0)
    await s.follow(group, 2, 1)
    await group.call(0, "SET", "k", "v")

    async def arrived() -> bool:
        return await f.keys(group, 2) == 1

    await f.until(group, arrived)
    ids = {(await s.replication(group, index)).replication_id for index in range(3)}
    assert len(ids) == 1
    await group.call(1, "REPLICAOF", "NO", "ONE")
    await f.until(group, lambda: s.linked(group, 2, 1))
    assert (await s.stats(group, 1)).full_syncs <= 1  # the one before


async def test_servers_that_follow_each_other_take_no_writes_and_keep_theirs(group_of: Any) -> None:
    """Whether real ones are linked then is a matter of chance.

    Who is told to follow connects at once. If the other one has noticed by then that its own link
    is gone, it refuses (NOMASTERLINK), and none is linked; if not, it goes on, and both are.
    """
    group = await group_of(2, 0)
    await group.call(0, "SET", "k", "v")
    await s.follow(group, 1, 0)
    await group.call(0, "REPLICAOF", group.ip(1), 6379)

    async def leads() -> bool:
        return any([(await s.replication(group, index)).is_primary for index in (0, 1)])

    await f.never(group, leads, ticks=20)
    for index in (0, 1):
        assert "READONLY" in await f.refusal(group, index, "SET", "k", "w")
    await group.call(0, "REPLICAOF", "NO", "ONE")
    await f.until(group, lambda: s.linked(group, 1, 0))
    assert [await f.keys(group, index) for index in (0, 1)] == [1, 1]
    await group.call(0, "SET", "k2", "v")


async def test_a_primary_that_starts_empty_empties_its_replicas(group_of: Any) -> None:
    """I9: nothing else than not starting as a primary helps."""
    group = await group_of(2, 0)
    await group.call(0, "SET", "k", "v")
    await s.follow(group, 1, 0)
    await group.end(0)
    await group.start(0, empty=True)

    async def emptied() -> bool:
        return await f.link_up(group, 1) and await f.keys(group, 1) == 0

    await f.until(group, emptied)


async def test_a_replica_without_a_primary_keeps_its_data_and_its_place(group_of: Any) -> None:
    group = await group_of(2, 0)
    await group.call(0, "SET", "k", "v")
    await s.follow(group, 1, 0)
    before = await s.replication(group, 1)
    await group.end(0)

    async def apart() -> bool:
        return not await f.link_up(group, 1)

    await f.until(group, apart)
    after = await s.replication(group, 1)
    assert not after.is_primary
    assert (after.replication_id, after.offset) == (before.replication_id, before.offset)
    await group.call(1, "REPLICAOF", "127.0.0.1", 1)  # where nothing listens
    after = await s.replication(group, 1)
    assert (after.replication_id, after.offset) == (before.replication_id, before.offset)
    assert await f.keys(group, 1) == 1


async def test_failover_swaps_the_two_and_loses_nothing(group_of: Any) -> None:
    group = await group_of(2, 0)
    assert "requires" in await s.say(group, 0, "FAILOVER", "TO", group.ip(1), 6379)
    assert "No failover" in await s.say(group, 0, "FAILOVER", "ABORT")
    await s.follow(group, 1, 0)
    assert "not a replica" in await s.say(group, 0, "FAILOVER", "TO", "127.0.0.1", 9)
    await group.call(0, "SET", "k", "v")
    await group.call(0, "FAILOVER", "TO", group.ip(1), 6379, "TIMEOUT", 9000)
    await f.until(group, lambda: s.linked(group, 0, 1))
    assert await f.keys(group, 1) == 1
    assert (await s.replication(group, 1)).is_primary
    assert "replica" in await s.say(group, 0, "FAILOVER", "TO", group.ip(1), 6379)


async def test_a_primary_without_enough_replicas_refuses_writes(group_of: Any) -> None:
    group = await group_of(2, 0)
    await group.call(0, "CONFIG", "SET", "min-replicas-to-write", 1)
    assert "NOREPLICAS" in await f.refusal(group, 0, "SET", "k", "v")
    await s.follow(group, 1, 0)

    async def taken() -> bool:
        return "NOREPLICAS" not in await s.say(group, 0, "SET", "k", "v")

    await f.until(group, taken)


async def test_a_primary_counts_a_silent_replica_until_its_lag_is_too_long(group_of: Any) -> None:
    """What a primary takes in these seconds after it was cut off is lost if another one leads."""
    group = await group_of(2, 0)
    await group.call(0, "CONFIG", "SET", "min-replicas-to-write", 1)
    await group.call(0, "CONFIG", "SET", "min-replicas-max-lag", 2)
    await s.follow(group, 1, 0)

    async def taken() -> bool:
        return "NOREPLICAS" not in await s.say(group, 0, "SET", "k", "v")

    async def refused() -> bool:
        return not await taken()

    await f.until(group, taken)
    await group.freeze(1)
    assert await taken()
    await f.until(group, refused)
    await group.thaw(1)
    await f.until(group, taken)
