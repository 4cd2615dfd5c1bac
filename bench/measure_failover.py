"""Mode Failover on local mode: created, switched over, its primary killed, the operator away.

The peer is the same database without the operator, which is suspended: `SENTINEL FAILOVER` against
a planned switchover, and Sentinel alone against the operator after kill -9. The application tries
every server until one takes its write, on both sides; or uses the Service of the primary alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import Struct

from bench.api_load import namespace
from bench.local_cluster import LocalCluster, local_cluster
from bench.measure_kills import kill_server
from bench.measure_operator import creation, database, wait_gone, wait_ready
from bench.replicated import Replicated
from bench.rows import Row, at_most, stated
from bench.turns import RUNS, in_turns
from bench.writer import Writer
from kubecontroller.client.api import Client
from redis_operator.cli.application import Seeds
from redis_operator.operator.world import REDISES

SECONDS = 600 / 5 * RUNS
_NAME = "first"
_WRITES = 1000
_PODS = 6
_SHAPE = {"mode": "Failover", "shards": 1, "replicas": 2}
_SETTLE_SECONDS = 3.0


def run() -> list[Row]:
    """Measure one database on one local cluster of three nodes."""
    with local_cluster("bench-failover", "--nodes", "3", "--zones", "3") as cluster:
        return asyncio.run(_run(cluster))


class _Change(Struct, frozen=True):
    """One change of the primary: what the application and those who watch noticed of it."""

    wait: float
    lost: int
    label: float = 0.0  # seconds from the new role to the label, or from the operator's return
    endpoint: float = 0.0


async def _run(cluster: LocalCluster) -> list[Row]:
    client = cluster.client()
    try:
        spans = [await _created(client) for _ in range(RUNS)]
        rows = [at_most("mode Failover: Ready after its pods run", spans, "s", limit=2)]
        async with namespace(client) as place:
            await client.apply(REDISES, database(place, _NAME, **_SHAPE))
            await wait_ready(client, place, _NAME)
            subject = Replicated(client, place, _NAME)
            await subject.learn()
            rows += await _switchovers(cluster, subject)
            rows += await _kills(cluster, subject)
            await client.delete(REDISES, (place, _NAME))
            await wait_gone(client, place, _NAME)
    finally:
        await client.close()
    return rows


async def _created(client: Client) -> float:
    async with namespace(client) as place:
        took = await creation(client, database(place, _NAME, **_SHAPE), pods=_PODS)
        await client.delete(REDISES, (place, _NAME))
        await wait_gone(client, place, _NAME)
    return took


# Switchovers


async def _switchovers(cluster: LocalCluster, subject: Replicated) -> list[Row]:
    ours, plain, service = await in_turns(
        partial(_with_operator, subject, subject.by_servers(), partial(_ask_for_switch, subject)),
        partial(_without_operator, cluster, subject, _sentinel_failover, _resume),
        partial(_with_operator, subject, subject.by_service(), partial(_ask_for_switch, subject)),
    )
    name = f"mode Failover: switchover under {_WRITES} writes/s"
    return [
        *_compared(name, ours, plain, "SENTINEL FAILOVER", limit=0.25),
        at_most(f"{name}, over the Service: longest wait", _waits(service), "s", limit=0.25),
        at_most(f"{name}: lost in all", _lost([*ours, *service]), "writes", limit=0),
        *_noticed(f"{name}:", [*ours, *service]),
        stated(
            "operator resumed after SENTINEL FAILOVER: until the Service leads to the primary",
            [change.endpoint for change in plain],
            None,
            "s",
        ),
    ]


async def _ask_for_switch(subject: Replicated, old: str) -> None:
    await subject.switch_to(next(pod for pod in subject.servers if pod != old))


async def _sentinel_failover(subject: Replicated, old: str) -> None:
    del old
    await subject.sentinel_failover()


# Kills


async def _kills(cluster: LocalCluster, subject: Replicated) -> list[Row]:
    ours, plain, service = await in_turns(
        partial(_with_operator, subject, subject.by_servers(), partial(_kill, subject)),
        partial(_without_operator, cluster, subject, _kill, _restart),
        partial(_with_operator, subject, subject.by_service(), partial(_kill, subject)),
    )
    name = f"mode Failover: kill -9 of the primary under {_WRITES} writes/s"
    return [
        *_compared(name, ours, plain, "Sentinel alone", limit=0.5),
        at_most(f"{name}, over the Service: longest wait", _waits(service), "s", limit=0.5),
        *_noticed(f"{name}:", [*ours, *service]),
        stated(
            "operator killed, failover by Sentinel: from its restart until the Service leads there",
            [change.endpoint for change in plain],
            None,
            "s",
        ),
    ]


async def _kill(subject: Replicated, old: str) -> None:
    kill_server(subject.servers[old])


# One turn


async def _with_operator(
    subject: Replicated, seeds: Seeds, act: Callable[[str], Awaitable[None]]
) -> _Change:
    old = await _rested(subject)
    async with Writer(seeds, writes_per_second=_WRITES) as writer:
        await asyncio.sleep(1.0)
        await writer.reset()
        label = asyncio.create_task(subject.labelled(old))
        served = asyncio.create_task(subject.served(old))
        role = asyncio.create_task(subject.role_changed(old))
        await asyncio.sleep(0.1)
        await act(old)
        new, since = await role
        seen, led = await label, await served
        await asyncio.sleep(1.5)
        wait = await writer.longest_wait()
        await subject.wait_followed(new)
        report = await writer.finish(subject.by_pod(new))
    return _Change(wait, len(report.lost), seen - since, led - since)


async def _without_operator(
    cluster: LocalCluster,
    subject: Replicated,
    act: Callable[[Replicated, str], Awaitable[None]],
    bring_back: Callable[[LocalCluster], None],
) -> _Change:
    """Suspend the operator, act, let Sentinel do its work, and bring the operator back."""
    old = await _rested(subject)
    [operator] = cluster.processes()["operator"]
    operator.suspend()
    try:
        async with Writer(subject.by_servers(), writes_per_second=_WRITES) as writer:
            await asyncio.sleep(1.0)
            await writer.reset()
            role = asyncio.create_task(subject.role_changed(old))
            await asyncio.sleep(0.1)
            await act(subject, old)
            new, _ = await role
            await asyncio.sleep(1.5)
            wait = await writer.longest_wait()
            if act is not _kill:  # a server that was killed is told whom to follow by the operator
                await subject.wait_followed(new)
            report = await writer.finish(subject.by_pod(new))
    finally:
        back = time.perf_counter()
        bring_back(cluster)
    seen, led = await asyncio.gather(subject.labelled(old), subject.served(old))
    return _Change(wait, len(report.lost), seen - back, led - back)


def _resume(cluster: LocalCluster) -> None:
    for process in cluster.processes()["operator"]:
        process.resume()


def _restart(cluster: LocalCluster) -> None:
    """Kill it: the supervisor of local mode starts another one."""
    for process in cluster.processes()["operator"]:
        process.kill()


async def _rested(subject: Replicated) -> str:
    await subject.wait_whole()
    await asyncio.sleep(_SETTLE_SECONDS)
    return await subject.wait_whole()


# Rows


def _waits(changes: list[_Change]) -> list[float]:
    return [change.wait for change in changes]


def _lost(changes: list[_Change]) -> int:
    return sum(change.lost for change in changes)


def _compared(
    name: str, ours: list[_Change], plain: list[_Change], peer: str, *, limit: float
) -> list[Row]:
    lost = [[change.lost for change in side] for side in (ours, plain)]
    return [
        at_most(f"{name}: longest wait of a write", _waits(ours), "s", limit=limit),
        stated(f"{name}: longest wait, {peer} beside", _waits(ours), _waits(plain), "s"),
        stated(f"{name}: lost each time, {peer} beside", lost[0], lost[1], "writes"),
    ]


def _noticed(name: str, changes: list[_Change]) -> list[Row]:
    labels = [change.label for change in changes]
    endpoints = [change.endpoint for change in changes]
    return [
        at_most(f"{name} role label after the role changed", labels, "s", limit=0.5),
        at_most(f"{name} endpoint of the Service after it", endpoints, "s", limit=0.5),
    ]
