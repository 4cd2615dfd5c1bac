"""An operator that no longer leads sends nothing, neither to servers nor by a running move."""

from __future__ import annotations

import asyncio
from typing import Any

from redis_operator.operator.effects import Effect
from redis_operator.operator.errors import Refused
from redis_operator.operator.execute import Executor
from redis_operator.operator.servers.movers import SlotMovers
from redis_operator.planning.actions import Action
from redis_operator.planning.advice import Plan
from redis_operator.planning.at import At
from redis_operator.planning.cluster.actions import Forget
from redis_operator.planning.clusters import Moving
from redis_operator.planning.identity import NodeId
from redis_operator.planning.preconditions import ActionFacts
from redis_operator.redis.moving import MoveProgress
from redis_operator.redis.slots import ALL_SLOTS, SlotSet


async def test_steps_are_refused_once_the_lease_is_lost() -> None:
    def before(action: Action) -> None:
        raise Refused("this operator no longer leads")

    async def forget(action: Forget, facts: ActionFacts) -> None:
        raise AssertionError(f"{action} was carried out")

    executor = Executor({Forget: Effect(forget)}, before=before)
    place = At("cache-0-0", "uid", "127.0.0.1", NodeId("a"))
    plan = Plan(rule="forget", stages=((Forget(node=place, id=NodeId("b")),),))
    (outcome,) = await executor.carry_out(plan)
    assert outcome.error == "this operator no longer leads"


async def test_a_slot_move_ends_at_its_next_progress_once_the_lease_is_lost() -> None:
    leads, ended, steps = True, asyncio.Event(), 0
    movers = SlotMovers(on_end=lambda _: ended.set(), may_act=lambda: leads)

    async def work(journey: Any) -> None:
        nonlocal steps
        while True:
            steps += 1
            journey.note(MoveProgress(slots_moved=SlotSet(), slots_total=len(ALL_SLOTS)))
            await asyncio.sleep(0)

    movers.start(("default", "cache"), Moving(NodeId("a"), NodeId("b"), ALL_SLOTS), work)
    for _ in range(5):
        await asyncio.sleep(0)
    assert steps > 1
    assert not ended.is_set()
    leads = False
    before = steps
    await asyncio.wait_for(ended.wait(), 5)
    assert steps <= before + 1
