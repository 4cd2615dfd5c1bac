from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import Any

import pytest
from msgspec.structs import replace

from redis_operator.cli.application import Application, Seeds
from redis_operator.operator.effects import carry_out
from redis_operator.operator.errors import Failed
from redis_operator.operator.servers.actions import Servers as Acting
from redis_operator.planning.at import at
from redis_operator.planning.cluster.actions import Failover, FailoverMode
from redis_operator.planning.fence import Fence
from redis_operator.planning.identity import Role
from redis_operator.redis import commands
from redis_operator.redis.errors import LinkError
from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS
from redis_testing.servers import EngineBinary, Servers, find_engines

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


async def written(application: Application, count: int) -> None:
    """Wait until so many more writes are acknowledged."""
    enough = len(application.acknowledged) + count
    async with asyncio.timeout(60):
        while True:
            if len(application.acknowledged) >= enough:
                return
            await asyncio.sleep(0.01)


async def test_a_killed_primary_is_replaced_at_once_and_nothing_replicated_is_lost(
    engine: EngineBinary, database_of: Any
) -> None:
    async with Servers(engine) as servers:
        # By itself the cluster would wait for ten minutes.
        members = await servers.start(6, options={"cluster-node-timeout": "600000"})
        database = database_of(members, shards=3, replicas=1)
        observed = await database.settle()
        seeds = Seeds(tuple((s.address.host, s.address.port) for s in members))
        application = Application(seeds, writes_per_second=300)
        application.start()
        await written(application, 100)
        primary = next(n for n in observed.seen if n.role is Role.PRIMARY and n.slots)
        victim = next(s for s in members if s.address.host == primary.pod.ip)
        database.lost.clear()
        await victim.kill()
        await asyncio.wait_for(database.lost.wait(), 30.0)
        for _ in range(20):
            _, _, now = await database.step()
            if [n for n in now.seen if n.pod.shard == primary.pod.shard and n.slots]:
                break
        else:
            raise AssertionError("\n".join(database.log[-40:]))
        await written(application, 100)
        await application.stop()
        report = await application.verify()
        assert report.unfinished == 0
        assert len(report.lost) <= 3, report  # asynchronous: what the replica had not yet got
        assert report.acknowledged > 100


async def test_a_promotion_that_does_not_come_is_an_outcome_and_no_accident(
    engine: EngineBinary, database_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redis_operator.operator.servers.actions._PROMOTION_SECONDS", 0.3)
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
            await carry_out(acting.effects(), asked)


async def test_a_planned_promotion_is_not_waited_for_once_the_primary_has_ended(
    engine: EngineBinary, database_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead primary is replaced by force: every second of waiting before is an outage."""
    monkeypatch.setattr("redis_operator.operator.servers.actions._PROMOTION_SECONDS", 120.0)
    async with Servers(engine) as servers:
        members = await servers.start(6, options={"cluster-node-timeout": "600000"})
        database = database_of(members, shards=3, replicas=1)
        observed = await database.settle()
        replica = next(n for n in observed.seen if n.replica_of is not None)
        primary = next(n for n in observed.seen if n.id == replica.replica_of)
        by_host = {server.address.host: server for server in members}
        for node in observed.seen:
            if node.role is Role.PRIMARY and node is not primary:
                by_host[node.pod.ip].send_signal(signal.SIGSTOP)  # nobody votes
        asked = Failover(
            node=at(replica),
            primary=primary.id,
            mode=FailoverMode.PLAIN,
            fence=Fence.HANDSHAKE,
            primary_pod=primary.pod.name,
        )
        acting = Acting(database.links, database.targets(), database)
        handing_over = asyncio.create_task(carry_out(acting.effects(), asked))
        await asyncio.sleep(0.2)
        assert not handing_over.done()
        await by_host[primary.pod.ip].kill()
        with pytest.raises(Failed, match=f"{primary.pod.name} ended before"):
            await asyncio.wait_for(handing_over, 30.0)


async def test_a_lost_majority_is_taken_over_only_when_loss_was_accepted(
    engine: EngineBinary, database_of: Any
) -> None:
    async with Servers(engine) as servers:
        # By itself the cluster would wait for ten minutes.
        members = await servers.start(6, options={"cluster-node-timeout": "600000"})
        database = database_of(members, shards=3, replicas=1)
        observed = await database.settle()
        seeds = Seeds(tuple((s.address.host, s.address.port) for s in members))
        application = Application(seeds, writes_per_second=1000)
        application.start()
        await asyncio.sleep(0.5)
        await application.stop()
        primaries = [n for n in observed.seen if n.role is Role.PRIMARY and n.slots]
        for primary in primaries[:2]:
            await next(s for s in members if s.address.host == primary.pod.ip).kill()
        for _ in range(10):
            advice, _, _ = await database.step()
            assert not [step for step in advice.steps if isinstance(step, Failover)], advice
        assert any("2 are needed" in reason for reason in advice.blocked), advice
        gone = primaries[0].slots | primaries[1].slots
        database.wanted = replace(database.wanted, accepted_loss=gone)
        async with asyncio.timeout(30):
            while True:
                _, _, now = await database.step()
                owned = NO_SLOTS
                for node in now.seen:
                    owned |= node.slots
                if owned == ALL_SLOTS and all(node.state_ok for node in now.seen):
                    break
        assert len({node.config_epoch for node in now.seen if node.slots}) == 3
        report = await application.verify()
        assert report.lost == (), report


async def test_a_server_that_loads_its_data_is_alive_and_nothing_is_lost(
    database_of: Any,
) -> None:
    # A millisecond for each key, and an answer now and then meanwhile.
    slow = {"key-load-delay": "1000", "loading-process-events-interval-bytes": "1024"}
    async with Servers(ENGINES[-1], options=slow) as servers:
        members = await servers.start(3)
        database = database_of(members, shards=3, replicas=0)
        await database.settle()
        seeds = Seeds(tuple((s.address.host, s.address.port) for s in members))
        application = Application(seeds, writes_per_second=4000, keys_per_slot=8)
        application.start()
        async with asyncio.timeout(30):
            while len(application.acknowledged) < 6000:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await application.stop()
        victim = members[0]
        with contextlib.suppress(LinkError):  # it ends instead of answering
            await victim.ask(commands.shutdown(save=True))
        await victim.kill()
        starting = asyncio.create_task(victim.start())
        loading = 0
        async with asyncio.timeout(60):
            while True:
                advice, _, now = await database.step()
                nodes = [n for n in now.seen if n.pod.ip == victim.address.host]
                loading += sum(node.loading for node in nodes)
                assert not advice.losses, advice
                if starting.done() and nodes and not nodes[0].loading:
                    break
                await asyncio.sleep(0.02)
        assert loading > 0, "it was never seen while it loaded"
        await database.settle()
        assert (await application.verify()).lost == ()
