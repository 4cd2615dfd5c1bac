"""Slots and replicas that somebody rearranged while the operator was away. CL-15, CL-17, CL-30"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from e2e.harness import until
from redis_operator.redis import commands
from redis_operator.redis.slots import SlotSet, key_slot

pytestmark = pytest.mark.e2e


@contextmanager
def _away(cluster: Any) -> Iterator[None]:
    cluster.stop_operator()
    try:
        yield
    finally:
        cluster.start_operator()


async def test_one_primary_with_the_slots_of_two_gives_one_share_away(
    database: Any, cluster: Any
) -> None:
    cache = await database()
    await cache.wait_ready()
    uids = await cache.uids()
    greedy, poor = await cache.primary_of(0), await cache.primary_of(1)
    owner = (await cache.myself(greedy)).id
    with _away(cluster):
        slots = (await cache.myself(poor)).slots
        async with cache.server(greedy) as connection:  # the highest epoch is believed
            await connection.run(commands.bump_epoch(), timeout=5)
        for pod in (poor, await cache.primary_of(2), greedy):
            async with cache.server(pod) as connection:
                for slot in slots:
                    await connection.run(commands.set_slot_node(slot, owner), timeout=5)
        assert len((await cache.myself(greedy)).slots) > 2 * 5400

    async def shared() -> bool:
        shares = [SlotSet.parse(s.get("slots", "")) for s in (await cache.status())["shards"]]
        return sorted(len(share) for share in shares) == [5461, 5461, 5462]

    await until(shared, seconds=120, what="three equal shares")
    await cache.wait_ready()
    assert await cache.uids() == uids
    application = await cache.fill(300)
    assert await cache.check(application) == []


async def test_a_replica_of_another_shard_comes_home(database: Any, cluster: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    application = await cache.fill(300)
    uids = await cache.uids()
    home, elsewhere = await cache.primary_of(0), await cache.primary_of(1)
    replica = next(name for name in uids if name.startswith("cache-0-") and name != home)
    with _away(cluster):
        other = (await cache.myself(elsewhere)).id
        async with cache.server(replica) as connection:
            await connection.run(commands.replicate(other), timeout=5)
        assert (await cache.myself(replica)).primary == other

    async def is_home() -> bool:
        return bool((await cache.myself(replica)).primary == (await cache.myself(home)).id)

    await until(is_home, seconds=60, what=f"{replica} to follow {home}")
    await cache.wait_ready()
    assert await cache.uids() == uids
    assert await cache.check(application) == []


async def test_slots_that_nobody_owns_go_back_to_whoever_holds_their_keys(
    database: Any, cluster: Any
) -> None:
    cache = await database()
    await cache.wait_ready()
    application = await cache.fill(600)
    uids, owner = await cache.uids(), await cache.primary_of(0)
    mine = (await cache.myself(owner)).slots
    held = sorted(
        {key_slot(write) for write in application.acknowledged if key_slot(write) in mine}
    )
    dropped = SlotSet(held[:40])
    with _away(cluster):
        for pod in uids:
            async with cache.server(pod) as connection:
                await connection.run(commands.delete_slots(dropped), timeout=5)
        assert not (await cache.myself(owner)).slots & dropped
    await cache.patch(config={"slowlog-max-len": 42})  # and there is other work to do
    await cache.wait_ready(seconds=90)
    assert (await cache.myself(owner)).slots & dropped == dropped
    assert await cache.check(application) == []
    assert await cache.uids() == uids
