"""The hand-over between two operators: the time without a leader after a clean stop of it.

Two processes of the operator elect each other on a local cluster without databases. Whoever leads
is asked to stop (SIGTERM); the figure ends when a watch shows the other as the holder of the lease.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench.bytecode import compiled
from bench.local_cluster import LocalCluster, local_cluster
from bench.rows import Row, at_most
from bench.turns import RUNS
from kubecontroller.client.api import Client
from kubecontroller.client.objects import LEASES
from kubecontroller.client.watch import WatchedChange

SECONDS = 60 / 5 * RUNS
_LEASE = ("default", "redis-operator")
_WITHIN = 60.0


def run() -> list[Row]:
    """Measure hand-overs in a row, each to a standby that has been there for a while."""
    with local_cluster("bench-handover", "--without-operator") as cluster, ExitStack() as stack:
        return asyncio.run(_run(cluster, stack))


async def _run(cluster: LocalCluster, stack: ExitStack) -> list[Row]:
    client = cluster.client()
    spans = []
    try:
        leader = stack.enter_context(_operator(cluster))
        holder, _ = await _holder_after(client, "")
        for _ in range(RUNS):
            standby = stack.enter_context(_operator(cluster))
            await asyncio.sleep(5)  # its caches are filled, and it waits for the lease
            begun = time.monotonic()
            leader.terminate()
            holder, at = await _holder_after(client, holder)
            spans.append(at - begun)
            await asyncio.to_thread(leader.wait, _WITHIN)
            leader = standby
    finally:
        await client.close()
    return [at_most("a standby leads after a clean stop of the leader", spans, "s", limit=1)]


async def _holder_after(client: Client, before: str) -> tuple[str, float]:
    """Wait until another holds the lease; return who, and when that was seen."""
    async with asyncio.timeout(_WITHIN):
        while True:
            async with client.watch(LEASES, namespace=_LEASE[0]) as events:
                async for event in events:
                    if not isinstance(event, WatchedChange):
                        continue
                    holder = event.object.spec.holder_identity or ""
                    if event.object.metadata.name == _LEASE[1] and holder not in {"", before}:
                        return holder, time.monotonic()


@contextmanager
def _operator(cluster: LocalCluster) -> Iterator[subprocess.Popen[bytes]]:
    """Run an operator that takes part in the election."""
    words = ("run", "--kubeconfig", str(cluster.kubeconfig), "--namespace", _LEASE[0])
    process = subprocess.Popen(
        [sys.executable, "-m", "redis_operator.cli.main", *words, "--health-port", "0"],
        env=compiled(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
