"""Mode Failover on local mode: kill -9 of the primary, with the operator beside Sentinel alone."""

from __future__ import annotations

import asyncio
from functools import partial

from bench.local_cluster import LocalCluster, local_cluster
from bench.measure_kills import kill_server
from bench.primary_changes import (
    WRITES,
    compared,
    noticed,
    restart,
    subject_of,
    waits,
    with_operator,
    without_operator,
)
from bench.replicated import Replicated
from bench.rows import Row, at_most, stated
from bench.turns import RUNS, in_turns

SECONDS = 300 / 5 * RUNS


def run() -> list[Row]:
    """Measure one database on one local cluster of three nodes."""
    with local_cluster("bench-failover-kills", "--nodes", "3", "--zones", "3") as cluster:
        return asyncio.run(_run(cluster))


async def _run(cluster: LocalCluster) -> list[Row]:
    client = cluster.client()
    try:
        async with subject_of(client) as subject:
            return await _kills(cluster, subject)
    finally:
        await client.close()


async def _kills(cluster: LocalCluster, subject: Replicated) -> list[Row]:
    ours, plain, service = await in_turns(
        partial(with_operator, subject, subject.by_servers(), _kill),
        partial(without_operator, cluster, subject, _kill, restart, demoted=False),
        partial(with_operator, subject, subject.by_service(), _kill),
    )
    name = f"mode Failover: kill -9 of the primary under {WRITES} writes/s"
    return [
        *compared(name, ours, plain, "Sentinel alone", limit=0.5),
        at_most(f"{name}, over the Service: longest wait", waits(service), "s", limit=0.5),
        *noticed(f"{name}:", [*ours, *service]),
        stated(
            "operator killed, failover by Sentinel: from its restart until the Service leads there",
            [change.endpoint for change in plain],
            None,
            "s",
        ),
    ]


async def _kill(subject: Replicated, old: str) -> None:
    kill_server(subject.servers[old])
