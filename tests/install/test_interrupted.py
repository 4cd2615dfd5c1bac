"""Installing, upgrading and removing, ended at every write and begun again: the same end."""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from install.small_cluster import SmallCluster, small_cluster
from kubecontroller.client.objects import NAMESPACES
from kubecontroller.testing.faults import (
    CRASHES,
    Crashed,
    Fault,
    FaultyTransport,
    NoFaults,
    Nth,
    Plan,
    Seeded,
)
from kubecontroller.testing.seeds import derive
from redis_operator.install.options import Options

ALL = os.environ.get("HISTORIES") == "all"  # else a run draws some
Work = Callable[[SmallCluster, FaultyTransport], Awaitable[None]]
BEFORE = Options(image="redis-operator:1", watch_namespaces=("team",))
AFTER = Options(image="redis-operator:2", replicas=3)


async def install(cluster: SmallCluster, transport: FaultyTransport) -> None:
    await cluster.installer(transport).install(BEFORE)


async def upgrade(cluster: SmallCluster, transport: FaultyTransport) -> None:
    await cluster.installer(transport).install(AFTER)


async def uninstall(cluster: SmallCluster, transport: FaultyTransport) -> None:
    await cluster.remover(transport).uninstall("redis-operator")


async def uninstall_everything(cluster: SmallCluster, transport: FaultyTransport) -> None:
    await cluster.remover(transport).uninstall("redis-operator", everything=True)


WORKS: dict[str, Work] = {
    work.__name__: work for work in (install, upgrade, uninstall, uninstall_everything)
}


async def play(work: Work, plan: Plan) -> tuple[dict[str, Any], int, list[Any]]:
    """Do it once with the plan's faults, then to the end; return that, and how many writes."""
    async with small_cluster() as cluster:
        await cluster.client.create(NAMESPACES.plain(), {"metadata": {"name": "team"}})
        if work is not install:
            await cluster.installer().install(BEFORE)
        await cluster.create_database("cache", "team")
        transport = FaultyTransport(cluster.transport, plan)
        with suppress(Crashed):
            await work(cluster, transport)
        await transport.settle()
        await work(cluster, FaultyTransport(cluster.transport, NoFaults()))
        return await cluster.state(), transport.writes, transport.journal


@pytest.mark.parametrize("name", WORKS)
async def test_the_same_end_after_a_crash_at_any_write(name: str) -> None:
    end, writes, _ = await play(WORKS[name], NoFaults())
    assert writes > 5
    blows = [(number, crash) for number in range(1, writes + 1) for crash in sorted(CRASHES)]
    if not ALL:
        blows = random.Random(derive(name)).sample(blows, 4)
    for number, crash in blows:
        found, _, struck = await play(WORKS[name], Nth(writes={number: crash}))
        assert struck, f"nothing happened at write {number}"
        assert found == end, f"{name}: {crash} at write {number} ends otherwise"


TROUBLE = {
    Fault.LOST_REPLY: 0.05,
    Fault.RESET_BEFORE: 0.1,
    Fault.RESET_AFTER: 0.1,
    Fault.CONFLICT: 0.05,
    Fault.TOO_MANY: 0.1,
    Fault.SERVER_ERROR: 0.1,
    Fault.SLOW: 0.05,
}


@pytest.mark.parametrize("name", WORKS)
async def test_the_same_end_in_one_run_over_a_server_in_trouble(name: str) -> None:
    end, _, _ = await play(WORKS[name], NoFaults())
    seed = derive(f"trouble {name}")
    found, _, struck = await play(WORKS[name], Seeded(seed, TROUBLE))
    assert len(struck) > 5
    assert found == end, f"{name} ends otherwise with faults of seed {seed}"
