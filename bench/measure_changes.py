"""Changes of a running cluster of real servers: primaries switched, settings changed.

A planned switchover is the engine's own CLUSTER FAILOVER, sent by the operator or by hand: its
one must not be longer. How soon the old primary learns of it varies (at once, or when TCP's delayed
acknowledgement is over after 40 ms), so that many of each are taken in turns.
"""

from __future__ import annotations

import asyncio
import time

from msgspec import Struct

from bench.database import Database, engine, seeds_of, wait_ok
from bench.rows import Row, at_most, no_worse
from bench.turns import RUNS, in_turns
from bench.writer import Writer
from redis_operator.planning.advice import Switchover
from redis_operator.planning.identity import Role
from redis_operator.planning.observed import Seen
from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_testing.servers import EngineBinary, Servers

SECONDS = 900 / 5 * RUNS
_NODE_TIMEOUT = 5000
_OPTIONS = {"cluster-node-timeout": str(_NODE_TIMEOUT)}
_CLUSTERS = 2 * RUNS  # of three switchovers each


def run() -> list[Row]:
    """Measure both engines where they are here."""
    return asyncio.run(_run())


async def _run() -> list[Row]:
    rows: list[Row] = []
    for binary in (engine("redis-7"), engine("valkey-9")):
        rows += await _switchovers(binary)
        took = [await _configure(binary) for _ in range(RUNS)]
        rows.append(
            at_most(f"a live setting on all six servers, {binary.name}", took, "s", limit=1)
        )
    return rows


class _Switched(Struct, frozen=True):
    longest_wait: float
    lost: int


# Primaries


async def _switchovers(binary: EngineBinary) -> list[Row]:
    ours, plain = await in_turns(
        lambda: _switch_each(binary, by_operator=True),
        lambda: _switch_each(binary, by_operator=False),
        runs=_CLUSTERS,
    )
    name = f"planned switchover: longest wait of a write, {binary.name}"
    waits = [
        [switched.longest_wait * 1000 for cluster in side for switched in cluster]
        for side in (ours, plain)
    ]
    lost = sum(switched.lost for cluster in ours for switched in cluster)
    return [
        no_worse(f"{name}, CLUSTER FAILOVER", waits[0], waits[1], "ms"),
        at_most(f"{name}: writes lost", lost, "writes", limit=0),
    ]


async def _switch_each(binary: EngineBinary, *, by_operator: bool) -> list[_Switched]:
    """Switch the primary of each shard of one cluster, one after the other."""
    async with Servers(binary, options=_OPTIONS) as servers:
        members = await servers.start(6)
        database = Database(members, shards=3, replicas=1, node_timeout_ms=_NODE_TIMEOUT)
        observed = await database.settle()
        await wait_ok(members, seconds=30)
        moved = []
        for replica in (node for node in observed.seen if node.role is Role.REPLICA):
            async with Writer(seeds_of(members), writes_per_second=1000) as writer:
                await asyncio.sleep(1.0)
                await writer.reset()
                if by_operator:
                    database.want(switchover=Switchover(replica.pod.name))
                    await _until_primary(database, replica)
                else:
                    server = next(s for s in members if s.address.host == replica.pod.ip)
                    await server.ask(commands.failover())
                await asyncio.sleep(1.5)
                report = await writer.finish()
            moved.append(_Switched(report.longest_wait_seconds, len(report.lost)))
        database.close()
        return moved


async def _until_primary(database: Database, wanted: Seen) -> None:
    async with asyncio.timeout(30):
        while True:
            _, _, observed = await database.step()
            if any(n.id == wanted.id and n.role is Role.PRIMARY for n in observed.seen):
                return
            await asyncio.sleep(0.02)


# Settings


async def _configure(binary: EngineBinary) -> float:
    """Change a live setting and look until every server has it."""
    async with Servers(binary, options=_OPTIONS) as servers:
        members = await servers.start(6)
        database = Database(members, shards=3, replicas=1, node_timeout_ms=_NODE_TIMEOUT)
        await database.settle()
        wanted = (*database.wanted.config, ("maxmemory-policy", "allkeys-lfu"))
        begun = time.perf_counter()
        database.want(config=wanted)
        await database.settle()
        took = time.perf_counter() - begun
        question: Command[dict[str, str]] = commands.config_get("maxmemory-policy")
        for member in members:
            assert await member.ask(question) == [{"maxmemory-policy": "allkeys-lfu"}]
        database.close()
        return took
