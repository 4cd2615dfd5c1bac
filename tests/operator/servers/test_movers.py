"""Slot moves beside the passes: one that ends early is told of, and held back for a while. CL-09"""

from __future__ import annotations

import asyncio
from typing import Any

from kubecontroller.client.meta import Key
from kubecontroller.testing.loop import run
from redis_operator.operator.errors import Failed
from redis_operator.operator.servers.movers import SlotMovers
from redis_operator.planning.at import At
from redis_operator.planning.cluster.actions import RescueKeys
from redis_operator.planning.clusters import Moving
from redis_operator.planning.identity import NodeId
from redis_operator.redis.moving import MoveProgress
from redis_operator.redis.rescue import Rescued
from redis_operator.redis.slots import SlotSet

KEY: Key = ("default", "db")
HERE, THERE = NodeId("a" * 40), NodeId("b" * 40)


async def ended_early(movers: SlotMovers, ended: asyncio.Event) -> None:
    async def work(_: object) -> None:
        raise Failed("the target refuses the keys")

    ended.clear()
    movers.start(KEY, Moving(HERE, THERE, SlotSet([1])), work)
    await ended.wait()


async def test_a_move_that_ended_early_is_told_of_and_not_begun_again_at_once() -> None:
    ended = asyncio.Event()
    movers = SlotMovers(on_end=lambda _: ended.set())
    assert movers.limitation(KEY, HERE, THERE) is None
    await ended_early(movers, ended)
    assert movers.failure(KEY) == "the target refuses the keys"
    told = movers.limitation(KEY, HERE, THERE) or ""
    assert "the next follows 1 s after it: the target refuses" in told
    await asyncio.sleep(0.6)
    assert movers.limitation(KEY, HERE, THERE) == told, "or the status would never rest"
    assert movers.limitation(KEY, THERE, HERE) is None
    for _ in range(7):
        await ended_early(movers, ended)
    assert "the next follows 60 s after it" in (movers.limitation(KEY, HERE, THERE) or "")


async def test_a_move_that_succeeds_or_whose_database_is_gone_leaves_nothing_behind() -> None:
    ended = asyncio.Event()
    movers = SlotMovers(on_end=lambda _: ended.set())
    await ended_early(movers, ended)

    async def work(_: object) -> None:
        pass

    ended.clear()
    movers.start(KEY, Moving(HERE, THERE, SlotSet([1])), work)
    await ended.wait()
    assert movers.failure(KEY) == ""
    await ended_early(movers, ended)
    movers.forget(KEY)
    assert movers.limitation(KEY, HERE, THERE) is None


def test_keys_left_because_their_owner_has_them_too_are_left_for_a_while_and_no_longer() -> None:
    async def main() -> None:
        movers = SlotMovers(on_end=lambda _: None)
        holder, owner = (
            At("db-0-0", "u0", "127.0.0.2", HERE),
            At("db-1-0", "u1", "127.0.0.3", THERE),
        )
        action = RescueKeys(holder=holder, owner=owner, slots=SlotSet([1, 2, 3]))
        twice = {1: frozenset([b"a"]), 3: frozenset([b"c"])}
        movers.rescued(KEY, action, Rescued(0, twice, SlotSet([1, 2])))
        assert movers.duplicate_strays(KEY) == ((HERE, SlotSet([1])),)
        assert movers.kept(KEY, action) == {3: frozenset([b"c"])}, "its other keys come next"
        await asyncio.sleep(200.0)
        movers.rescued(KEY, action, Rescued(0, {3: frozenset([b"c", b"d"])}, SlotSet([3])))
        assert movers.duplicate_strays(KEY) == ((HERE, SlotSet([1, 3])),)
        assert movers.kept(KEY, action) == {}
        assert movers.duplicate_strays(("default", "other")) == ()
        await asyncio.sleep(101.0)
        assert movers.duplicate_strays(KEY) == ((HERE, SlotSet([3])),)
        await asyncio.sleep(200.0)
        assert movers.duplicate_strays(KEY) == (), "more strays may have come to the same slots"
        movers.rescued(KEY, action, Rescued(0, twice, SlotSet([1])))
        movers.forget(KEY)
        assert movers.duplicate_strays(KEY) == ()
        assert movers.kept(KEY, action) == {}

    run(main())


def test_a_move_that_stands_still_tells_the_same_all_the_time() -> None:
    async def play() -> None:
        movers = SlotMovers(on_end=lambda _: None)

        async def work(journey: Any) -> None:
            await asyncio.sleep(10.0)
            journey.note(MoveProgress(100, SlotSet(range(50))))
            await asyncio.sleep(1000.0)

        movers.start(KEY, Moving(HERE, THERE, SlotSet(range(100))), work)
        await asyncio.sleep(20.0)
        told = movers.progress(KEY)
        assert told is not None
        assert told.seconds_left == 10
        await asyncio.sleep(300.0)
        assert movers.progress(KEY) == told

    run(play())
