"""Everything ends at once: with volumes the data come back, without them the loss is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.harness import until

pytestmark = pytest.mark.e2e

STORED = {"storage": {"size": "1Gi"}, "durability": {"persistence": "aof"}}


async def test_every_pod_deleted_at_once_comes_back_with_the_data(watched: Any) -> None:
    cache = await watched(**STORED)
    await cache.wait_ready(seconds=90)
    async with cache.writing() as writer:
        pass
    uids = await cache.uids()
    await cache.delete_pods(*uids)

    async def replaced() -> bool:
        found = await cache.uids()
        return len(found) == 6 and not set(found.values()) & set(uids.values())

    await until(replaced, seconds=90, what="every pod to be recreated")
    status = await cache.wait_ready(seconds=90)
    assert await cache.lost(writer) == []
    assert "lastDataLoss" not in status


async def test_every_server_killed_at_once_comes_back_with_what_its_files_have(
    watched: Any,
) -> None:
    cache = await watched(**STORED)
    await cache.wait_ready(seconds=90)
    async with cache.writing() as writer:
        pass
    await asyncio.sleep(2)  # an append-only file may lack the last second
    restarts = await cache.restarts()
    for pod in await cache.roles():
        await cache.crash(pod)

    async def again() -> bool:
        return bool(await cache.restarts() >= restarts + 3)

    await until(again, seconds=60, what="the containers to start again")
    await cache.wait_ready(seconds=90)
    assert await cache.lost(writer) == []


async def test_what_was_in_memory_only_is_told_to_be_lost(watched: Any) -> None:
    cache = await watched()
    await cache.wait_ready()
    async with cache.writing():
        pass
    await cache.delete_pods(*await cache.roles(), grace_seconds=0)

    async def told() -> Any:
        return (await cache.status()).get("lastDataLoss")

    loss = await until(told, seconds=60, what="the loss to be told")
    assert "in memory only" in loss["reason"]
    await cache.wait_ready(seconds=90)
    assert await cache.run("SET", "after", "1") == "OK"
