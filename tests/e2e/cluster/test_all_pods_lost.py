from __future__ import annotations

from typing import Any

import pytest

from redis_operator.redis.slots import key_slot

pytestmark = pytest.mark.e2e


async def test_all_pods_deleted_at_once_come_back_with_new_addresses_and_all_data(
    database: Any,
) -> None:
    cache = await database(storage={"size": "1Gi"}, durability={"persistence": "aof"})
    await cache.wait_ready()
    application = await cache.fill(300)
    before = {name: pod.status.pod_ip for name, pod in (await cache.pods()).items()}
    await cache.delete_pods(*before)
    await cache.wait_condition("Available", "False", seconds=60)
    await cache.wait_ready(seconds=120)
    after = {name: pod.status.pod_ip for name, pod in (await cache.pods()).items()}
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())
    assert await cache.check(application) == []


async def test_a_database_in_memory_that_lost_everything_says_so_and_is_not_made_anew(
    database: Any,
) -> None:
    cache = await database()
    await cache.wait_ready()
    await cache.fill(100)
    await cache.delete_pods(*(await cache.pods()), grace_seconds=0)
    found = await cache.wait_condition("Degraded", "True", reason="DataLost", seconds=90)
    assert "slots" in found["message"]
    assert (await cache.condition("Ready"))["status"] == "False"


async def test_a_shard_that_lost_all_copies_is_reported_and_the_others_serve_on(
    database: Any,
) -> None:
    cache = await database()
    await cache.wait_ready()
    application = await cache.fill(300)
    await cache.delete_pods("cache-1-0", "cache-1-1", grace_seconds=0)
    found = await cache.wait_condition("Degraded", "True", reason="DataLost", seconds=90)
    assert "5461-10921" in found["message"]
    lost = await _lost_outside(cache, application, range(5461, 10922))
    assert lost == []


async def _lost_outside(cache: Any, application: Any, slots: range) -> list[str]:
    return [write for write in await cache.check(application) if key_slot(write) not in slots]
