"""Resources changed in a running database: maxmemory follows the limit, and never the other way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_operator.redis import commands

pytestmark = pytest.mark.e2e

_MIB = 2**20


def _memory(amount: str) -> dict[str, Any]:
    return {"requests": {"memory": amount}, "limits": {"memory": amount}}


async def _maxmemory(cache: Any) -> set[int]:
    found = set()
    for pod in await cache.pods():
        async with cache.server(pod) as connection:
            answer = await connection.run(commands.config_get("maxmemory"), timeout=5)
        found.add(int(answer["maxmemory"]))
    return found


async def _limits(cache: Any) -> set[str]:
    return {
        str(container.resources.limits["memory"])
        for pod in (await cache.pods()).values()
        for container in pod.spec.containers
        if container.name == "server"
    }


async def test_more_memory_reaches_every_pod_and_maxmemory_follows(database: Any) -> None:
    cache = await database(resources=_memory("128Mi"))
    await cache.wait_ready()
    before, uids = await _maxmemory(cache), await cache.uids()
    async with cache.under_load() as application:
        await cache.patch(resources=_memory("192Mi"))
        await cache.wait_ready(seconds=150)
    report = await application.verify()
    assert report.lost == (), report
    assert await _limits(cache) == {"192Mi"}
    [after] = await _maxmemory(cache)
    assert after > max(before)
    in_place = '"pods/resize"' in cache.cluster.kubectl("get", "--raw", "/api/v1")
    assert (await cache.uids() == uids) == in_place, "resized where it can be, else recreated"
    statuses = [
        s for pod in (await cache.pods()).values() for s in pod.status.container_statuses or ()
    ]
    assert not any(status.restart_count for status in statuses)


async def test_memory_that_the_data_need_is_not_taken_away(database: Any) -> None:
    cache = await database(resources=_memory("192Mi"))
    await cache.wait_ready()
    application = await cache.fill(300)
    uids, before = await cache.uids(), await _maxmemory(cache)
    await cache.patch(resources=_memory("128Mi"), config={"maxmemory": str(_MIB)})
    await cache.wait_plan("maxmemory cannot go down")
    await asyncio.sleep(3)
    assert await cache.uids() == uids
    assert await _maxmemory(cache) == before
    template = cache.cluster.kubectl(
        "get", "statefulset", f"{cache.name}-0", "-n", cache.namespace, "-o", "yaml"
    )
    assert "128Mi" not in template  # a pod that ends now comes back as big as it was
    await cache.patch(resources=_memory("192Mi"), config={"maxmemory": None})
    await cache.wait_ready()
    assert await cache.uids() == uids
    assert await cache.check(application) == []
