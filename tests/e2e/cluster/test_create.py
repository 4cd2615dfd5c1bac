from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytestmark = pytest.mark.e2e


async def test_ten_lines_of_yaml_become_a_database_that_serves(database: Any) -> None:
    cache = await database()
    status = await cache.wait_ready()
    assert status["slots"] == "16384/16384"
    assert status["ready"] == "6/6"
    assert status["binding"] == {"name": "cache-conn"}
    assert [len(s["replicas"]) for s in status["shards"]] == [1, 1, 1]
    application = await cache.fill(200)
    assert await cache.check(application) == []


async def test_a_database_at_rest_is_written_to_never(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    await asyncio.sleep(4)  # pods turn ready a moment after the database does
    pods = {n: p.metadata.resource_version for n, p in (await cache.pods()).items()}
    version = (await cache.get())["metadata"]["resourceVersion"]
    await asyncio.sleep(15)  # longer than the interval at which servers are looked at
    assert (await cache.get())["metadata"]["resourceVersion"] == version
    now = {n: p.metadata.resource_version for n, p in (await cache.pods()).items()}
    assert now == pods
