"""Mode Failover on local mode: created, and switched over beside `SENTINEL FAILOVER`."""

from __future__ import annotations

import asyncio
from functools import partial

from bench.api_load import namespace
from bench.local_cluster import LocalCluster, local_cluster
from bench.measure_operator import database, timed_creation, wait_gone
from bench.primary_changes import (
    NAME,
    SHAPE,
    WRITES,
    compared,
    noticed,
    resume,
    subject_of,
    waits,
    with_operator,
    without_operator,
)
from bench.replicated import Replicated
from bench.rows import Row, at_most, stated
from bench.turns import RUNS, in_turns
from kubecontroller.client.api import Client
from redis_operator.operator.world import REDISES

SECONDS = 300 / 5 * RUNS
_PODS = 6


def run() -> list[Row]:
    """Measure databases on one local cluster of three nodes."""
    with local_cluster("bench-failover", "--nodes", "3", "--zones", "3") as cluster:
        return asyncio.run(_run(cluster))


async def _run(cluster: LocalCluster) -> list[Row]:
    client = cluster.client()
    try:
        spans = [await _created(client) for _ in range(RUNS)]
        since_listening, in_all = zip(*spans, strict=True)
        rows = [
            at_most("mode Failover: Ready after its pods run", since_listening, "s", limit=2),
            stated("mode Failover: Ready after it was applied", in_all, None, "s"),
        ]
        async with subject_of(client) as subject:
            rows += await _switchovers(cluster, subject)
    finally:
        await client.close()
    return rows


async def _created(client: Client) -> tuple[float, float]:
    async with namespace(client) as place:
        took = await timed_creation(client, database(place, NAME, **SHAPE), pods=_PODS)
        await client.delete(REDISES, (place, NAME))
        await wait_gone(client, place, NAME)
    return took


async def _switchovers(cluster: LocalCluster, subject: Replicated) -> list[Row]:
    ours, plain, service = await in_turns(
        partial(with_operator, subject, subject.by_servers(), _switch),
        partial(without_operator, cluster, subject, _sentinel_failover, resume, demoted=True),
        partial(with_operator, subject, subject.by_service(), _switch),
    )
    name = f"mode Failover: switchover under {WRITES} writes/s"
    lost = sum(change.lost for change in (*ours, *service))
    return [
        *compared(name, ours, plain, "SENTINEL FAILOVER", limit=0.25),
        at_most(f"{name}, over the Service: longest wait", waits(service), "s", limit=0.25),
        at_most(f"{name}: lost in all", lost, "writes", limit=0),
        *noticed(f"{name}:", [*ours, *service]),
        stated(
            "operator resumed after SENTINEL FAILOVER: until the Service leads to the primary",
            [change.endpoint for change in plain],
            None,
            "s",
        ),
    ]


async def _switch(subject: Replicated, old: str) -> None:
    await subject.switch_to(next(pod for pod in subject.servers if pod != old))


async def _sentinel_failover(subject: Replicated, old: str) -> None:
    del old
    await subject.sentinel_failover()
