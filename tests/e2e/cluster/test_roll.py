"""Pods are replaced under load: replicas first, then a switchover, the old primary last."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.harness import until

pytestmark = pytest.mark.e2e

RESTARTED = "kubectl.kubernetes.io/restartedAt"


async def _wait_rolled(cache: Any, old: dict[str, str], seconds: float = 120) -> None:
    async def rolled() -> bool:
        now = await cache.uids()
        return now.keys() == old.keys() and not set(now.values()) & set(old.values())

    try:
        await until(rolled, seconds=seconds, what="every pod to be replaced", every=0.3)
    except AssertionError as error:
        raise AssertionError(f"{error}; status: {await cache.status()}") from error
    await cache.wait_ready(seconds=60)


async def test_a_changed_pod_is_rolled_out_without_losing_a_write(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    old = await cache.uids()
    async with cache.under_load() as application:
        await cache.patch(pod={"annotations": {"example.com/team": "blue"}})
        await _wait_rolled(cache, old)
    report = await application.verify()
    assert report.lost == (), report
    assert report.longest_wait_seconds < 1, report
    for pod in (await cache.pods()).values():
        assert pod.metadata.annotation("example.com/team") == "blue"


async def test_a_restart_is_asked_for_by_annotation(database: Any, cluster: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    old = await cache.uids()
    leaders = [await cache.primary_of(shard) for shard in range(3)]
    async with cache.under_load() as application:
        cluster.kubectl(
            *("-n", cache.namespace, "annotate", "redis.redisoperator.dev", cache.name),
            f"{RESTARTED}=2026-01-01T00:00:00Z",
        )
        order = await _order_of_replacement(cache, old)
        await _wait_rolled(cache, old)
    report = await application.verify()
    assert report.lost == (), report
    for shard in range(3):
        mine = [name for name in order if name.startswith(f"cache-{shard}-")]
        assert mine[-1] == leaders[shard]  # the replica went first


async def _order_of_replacement(cache: Any, old: dict[str, str]) -> list[str]:
    order: list[str] = []

    async def all_seen() -> bool:
        now = await cache.uids()
        order.extend(n for n in old if now.get(n) != old[n] and n not in order)
        return len(order) == len(old)

    await until(all_seen, seconds=120, what="every pod to be replaced", every=0.1)
    return order


async def test_a_roll_stops_at_the_first_pod_that_does_not_come_up_and_can_be_taken_back(
    database: Any,
) -> None:
    cache = await database()
    await cache.wait_ready()
    old = await cache.uids()
    image = (await cache.pods())["cache-0-0"].spec.containers[0].image
    version = ".".join((await cache.status())["version"].split(".")[:2])
    async with cache.under_load() as application:
        await cache.patch(image="no-such-image:0.0.1", version=version)
        found = await cache.wait_condition("Degraded", "True", seconds=60)
        await asyncio.sleep(5)  # time enough to do more harm
        found = await cache.condition("Degraded")
        assert "cache-" in found["message"], found
        assert "Pull" in found["message"] or "image" in found["message"].lower(), found
        changed = [n for n, uid in (await cache.uids()).items() if uid != old[n]]
        assert len(changed) == 1
        assert changed[0] not in [await cache.primary_of(shard) for shard in range(3)]
        await cache.patch(image=image if cache.cluster.defaults().get("image") else None)
        await cache.wait_ready(seconds=90)
    report = await application.verify()
    assert report.lost == (), report
    untouched = [n for n, uid in (await cache.uids()).items() if uid == old[n]]
    assert len(untouched) == 5


async def test_pods_that_fit_no_node_stop_the_roll_and_the_revert_needs_nobody(
    database: Any,
) -> None:
    cache = await database()
    await cache.wait_ready()
    old = await cache.uids()
    await cache.patch(resources={"requests": {"cpu": "1000"}})
    found = await cache.wait_condition("Degraded", "True", seconds=60)
    await asyncio.sleep(3)
    found = await cache.condition("Degraded")
    assert "nschedulable" in found["message"], found
    assert (await cache.condition("Available"))["status"] == "True"
    await cache.patch(resources=None)
    await cache.wait_ready(seconds=90)
    same = [n for n, uid in (await cache.uids()).items() if uid == old[n]]
    assert len(same) == 5


async def test_a_paused_update_touches_nothing_until_it_goes_on(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    old = await cache.uids()
    await cache.patch(update={"paused": True}, pod={"annotations": {"example.com/team": "red"}})
    await cache.wait_plan("spec.update.paused is set")
    await asyncio.sleep(3)
    assert await cache.uids() == old
    await cache.patch(update={"paused": False})
    await _wait_rolled(cache, old)


async def test_the_newest_spec_wins_over_a_roll_under_way(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    old = await cache.uids()
    async with cache.under_load() as application:
        await cache.patch(pod={"annotations": {"example.com/team": "one"}})

        async def begun() -> bool:
            return await cache.uids() != old

        await until(begun, seconds=60, what="the roll to begin")
        await cache.patch(pod={"annotations": {"example.com/team": "two"}})
        await _wait_rolled(cache, old)
    report = await application.verify()
    assert report.lost == (), report
    for pod in (await cache.pods()).values():
        assert pod.metadata.annotation("example.com/team") == "two"
