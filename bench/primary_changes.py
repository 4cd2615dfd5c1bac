"""One change of the primary of mode Failover under load, with the operator or with Sentinel alone.

The peer is the same database without the operator, which is suspended. The application tries every
server until one takes its write, on both sides; or uses the Service of the primary alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from msgspec import Struct

from bench.api_load import namespace
from bench.local_cluster import LocalCluster
from bench.measure_operator import database, wait_gone, wait_ready
from bench.replicated import Replicated
from bench.rows import Row, at_most, stated
from bench.writer import Writer
from kubecontroller.client.api import Client
from redis_operator.cli.application import Seeds
from redis_operator.operator.world import REDISES

__all__ = [
    "NAME",
    "SHAPE",
    "WRITES",
    "Change",
    "compared",
    "noticed",
    "restart",
    "resume",
    "subject_of",
    "waits",
    "with_operator",
    "without_operator",
]

NAME = "first"
SHAPE = {"mode": "Failover", "shards": 1, "replicas": 2}
WRITES = 1000
_SETTLE_SECONDS = 3.0

Act = Callable[[Replicated, str], Awaitable[None]]
"""Does something to the database, given the pod of its primary."""


@asynccontextmanager
async def subject_of(client: Client) -> AsyncIterator[Replicated]:
    """Give a database that is whole, and have it deleted."""
    async with namespace(client) as place:
        await client.apply(REDISES, database(place, NAME, **SHAPE))
        await wait_ready(client, place, NAME)
        subject = Replicated(client, place, NAME)
        await subject.learn()
        yield subject
        await client.delete(REDISES, (place, NAME))
        await wait_gone(client, place, NAME)


class Change(Struct, frozen=True):
    """One change of the primary: what the application and those who watch noticed of it."""

    wait: float
    lost: int
    label: float = 0.0  # seconds from the new role to the label, or from the operator's return
    endpoint: float = 0.0


# One turn


async def with_operator(subject: Replicated, seeds: Seeds, act: Act) -> Change:
    old = await _rested(subject)
    async with Writer(seeds, writes_per_second=WRITES) as writer:
        await asyncio.sleep(1.0)
        await writer.reset()
        label = asyncio.create_task(subject.labelled(old))
        served = asyncio.create_task(subject.served(old))
        role = asyncio.create_task(subject.role_changed(old))
        await asyncio.sleep(0.1)
        await act(subject, old)
        new, since = await role
        seen, led = await label, await served
        await asyncio.sleep(1.5)
        wait = await writer.longest_wait()
        await subject.wait_followed(new)
        report = await writer.finish(subject.by_pod(new))
    return Change(wait, len(report.lost), seen - since, led - since)


async def without_operator(
    cluster: LocalCluster,
    subject: Replicated,
    act: Act,
    bring_back: Callable[[LocalCluster], None],
    *,
    demoted: bool,
) -> Change:
    """Suspend the operator, act, let Sentinel do its work, and bring the operator back.

    With `demoted` Sentinel makes the old primary a replica; for one that was killed the
    operator does.
    """
    old = await _rested(subject)
    [operator] = cluster.processes()["operator"]
    operator.suspend()
    try:
        async with Writer(subject.by_servers(), writes_per_second=WRITES) as writer:
            await asyncio.sleep(1.0)
            await writer.reset()
            role = asyncio.create_task(subject.role_changed(old))
            await asyncio.sleep(0.1)
            await act(subject, old)
            new, _ = await role
            await asyncio.sleep(1.5)
            wait = await writer.longest_wait()
            if demoted:
                await subject.wait_followed(new)
            report = await writer.finish(subject.by_pod(new))
    finally:
        back = time.perf_counter()
        bring_back(cluster)
    seen, led = await asyncio.gather(subject.labelled(old), subject.served(old))
    return Change(wait, len(report.lost), seen - back, led - back)


def resume(cluster: LocalCluster) -> None:
    for process in cluster.processes()["operator"]:
        process.resume()


def restart(cluster: LocalCluster) -> None:
    """Kill it: the supervisor of local mode starts another one."""
    for process in cluster.processes()["operator"]:
        process.kill()


async def _rested(subject: Replicated) -> str:
    await subject.wait_whole()
    await asyncio.sleep(_SETTLE_SECONDS)
    return await subject.wait_whole()


# Rows


def waits(changes: list[Change]) -> list[float]:
    """Return the longest wait of each."""
    return [change.wait for change in changes]


def compared(
    name: str, ours: list[Change], plain: list[Change], peer: str, *, limit: float
) -> list[Row]:
    """State what the application noticed, on both sides."""
    lost = [[change.lost for change in side] for side in (ours, plain)]
    return [
        at_most(f"{name}: longest wait of a write", waits(ours), "s", limit=limit),
        stated(f"{name}: longest wait, {peer} beside", waits(ours), waits(plain), "s"),
        stated(f"{name}: lost each time, {peer} beside", lost[0], lost[1], "writes"),
    ]


def noticed(name: str, changes: list[Change]) -> list[Row]:
    """State when the label and the endpoint followed."""
    labels = [change.label for change in changes]
    endpoints = [change.endpoint for change in changes]
    return [
        at_most(f"{name} role label after the role changed", labels, "s", limit=0.5),
        at_most(f"{name} endpoint of the Service after it", endpoints, "s", limit=0.5),
    ]
