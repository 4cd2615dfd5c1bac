"""The one server ends and comes back: with its data from a volume, and with a loss told without."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.harness import until

pytestmark = pytest.mark.e2e

ACCEPT = "redisoperator.dev/accept-data-loss"
RESTART = "kubectl.kubernetes.io/restartedAt"


async def test_a_deleted_pod_comes_back_with_the_data_of_its_volume(
    alone: Any, stored: dict[str, Any]
) -> None:
    cache = await alone(**stored)
    await cache.wait_ready(seconds=90)
    await cache.write(200)
    old = (await cache.uids())["cache-0"]
    await cache.delete_pods("cache-0")
    await cache.wait_new_pod(old)
    assert await cache.lost() == []
    assert "lastDataLoss" not in await cache.status()


async def test_a_killed_server_comes_back_with_what_its_volume_has(
    alone: Any, stored: dict[str, Any]
) -> None:
    cache = await alone(**stored)
    await cache.wait_ready(seconds=90)
    await cache.write(200)
    await asyncio.sleep(2)  # an append-only file may lack the last second
    restarts = await cache.restarts()
    await cache.crash("cache-0")

    async def again() -> bool:
        return bool(await cache.restarts() > restarts)

    await until(again, seconds=60, what="the container to start again")
    await cache.wait_ready()
    assert await cache.lost() == []
    assert "lastDataLoss" not in await cache.status()


@pytest.mark.parametrize("how", ["deleted", "crashed"])
async def test_what_was_in_memory_only_is_told_to_be_lost(alone: Any, how: str) -> None:
    cache = await alone()
    await cache.wait_ready()
    await cache.write(20)
    if how == "deleted":
        await cache.delete_pods("cache-0")
    else:
        await cache.crash("cache-0")

    async def told() -> Any:
        return (await cache.status()).get("lastDataLoss")

    loss = await until(told, seconds=60, what="the loss to be told")
    assert "cache-0 was restarted" in loss["reason"]
    assert loss["action"].startswith("StartedEmpty")
    status = await cache.wait_ready()
    assert status["lastDataLoss"] == loss
    await cache.run("SET", "after", "1")


async def test_planned_restarts_lose_no_acknowledged_write(
    alone: Any, stored: dict[str, Any]
) -> None:
    cache = await alone(**stored)
    await cache.wait_ready(seconds=90)
    old = (await cache.uids())["cache-0"]
    async with cache.under_load():
        await cache.annotate(**{RESTART: "2026-01-01T00:00:00Z"})
        await cache.wait_new_pod(old, seconds=90)
    assert len(cache.acknowledged) > 50
    assert await cache.lost() == []


async def test_a_restart_that_would_lose_all_waits_until_the_loss_is_accepted(alone: Any) -> None:
    cache = await alone()
    await cache.wait_ready()
    await cache.write(20)
    uids = await cache.uids()
    await cache.annotate(**{RESTART: "2026-01-01T00:00:00Z"})
    line = await cache.wait_plan("a restart loses all data")
    assert f"{ACCEPT}=restart" in line
    assert await cache.uids() == uids
    assert await cache.lost() == []
    await cache.annotate(**{ACCEPT: "restart"})
    await cache.wait_new_pod(uids["cache-0"])

    async def closed() -> bool:
        found = (await cache.get())["metadata"].get("annotations") or {}
        return ACCEPT not in found

    await until(closed, seconds=30, what="the acceptance to be used up")
    assert (await cache.status())["lastDataLoss"]["reason"]


async def test_a_volume_that_lost_its_files_is_held_until_the_loss_is_accepted(
    alone: Any, stored: dict[str, Any]
) -> None:
    cache = await alone(**stored)
    await cache.wait_ready(seconds=90)
    await cache.write(20)
    cache.cluster.kubectl("-n", cache.namespace, "delete", "pvc", "data-cache-0", "--wait=false")
    await cache.delete_pods("cache-0")
    found = await cache.wait_condition("Degraded", "True", reason="DataLost", seconds=120)
    assert f"{ACCEPT}=all" in found["message"]
    assert (await cache.status())["phase"] == "Failed"
    assert (await cache.status())["lastDataLoss"]["action"].startswith("Held")
    await cache.annotate(**{ACCEPT: "all"})
    await cache.wait_ready(seconds=120)
    assert await cache.run("DBSIZE") == 0
