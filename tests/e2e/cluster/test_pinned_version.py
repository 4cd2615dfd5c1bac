"""A spec without a version runs what it began with, whatever becomes known later. IN-29"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_operator.operator.world import REDIS_VERSIONS

pytestmark = pytest.mark.e2e


async def test_a_newer_version_and_a_new_operator_change_nothing_until_the_spec_says_so(
    database: Any, cluster: Any
) -> None:
    cache = await database()
    runs = (await cache.wait_ready())["version"]
    pods = await cache.uids()
    image = next(iter((await cache.pods()).values())).spec.containers[0].image
    spec = {"engine": "valkey", "version": "99.0", "image": image}
    newer = {"metadata": {"name": "e2e-newer"}, "spec": spec}
    await cache.client.apply(REDIS_VERSIONS, newer)
    try:
        await asyncio.sleep(3)
        cluster.kill_operator()
        await asyncio.sleep(5)
        await cache.patch(config={"timeout": "77"})  # it acts again, and on nothing but this
        status = await cache.wait_ready()
    finally:
        await cache.client.delete(REDIS_VERSIONS, ("", "e2e-newer"))
    assert status["version"] == runs
    assert await cache.uids() == pods
    assert await cache.restarts() == 0
