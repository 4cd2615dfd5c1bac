"""Settings changed in a running database: live where that can be, rolled where not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.harness import until
from redis_operator.redis import commands
from redis_operator.redis.errors import RedisError

pytestmark = pytest.mark.e2e


async def _values(cache: Any, name: str) -> set[str]:
    found = set()
    for pod in await cache.pods():
        async with cache.server(pod) as connection:
            answer = await connection.run(commands.config_get(name), timeout=5)
        found.add(answer[name])
    return found


async def _all_have(cache: Any, name: str, value: str) -> bool:
    return await _values(cache, name) == {value}


async def test_a_live_setting_reaches_every_server_at_once_and_goes_back_when_removed(
    database: Any,
) -> None:
    cache = await database(config={"hz": 15})
    await cache.wait_ready()
    uids = await cache.uids()
    default = await _values(cache, "maxmemory-samples")
    async with cache.under_load() as application:
        await cache.patch(config={"maxmemory-samples": 7, "client-query-buffer-limit": "512mb"})
        await until(
            lambda: _all_have(cache, "maxmemory-samples", "7"), seconds=10, what="7 on every server"
        )
        await cache.wait_ready()  # also when the server spells a value in another way
        await cache.patch(config={"maxmemory-samples": None})
        await until(
            lambda: _all_have(cache, "maxmemory-samples", next(iter(default))),
            seconds=10,
            what="the default on every server",
        )
        await cache.wait_ready()
    report = await application.verify()
    assert report.lost == (), report
    assert await cache.uids() == uids
    assert await cache.restarts() == 0
    assert await _values(cache, "hz") == {"15"}


async def test_a_setting_changed_by_hand_goes_back(database: Any) -> None:
    cache = await database(config={"slowlog-max-len": 77})
    await cache.wait_ready()
    async with cache.server("cache-2-1") as connection:
        await connection.run(commands.config_set({"slowlog-max-len": "5"}), timeout=5)
    await until(
        lambda: _all_have(cache, "slowlog-max-len", "77"), seconds=40, what="the value to be back"
    )
    await cache.wait_ready()


async def test_a_setting_that_needs_a_restart_is_rolled_out(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    old = await cache.uids()
    async with cache.under_load() as application:
        await cache.patch(config={"tcp-backlog": 300})
        await until(
            lambda: _rolled(cache, old), seconds=120, what="every pod to be replaced", every=0.3
        )
        await cache.wait_ready()
    report = await application.verify()
    assert report.lost == (), report
    assert await _values(cache, "tcp-backlog") == {"300"}


async def _rolled(cache: Any, old: dict[str, str]) -> bool:
    now = await cache.uids()
    return now.keys() == old.keys() and not set(now.values()) & set(old.values())


async def test_a_value_the_server_refuses_is_found_on_one_replica_and_goes_no_further(
    database: Any,
) -> None:
    cache = await database()
    await cache.wait_ready()
    uids = await cache.uids()
    application = await cache.fill(200)
    await cache.patch(config={"maxmemory-samples": 0})
    found = await cache.wait_condition("ConfigApplied", "False", reason="Refused", seconds=30)
    assert "maxmemory-samples" in found["message"]
    assert "cache-" in found["message"]
    await asyncio.sleep(2)
    assert await _values(cache, "maxmemory-samples") == {"5"}
    assert "maxmemory-samples" not in cache.cluster.kubectl(
        "get", "configmap", f"{cache.name}-config", "-n", cache.namespace, "-o", "jsonpath={.data}"
    )
    await cache.crash("cache-1-1")  # it starts again from the file, and would die on that value
    await until(lambda: _is_back(cache, "cache-1-1"), seconds=60, what="the crashed server")
    assert (await cache.condition("Ready"))["status"] == "False"
    assert (await cache.condition("Available"))["status"] == "True"
    await cache.patch(config={"maxmemory-samples": 7})
    await cache.wait_ready()
    assert "maxmemory-samples 7" in cache.cluster.kubectl(
        "get", "configmap", f"{cache.name}-config", "-n", cache.namespace, "-o", "jsonpath={.data}"
    )
    assert await cache.uids() == uids
    assert await cache.check(application) == []


async def _is_back(cache: Any, pod: str) -> bool:
    try:
        async with cache.server(pod) as connection:
            return await connection.run(commands.dbsize(), timeout=5) >= 0
    except RedisError:
        return False


async def test_a_refused_boot_setting_stops_at_one_replica_and_the_revert_recovers(
    database: Any,
) -> None:
    cache = await database()
    await cache.wait_ready()
    old = await cache.uids()
    application = await cache.fill(200)
    # Its bounds are the server's secret, so that the spec passes and the start fails.
    await cache.patch(config={"rdma-rx-size": 1})
    await cache.wait_condition("Degraded", "True", seconds=60)
    await asyncio.sleep(5)
    changed = [n for n, uid in (await cache.uids()).items() if uid != old[n]]
    assert len(changed) == 1, changed
    primaries = [await cache.primary_of(shard) for shard in range(3)]
    assert changed[0] not in primaries
    assert (await cache.condition("Available"))["status"] == "True"
    other = next(n for n in old if n not in (*primaries, *changed))
    await cache.crash(other)  # it starts again as it was made, without the refused value
    await until(lambda: _is_back(cache, other), seconds=60, what="the crashed server")
    await cache.patch(config={"rdma-rx-size": None})
    await cache.wait_ready(seconds=120)
    assert await cache.check(application) == []
    same = [n for n, uid in (await cache.uids()).items() if uid == old[n]]
    assert len(same) == 5


async def test_a_change_of_settings_during_a_failover_reaches_everybody(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    async with cache.under_load() as application:
        await cache.patch(config={"slowlog-max-len": 99})
        await cache.crash(await cache.primary_of(0))
        await asyncio.sleep(1)
        await cache.wait_ready(seconds=60)
    await until(
        lambda: _all_have(cache, "slowlog-max-len", "99"), seconds=30, what="99 on every server"
    )
    report = await application.verify()
    assert len(report.lost) <= 3, report  # not yet replicated when the primary died
