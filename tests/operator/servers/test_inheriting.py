"""A slot that all but one took for a dead server's goes to the one promoted over it. CL-06"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_operator.operator.effects import carry_out
from redis_operator.operator.errors import Refused
from redis_operator.operator.servers.actions import Servers as Actions
from redis_operator.planning.at import at
from redis_operator.planning.cluster.actions import InheritSlots
from redis_operator.planning.observed import Observed, Seen
from redis_operator.redis import commands
from redis_operator.redis.slots import SlotSet
from redis_testing.servers import EngineBinary, Servers, find_engines

pytestmark = pytest.mark.servers


@pytest.mark.slow
@pytest.mark.parametrize("engine", find_engines(), ids=lambda engine: engine.name)
async def test_everybody_believes_the_successor_and_serves_again(
    engine: EngineBinary, database_of: Any
) -> None:
    async with Servers(engine) as servers:
        members = await servers.start(6)
        database = database_of(members, shards=3, replicas=1)
        observed = await database.settle()
        dead, chosen = _leader(observed, 1), _follower(observed, 1)
        slot = 0  # of the first shard, and empty
        for shard in (0, 2):
            host = next(s for s in members if s.address.host == _leader(observed, shard).pod.ip)
            async with await host.connect() as link:
                await link.run(commands.set_slot_node(slot, dead.id), timeout=5)
        operator = Actions(database.links, database.targets(), database)
        asked = InheritSlots(node=at(chosen), slots=SlotSet([slot]), dead=dead.id)
        with pytest.raises(Refused, match="is no longer a primary"):
            await carry_out(operator.effects(), asked)
        place = next(n for n, s in enumerate(members) if s.address.host == dead.pod.ip)
        await members[place].kill()
        while not _seen(await database.observe(), chosen).is_primary:
            await database.step()
        await carry_out(operator.effects(), asked)
        await carry_out(operator.effects(), asked)  # and once more: it is done
        async with asyncio.timeout(20):
            while not _all_serve_it(after := await database.observe(), slot, chosen):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert [n.pod.name for n in after.seen if slot in n.slots] == [chosen.pod.name]


def _all_serve_it(observed: Observed, slot: int, chosen: Seen) -> bool:
    return all(node.state_ok and _owner(node, slot) == chosen.id for node in observed.seen)


def _leader(observed: Observed, shard: int) -> Seen:
    return next(n for n in observed.seen if n.pod.shard == shard and n.is_primary)


def _follower(observed: Observed, shard: int) -> Seen:
    return next(n for n in observed.seen if n.pod.shard == shard and not n.is_primary)


def _seen(observed: Observed, wanted: Seen) -> Seen:
    return next(node for node in observed.seen if node.id == wanted.id)


def _owner(node: Seen, slot: int) -> str:
    if slot in node.slots:
        return node.id
    return next((peer.id for peer in node.peers if slot in peer.slots), "")
