from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.harness import PATIENCE, until
from kubecontroller.client.objects import Pod
from redis_operator.redis import commands
from redis_operator.redis.slots import key_slot

pytestmark = pytest.mark.e2e


async def test_all_pods_deleted_at_once_come_back_with_new_addresses_and_all_data(
    database: Any,
) -> None:
    """CL-02. Whether anything stands still meanwhile is a race: a primary whose replica is back
    before it has ended itself hands over, and every slot is served all the while.
    """
    cache = await database(storage={"size": "1Gi"}, durability={"persistence": "aof"})
    await cache.wait_ready()
    async with cache.under_load(resolving=True) as application:
        before = await cache.pods()
        await cache.delete_pods(*before)
        await until(lambda: _all_new(cache, before), seconds=60, what="six new pods")
        await cache.wait_ready(seconds=120)
    after = await cache.pods()
    assert not _addresses(after) & _addresses(before)
    report = await application.verify()
    assert report.lost == (), report


async def test_servers_with_an_append_only_file_that_are_killed_at_once_write_again_within_seconds(
    database: Any,
) -> None:
    cache = await database(storage={"size": "1Gi"}, durability={"persistence": "aof"})
    await cache.wait_ready()
    async with cache.under_load() as application:
        await asyncio.gather(*(cache.crash(pod) for pod in await cache.pods()))
        await until(lambda: _restarted(cache, 6), seconds=60, what="six restarts")
        await cache.wait_ready(seconds=60)
    report = await application.verify()
    assert report.lost == (), report
    assert report.longest_wait_seconds < 5 * PATIENCE, report


async def test_a_database_in_memory_that_lost_everything_serves_again_and_records_the_loss(
    database: Any,
) -> None:
    cache = await database()
    await cache.wait_ready()
    await cache.fill(100)
    await cache.delete_pods(*(await cache.pods()), grace_seconds=0)
    loss = await _recorded_loss(cache)
    assert loss["slots"] == "0-16383"
    await cache.wait_ready(seconds=60)
    assert await cache.check(await cache.fill(100)) == []


async def test_servers_in_memory_that_are_killed_at_once_serve_again_and_the_loss_is_recorded(
    database: Any,
) -> None:
    """CL-31: kill -9 of everything; the containers restart in place, as after a reboot."""
    cache = await database()
    await cache.wait_ready()
    await cache.fill(100)
    await asyncio.gather(*(cache.crash(pod) for pod in await cache.pods()))
    loss = await _recorded_loss(cache)
    assert loss["slots"] == "0-16383"
    assert loss["action"].startswith("StartedEmpty")
    await cache.wait_ready(seconds=60)
    assert await cache.check(await cache.fill(100)) == []


async def test_both_servers_of_a_shard_in_memory_that_restart_cost_its_slots_and_no_others(
    database: Any,
) -> None:
    """CL-32: an empty replica is never promoted as a copy; the others serve on."""
    cache = await database()
    await cache.wait_ready()
    before = await cache.fill(300)
    others = {pod: (await cache.myself(pod)).id for pod in await cache.pods()}
    await asyncio.gather(*(cache.crash(pod) for pod in ("cache-1-0", "cache-1-1")))
    loss = await _recorded_loss(cache)
    assert loss["slots"] == "5461-10921"
    assert loss["action"].startswith("StartedEmpty")
    await cache.wait_ready(seconds=60)
    assert await _lost_outside(cache, before, range(5461, 10922)) == []
    for pod, node in others.items():
        if not pod.startswith("cache-1-"):
            assert (await cache.myself(pod)).id == node
    assert await cache.check(await cache.fill(100)) == []


async def test_a_shard_with_snapshots_whose_servers_are_killed_at_once_writes_again_within_seconds(
    database: Any,
) -> None:
    cache = await database(storage={"size": "1Gi"}, durability={"persistence": "rdb"})
    await cache.wait_ready()
    before = await cache.fill(300)
    for pod in await cache.pods():
        await _save(cache, pod)
    async with cache.under_load() as application:
        await asyncio.gather(*(cache.crash(pod) for pod in ("cache-1-0", "cache-1-1")))
        await until(lambda: _restarted(cache, 2), seconds=60, what="two restarts")
        await cache.wait_ready(seconds=60)
    report = await application.verify()
    assert report.longest_wait_seconds < 5 * PATIENCE, report
    assert await cache.check(before) == []  # what was in a snapshot is there


async def _save(cache: Any, pod: str) -> None:
    async with cache.server(pod) as connection:
        await connection.run(commands.bgsave(), timeout=5)
        await until(lambda: _has_saved(connection), seconds=30, what=f"a snapshot of {pod}")


async def _has_saved(connection: Any) -> bool:
    found = await connection.run(commands.info(), timeout=5)
    return not found.persistence.bgsave_running


async def test_a_shard_that_lost_all_copies_is_held_until_its_slots_are_given_up(
    database: Any,
) -> None:
    """CL-21, CL-36"""
    cache = await database(durability={"onDataLoss": "Hold"})
    await cache.wait_ready()
    application = await cache.fill(300)
    await cache.delete_pods("cache-1-0", "cache-1-1", grace_seconds=0)
    found = await cache.wait_condition("Degraded", "True", reason="DataLost", seconds=90)
    assert "accept-data-loss=5461-10921" in found["message"]
    lost = await _lost_outside(cache, application, range(5461, 10922))
    assert lost == []
    await cache.annotate(**{"redisoperator.dev/accept-data-loss": "5461-10921"})
    await cache.wait_ready(seconds=60)
    annotations = (await cache.get())["metadata"].get("annotations") or {}
    assert "redisoperator.dev/accept-data-loss" not in annotations
    assert (await cache.status())["lastDataLoss"]["slots"] == "5461-10921"
    assert await cache.check(await cache.fill(100)) == []
    assert await _lost_outside(cache, application, range(5461, 10922)) == []


def _addresses(pods: dict[str, Pod]) -> set[str]:
    return {pod.status.pod_ip for pod in pods.values()}


async def _all_new(cache: Any, before: dict[str, Pod]) -> bool:
    """Tell whether every pod was recreated and has an address."""
    after = await cache.pods()
    return after.keys() == before.keys() and all(
        pod.status.pod_ip and pod.metadata.uid != before[name].metadata.uid
        for name, pod in after.items()
    )


async def _restarted(cache: Any, times: int) -> bool:
    return bool(await cache.restarts() >= times)


async def _recorded_loss(cache: Any) -> dict[str, str]:
    """Wait for the record of a loss; until the slots are served the status must not look well."""
    async with asyncio.timeout(90):
        while True:
            status = await cache.status()
            if status.get("slots") != "16384/16384":
                degraded = next(c for c in status["conditions"] if c["type"] == "Degraded")
                assert degraded["status"] == "True", status
            if loss := status.get("lastDataLoss"):
                found: dict[str, str] = loss
                return found
            await asyncio.sleep(0.1)


async def _lost_outside(cache: Any, application: Any, slots: range) -> list[str]:
    return [write for write in await cache.check(application) if key_slot(write) not in slots]
