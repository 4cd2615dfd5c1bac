"""What the operator tells simulated sentinels and asks of them, real ones take and answer so too.

Hellos in the words of another sentinel, and votes. Every test runs on both.
"""

from __future__ import annotations

from typing import Any

import pytest

from redis_operator.redis import sentinel
from redis_operator.redis.sentinel_replies import Vote
from sim import fleet as f
from sim import sentinel_fleet as s

pytestmark = pytest.mark.servers
CANDIDATE = "c" * 40


async def identity(group: Any, index: int) -> tuple[str, int, str]:
    """Address, port and id, as others see them."""
    own = sentinel.my_id().read(await group.call(index, "SENTINEL", "MYID"))
    other = next(n for n in group.watchers if n != index)
    known = (await s.sentinels(group, other))[own]
    return known.ip, known.port, own


async def monitor(group: Any, index: int, *hellos: Any) -> None:
    """Have a sentinel forget everything, and monitor the first server again in the same breath."""
    await group.pipe(
        index,
        ("SENTINEL", "REMOVE", s.NAME),
        ("SENTINEL", "MONITOR", s.NAME, group.ip(0), 6379, 2),
        ("SENTINEL", "SET", s.NAME, "down-after-milliseconds", 500, "failover-timeout", 3000),
        *(hello.arguments for hello in hellos),
    )


async def vote(group: Any, index: int, epoch: int, candidate: str = CANDIDATE) -> Vote:
    asked = sentinel.vote(group.ip(0), 6379, epoch, candidate)
    return asked.read(await group.call(index, *asked.arguments))


async def test_a_sentinel_knows_at_once_whom_it_is_told_of_and_asks_for_replicas_at_once(
    group_of: Any,
) -> None:
    group = await group_of(3, 3)
    await s.form(group)
    first, *others = group.watchers
    known = [await identity(group, n) for n in others]
    hellos = [sentinel.hello(who, s.NAME, (group.ip(0), 6379)) for who in known]
    await monitor(group, first, *hellos)
    assert {(o.ip, o.port, o.run_id) for o in (await s.sentinels(group, first)).values()} == {
        *known
    }
    assert (await s.primary(group, first)).config_epoch == 0

    async def whole() -> bool:
        return await s.complete(group) and await s.agree(group, 0)

    await f.until(group, whole, ticks=30)  # less than it takes until it asks again


async def test_nothing_but_hellos_can_be_published_there(group_of: Any) -> None:
    group = await group_of(1, 1)
    await s.form(group, quorum=1)
    assert "HELLO" in await s.say(group, group.watchers[0], "PUBLISH", "news", "hello")


async def test_a_sentinel_votes_once_in_an_epoch_and_tells_its_vote(group_of: Any) -> None:
    group = await group_of(2, 3)
    await s.form(group)
    first = group.watchers[0]
    assert await vote(group, first, 0) == Vote(down=False)
    assert await vote(group, first, 5) == Vote(down=False, leader=CANDIDATE, epoch=5)
    assert (await vote(group, first, 5, "d" * 40)).leader == CANDIDATE
    assert (await vote(group, first, 4, "d" * 40)) == Vote(down=False, leader=CANDIDATE, epoch=5)
    assert await vote(group, first, 0) == Vote(down=False, leader=CANDIDATE, epoch=5)
    assert (await vote(group, first, 6, "d" * 40)).leader == "d" * 40


async def test_sentinels_without_replicas_give_up_and_take_a_primary_of_a_higher_epoch(
    group_of: Any,
) -> None:
    """They elect, and know nobody to promote; who has their votes may tell them who leads. SE-02"""
    group = await group_of(2, 3)
    await s.form(group)
    who = {n: await identity(group, n) for n in group.watchers}
    await group.freeze(0)
    for watcher in group.watchers:
        told = [
            sentinel.hello(who[n], s.NAME, (group.ip(0), 6379))
            for n in group.watchers
            if n != watcher
        ]
        await monitor(group, watcher, *told)

    async def given_up() -> bool:
        found = [await s.primary(group, n) for n in group.watchers]
        return all(one.is_objectively_down and one.down_ms > 500 for one in found)

    await f.until(group, given_up)
    assert not (await s.replication(group, 1)).is_primary
    last = max([(await vote(group, n, 0)).epoch for n in group.watchers])
    votes = [await vote(group, n, last + 1) for n in group.watchers]
    assert votes == [Vote(down=True, leader=CANDIDATE, epoch=last + 1)] * 3
    await group.call(1, "REPLICAOF", "NO", "ONE")
    one, two, three = group.watchers
    for watcher, sender in ((one, two), (two, one)):
        hello = sentinel.hello(who[sender], s.NAME, (group.ip(1), 6379), epoch=last + 1)
        await group.call(watcher, *hello.arguments)
        assert await s.address(group, watcher) == group.ip(1)
        assert (await s.primary(group, watcher)).config_epoch == last + 1

    async def heard() -> bool:
        return await s.address(group, three) == group.ip(1)

    await f.until(group, heard, ticks=100)  # those that know it tell the others
    await group.thaw(0)
    await f.until(group, lambda: s.linked(group, 0, 1), ticks=700)
