"""One operator on local mode with few databases and with more: does each cost the same?

`BENCH_DATABASES` says how many are compared, as `10,100`: small ones of three servers without
replicas, so 300 servers; a small machine can be asked for `5,15`.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from contextlib import AsyncExitStack

from bench.api_load import namespace
from bench.local_cluster import LocalCluster, local_cluster
from bench.measure_operator import REDISES, database, wait_ready
from bench.rows import Row, at_most, stated
from bench.turns import RUNS
from kubecontroller.client.api import Client

_FEW, _MORE = (int(n) for n in os.environ.get("BENCH_DATABASES", "10,100").split(","))
_SAMPLES, _SAMPLE_SECONDS = RUNS, 60.0  # a clock tick is 10 ms: less would measure the clock
SECONDS = 120 + 2 * _SAMPLES * _SAMPLE_SECONDS + 6 * _MORE


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
    costs: dict[int, tuple[float, list[float]]] = {}
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
            f"CPU per database at rest, {_MORE} against {_FEW}",
            [share / _MORE for share in more[1]],
            [share / _FEW for share in few[1]],
            "%",
        ),
        at_most(
            f"CPU per database at rest, {_MORE} to {_FEW}",
            (statistics.median(more[1]) / _MORE) / max(statistics.median(few[1]) / _FEW, 1e-9),
            "times",
            limit=1.10,
        ),
    ]


async def _cost(cluster: LocalCluster) -> tuple[float, list[float]]:
    """Return the operator's memory in MiB and samples of its share of a core, in per cent."""
    shares = []
    for _ in range(_SAMPLES):
        before = cluster.cpu_seconds()["operator"]
        await asyncio.sleep(_SAMPLE_SECONDS)
        used = cluster.cpu_seconds()["operator"] - before
        shares.append(used / _SAMPLE_SECONDS * 100)
    return cluster.rss_mib("operator"), shares


async def _delete_all(client: Client, place: str, names: list[str]) -> None:
    await asyncio.gather(*(client.delete(REDISES, (place, name)) for name in names))
