"""Two who ask for the same failover, a hook in the pod and the operator: one wins. CL-23"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_operator.cli.application import Application, Seeds
from redis_operator.operator.effects import carry_out
from redis_operator.operator.servers.actions import Servers as Actions
from redis_operator.planning.at import at
from redis_operator.planning.cluster.actions import Failover, FailoverMode
from redis_operator.planning.fence import Fence
from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Connection
from redis_operator.redis.errors import ReplyError
from redis_testing.servers import EngineBinary, Servers, find_engines

pytestmark = pytest.mark.servers


async def _ask(hook: Connection, command: Command[None]) -> str:
    try:
        await hook.run(command, timeout=5)
    except ReplyError as error:
        return error.message
    return "OK"


@pytest.mark.parametrize("engine", find_engines(), ids=lambda engine: engine.name)
async def test_two_who_ask_for_a_failover_at_once_make_one_primary_and_lose_nothing(
    engine: EngineBinary, database_of: Any
) -> None:
    async with Servers(engine) as servers:
        members = await servers.start(6)
        database = database_of(members, shards=3, replicas=1)
        observed = await database.settle()
        replica = next(node for node in observed.seen if not node.is_primary)
        primary = next(node for node in observed.seen if node.id == replica.replica_of)
        application = Application(
            Seeds(tuple((s.address.host, s.address.port) for s in members)), writes_per_second=300
        )
        application.start()
        await asyncio.sleep(0.3)
        asked = Failover(
            node=at(replica),
            primary=primary.id,
            mode=FailoverMode.PLAIN,
            fence=Fence.HANDSHAKE,
            primary_pod=primary.pod.name,
        )
        operator = Actions(database.links, database.targets(), database)
        host = next(s for s in members if s.address.host == replica.pod.ip)
        async with await host.connect() as hook:
            plain = commands.failover(commands.FailoverOption.COORDINATED)
            _, told = await asyncio.gather(carry_out(operator.effects(), asked), _ask(hook, plain))
            assert told == "OK" or "should send CLUSTER FAILOVER to a replica" in told
            await carry_out(operator.effects(), asked)  # and once more: it is done
        after = await database.settle()
        await application.stop()
        report = await application.verify()
        assert report.lost == (), report
        assert report.unfinished == 0
        shard = [node for node in after.seen if node.pod.shard == primary.pod.shard]
        assert [node.pod.name for node in shard if node.slots] == [replica.pod.name]
        epochs = [node.config_epoch for node in after.seen if node.slots]
        assert len(set(epochs)) == 3
