"""The operator is killed again and again while it works: the next one goes on. K-01, K-02"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from e2e.harness import Cluster, until

pytestmark = pytest.mark.e2e

RESTART = "kubectl.kubernetes.io/restartedAt"


async def _kill_now_and_then(cluster: Cluster, chance: random.Random, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(chance.uniform(0.2, 1.5))
        cluster.kill_operator()
        await asyncio.sleep(1.0)


async def test_a_database_is_formed_all_the_same(watched: Any, cluster: Cluster) -> None:
    cache = await watched()
    await _kill_now_and_then(cluster, random.Random(7), 4)
    status = await cache.wait_ready(seconds=90)
    assert status["ready"] == "3/3"
    assert sorted((await cache.roles()).values()) == ["primary", "replica", "replica"]
    async with cache.writing() as writer:
        pass
    assert await cache.lost(writer) == []


async def test_a_roll_is_finished_and_loses_nothing(watched: Any, cluster: Cluster) -> None:
    cache = await watched()
    await cache.wait_ready()
    uids = await cache.uids()
    chance = random.Random(11)
    async with cache.writing() as writer:
        await cache.annotate(**{RESTART: "2026-01-01T00:00:00Z"})

        for _ in range(6):
            await _kill_now_and_then(cluster, chance, 1)
            await asyncio.sleep(3)  # time enough for a step or two

        async def replaced() -> bool:
            found = await cache.uids()
            return len(found) == 6 and not set(found.values()) & set(uids.values())

        await until(replaced, seconds=180, what="every pod to be recreated")
        status = await cache.wait_ready(seconds=90)
    assert await cache.lost(writer) == []
    assert "lastDataLoss" not in status
