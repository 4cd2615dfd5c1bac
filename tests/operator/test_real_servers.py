from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_operator.operator.errors import Failed
from redis_operator.operator.servers import Servers as Acting
from redis_operator.planning.actions import Failover, FailoverMode, Fence, at
from redis_operator.planning.observed import Role
from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS
from redis_operator.testing.application import Application, Seeds
from redis_operator.testing.servers import EngineBinary, Servers, find_engines

pytestmark = pytest.mark.servers
ENGINES = find_engines()


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.name)
def engine(request: pytest.FixtureRequest) -> EngineBinary:
    found: EngineBinary = request.param
    return found


async def test_six_fresh_servers_become_a_cluster_with_a_replica_each(
    engine: EngineBinary, database_of: Any
) -> None:
    async with Servers(engine) as servers:
        database = database_of(await servers.start(6), shards=3, replicas=1)
        observed = await database.settle()
        owned = NO_SLOTS
        for node in observed.seen:
            assert not owned & node.slots
            owned |= node.slots
        assert owned == ALL_SLOTS
        replicas = [n for n in observed.seen if n.role is Role.REPLICA]
        assert sorted(n.pod.shard for n in replicas) == [0, 1, 2]


async def test_a_killed_primary_is_replaced_at_once_and_nothing_replicated_is_lost(
    engine: EngineBinary, database_of: Any
) -> None:
    async with Servers(engine) as servers:
        members = await servers.start(6, options={"cluster-node-timeout": "30000"})
        database = database_of(members, shards=3, replicas=1)
        observed = await database.settle()
        seeds = Seeds(tuple((s.address.host, s.address.port) for s in members))
        application = Application(seeds, writes_per_second=300)
        application.start()
        await asyncio.sleep(0.5)
        primary = next(n for n in observed.seen if n.role is Role.PRIMARY and n.slots)
        victim = next(s for s in members if s.address.host == primary.pod.ip)
        database.lost.clear()
        await victim.kill()
        await asyncio.wait_for(database.lost.wait(), 1.0)
        while True:
            _, _, now = await database.step()
            heirs = [n for n in now.seen if n.pod.shard == primary.pod.shard and n.slots]
            if heirs:
                break
        await asyncio.sleep(0.5)
        await application.stop()
        report = await application.verify()
        # The engine alone would wait for its node timeout of 30 s.
        assert report.longest_wait_seconds < 15.0, database.log
        assert report.unfinished == 0
        assert len(report.lost) <= 3, report  # asynchronous: what the replica had not yet got
        assert report.acknowledged > 100


async def test_a_promotion_that_does_not_come_is_an_outcome_and_no_accident(
    engine: EngineBinary, database_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redis_operator.operator.servers._PROMOTION_SECONDS", 0.3)
    async with Servers(engine) as servers:
        members = await servers.start(6, options={"cluster-node-timeout": "30000"})
        database = database_of(members, shards=3, replicas=1)
        observed = await database.settle()
        for node in observed.seen:
            if node.role is Role.PRIMARY:  # nobody is left who could vote
                await next(s for s in members if s.address.host == node.pod.ip).kill()
        replica = next(n for n in observed.seen if n.replica_of is not None)
        asked = Failover(
            node=at(replica),
            primary=replica.replica_of,
            mode=FailoverMode.FORCE,
            fence=Fence.HANDSHAKE,
        )
        acting = Acting(database.links, database.targets(), database)
        with pytest.raises(Failed, match="was asked to take over and did not"):
            await acting.fail_over(asked)
