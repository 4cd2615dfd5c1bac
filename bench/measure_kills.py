"""A hundred primaries killed with -9 on local mode, under the operator as it runs there.

`BENCH_KILLS` says how many. After each the next waits until every shard has its replica again.
"""

from __future__ import annotations

import asyncio
import os
import statistics

import psutil

from bench.api_load import namespace
from bench.local_cluster import LocalCluster, local_cluster
from bench.measure_operator import REDISES, connection_seeds, database, wait_ready
from bench.rows import Row, at_most, stated
from bench.writer import Writer
from redis_operator.cli.application import Seeds
from redis_operator.redis import commands
from redis_operator.redis.connection import Address, Credentials, connect
from redis_operator.redis.errors import RedisError
from redis_operator.redis.replies import InfoReplication

_KILLS = int(os.environ.get("BENCH_KILLS", "100"))
_HEALED_SECONDS = 60.0
SECONDS = 60 + 6 * _KILLS


def run() -> list[Row]:
    """Measure the operator process with its API server, caches, queue and links."""
    with local_cluster("bench-kills", "--nodes", "3", "--zones", "3") as cluster:
        return asyncio.run(_run(cluster))


async def _run(cluster: LocalCluster) -> list[Row]:
    client = cluster.client()
    waits: list[float] = []
    try:
        async with namespace(client) as place:
            await client.apply(REDISES, database(place, "first"))
            await wait_ready(client, place, "first")
            seeds = await connection_seeds(client, place, "first")
            async with Writer(seeds, writes_per_second=500) as writer:
                for number in range(_KILLS):
                    primaries = await _wait_healed(seeds)
                    await asyncio.sleep(0.5)
                    await writer.reset()
                    kill_server(sorted(primaries)[number % len(primaries)])
                    await asyncio.sleep(2.0)
                    waits.append(await writer.longest_wait())
                report = await writer.finish()
            await client.delete(REDISES, (place, "first"))
    finally:
        await client.close()
    cuts = statistics.quantiles(waits, n=100, method="inclusive")
    name = f"kill -9 of a primary under the operator, {_KILLS} times: longest wait of a write"
    return [
        at_most(f"{name}, p99", cuts[98], "s", limit=0.15),
        stated(f"{name}, each", waits, None, "s"),
        stated(f"{name}: acknowledged writes lost", len(report.lost), None, "writes"),
    ]


async def _wait_healed(seeds: Seeds) -> list[str]:
    """Wait until there are three primaries with a replica each; return their addresses."""
    async with asyncio.timeout(_HEALED_SECONDS):
        while True:
            found = await asyncio.gather(*(_ask(host, seeds) for host, _ in seeds.addresses))
            primaries = [host for host, info in found if info is not None and info.is_primary]
            served = [
                info
                for _, info in found
                if info is not None and any(line.state == "online" for line in info.replicas)
            ]
            if len(primaries) == len(served) == 3:
                return primaries
            await asyncio.sleep(0.1)


async def _ask(host: str, seeds: Seeds) -> tuple[str, InfoReplication | None]:
    login = Credentials(seeds.username, seeds.password)
    try:
        async with await connect(Address(host, 6379), credentials=login, timeout=2) as connection:
            return host, await connection.run(commands.info_replication(), timeout=2)
    except RedisError:
        return host, None


def kill_server(host: str) -> None:
    """Kill the server process that listens at a pod's address."""
    for found in psutil.net_connections("tcp"):
        listens = found.status == psutil.CONN_LISTEN and found.laddr.port == 6379
        if listens and found.laddr.ip == host and found.pid:
            psutil.Process(found.pid).kill()
            return
    raise RuntimeError(f"there is no process that listens at {host}:6379")
