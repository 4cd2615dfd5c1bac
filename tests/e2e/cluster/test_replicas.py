"""More and fewer copies of each shard, under load."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import until

pytestmark = pytest.mark.e2e


async def _has_pods(cache: Any, per_shard: int) -> bool:
    return len(await cache.pods()) == 3 * per_shard


async def _has_copies(cache: Any, replicas: int) -> bool:
    told = [len(shard.get("replicas", ())) for shard in (await cache.status())["shards"]]
    return await _has_pods(cache, 1 + replicas) and told == [replicas] * 3


async def test_replicas_come_and_go_under_load(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    old = await cache.uids()
    async with cache.under_load() as application:
        for replicas in (2, 1, 0, 1):
            await cache.patch(replicas=replicas)
            await cache.wait_ready(seconds=120)
            await until(
                lambda n=replicas: _has_copies(cache, n), seconds=60, what=f"{replicas} replicas"
            )
    report = await application.verify()
    assert report.lost == (), report
    assert report.longest_wait_seconds < 2, report
    now = await cache.uids()
    assert [now[f"cache-{shard}-0"] for shard in range(3)] == [
        old[f"cache-{shard}-0"] for shard in range(3)
    ]
    assert await cache.restarts() == 0


async def test_a_primary_whose_place_goes_hands_over_first(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    await cache.annotate(**{"redisoperator.dev/switch-primary-to": "cache-1-1"})

    async def leads() -> bool:
        return bool(await cache.primary_of(1) == "cache-1-1")

    await until(leads, seconds=30, what="cache-1-1 to lead")
    await cache.wait_ready()
    async with cache.under_load() as application:
        await cache.patch(replicas=0)
        await cache.wait_ready(seconds=90)
        await until(lambda: _has_pods(cache, 1), seconds=60, what="pods to be gone")
    report = await application.verify()
    assert report.lost == (), report
    assert await cache.primary_of(1) == "cache-1-0"


async def test_claims_of_replicas_that_left_go_too_and_a_new_replica_starts_clean(
    database: Any,
) -> None:
    cache = await database(storage={"size": "1Gi"}, durability={"persistence": "aof"})
    await cache.wait_ready(seconds=90)
    application = await cache.fill(300)
    await cache.patch(replicas=0)
    await cache.wait_ready(seconds=90)

    async def claims(count: int) -> bool:
        return len(await cache.claims()) == count

    await until(lambda: claims(3), seconds=60, what="the claims of the replicas to be gone")
    await cache.patch(replicas=1)
    await cache.wait_ready(seconds=90)
    assert len(await cache.claims()) == 6
    assert await cache.check(application) == []
