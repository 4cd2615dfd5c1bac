"""One operator on local mode with few databases and with more: does each cost the same?

`BENCH_DATABASES` says how many are compared, as `5,15`: small ones of three servers without
replicas. A machine that can hold 300 servers can be asked for `10,100`.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack

from bench.api_load import namespace
from bench.local_cluster import LocalCluster, local_cluster
from bench.measure_operator import REDISES, database, wait_ready
from bench.rows import Row, at_most, stated
from redis_operator.kube.client import Client

_FEW, _MORE = (int(n) for n in os.environ.get("BENCH_DATABASES", "5,15").split(","))


def run() -> list[Row]:
    """Measure one operator."""
    with local_cluster("bench-many", "--nodes", "3", "--zones", "3") as cluster:
        return asyncio.run(_run(cluster))


async def _run(cluster: LocalCluster) -> list[Row]:
    client = cluster.client()
    try:
        async with namespace(client) as place:
            return await _many(cluster, client, place)
    finally:
        await client.close()


async def _many(cluster: LocalCluster, client: Client, place: str) -> list[Row]:
    """Compare what a database costs among few and among more."""
    small = {
        "replicas": 0,
        "resources": {"requests": {"cpu": "5m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
    }
    idle = cluster.rss_mib("operator")
    costs: dict[int, tuple[float, float]] = {}
    async with AsyncExitStack() as stack:
        made = 0
        for wanted in (_FEW, _MORE):
            names = [f"db{number:02d}" for number in range(made, wanted)]
            await asyncio.gather(
                *(client.apply(REDISES, database(place, name, **small)) for name in names)
            )
            stack.push_async_callback(_delete_all, client, place, names)
            await asyncio.gather(*(wait_ready(client, place, name) for name in names))
            made = wanted
            await asyncio.sleep(8)
            costs[wanted] = await _cost(cluster)
    few, more = costs[_FEW], costs[_MORE]
    return [
        stated("operator without databases: memory", idle, None, "MiB"),
        stated(f"operator with {_MORE} databases: memory", more[0], None, "MiB"),
        stated(
            f"CPU per database at rest, {_MORE} against {_FEW}", more[1] / _MORE, few[1] / _FEW, "%"
        ),
        at_most(
            f"CPU per database at rest, {_MORE} to {_FEW}",
            (more[1] / _MORE) / max(few[1] / _FEW, 1e-9),
            "times",
            limit=1.25,
        ),
    ]


async def _cost(cluster: LocalCluster) -> tuple[float, float]:
    """Return the operator's memory in MiB and its share of a core at rest, in per cent."""
    before = cluster.cpu_seconds()["operator"]
    await asyncio.sleep(15)
    used = cluster.cpu_seconds()["operator"] - before
    return cluster.rss_mib("operator"), used / 15 * 100


async def _delete_all(client: Client, place: str, names: list[str]) -> None:
    await asyncio.gather(*(client.delete(REDISES, (place, name)) for name in names))
