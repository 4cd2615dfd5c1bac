"""Real servers without storage that all end at once: served again, empty, within seconds."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace

from redis_operator.planning.cluster.actions import Failover
from redis_operator.planning.observed import Observed
from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS, SlotSet
from redis_testing.servers import EngineBinary, Server, Servers, find_engines

pytestmark = pytest.mark.servers


def _served(observed: Observed) -> SlotSet:
    slots = NO_SLOTS
    for node in observed.seen:
        if node.is_primary and node.state_ok:
            slots |= node.slots
    return slots


async def _end_and_start(victims: list[Server], owners: set[str]) -> None:
    """End servers without warning; each comes back as the boot script lets it, with no data."""
    for server in victims:
        await server.kill()
    for server in victims:
        (server.directory / "dump.rdb").unlink(missing_ok=True)  # left by a sync
        if server.address.host in owners:
            (server.directory / "nodes.conf").unlink()
        await server.start()


@pytest.mark.slow
@pytest.mark.parametrize("shards", [(0, 1, 2), (1,)], ids=["every server", "one shard"])
@pytest.mark.parametrize("engine", find_engines(), ids=lambda engine: engine.name)
async def test_servers_in_memory_that_end_at_once_serve_every_slot_again(
    engine: EngineBinary, database_of: Any, shards: tuple[int, ...]
) -> None:
    """CL-31, CL-32: soon after the servers answer, and no empty replica is promoted."""
    options = {"cluster-require-full-coverage": "no", "save": "", "cluster-node-timeout": "5000"}
    async with Servers(engine) as servers:
        members = await servers.start(6, options=options)
        database = database_of(members, shards=3, replicas=1)
        database.wanted = replace(
            database.wanted, persistent=False, volatile=True, start_empty=True
        )
        observed = await database.settle()
        owners = {node.pod.ip for node in observed.seen if node.slots}
        lost = NO_SLOTS
        for node in observed.seen:
            if node.pod.shard in shards:
                lost |= node.slots
        places = [n.pod.ip for n in observed.seen if n.pod.shard in shards]
        victims = [server for server in members if server.address.host in places]
        await _end_and_start(victims, owners)
        answering = time.monotonic()
        reported = NO_SLOTS
        observed = await database.observe()
        while _served(observed) != ALL_SLOTS or observed.unreachable:
            advice, _, observed = await database.step()
            assert not any(isinstance(step, Failover) for step in advice.steps), database.log
            for loss in advice.losses:
                reported |= loss.slots
            assert time.monotonic() - answering < 60.0, database.log[-40:]
        took = time.monotonic() - answering
        print(f"{engine.name}: served again after {took:.2f} s")
        assert reported == lost
        await database.settle()
