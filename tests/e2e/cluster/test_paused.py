"""A paused database: looked at, and not touched."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubecontroller.client.objects import CONFIG_MAPS, STATEFUL_SETS

pytestmark = pytest.mark.e2e


async def test_a_paused_database_is_not_touched_until_it_goes_on(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    uids = await cache.uids()
    application = await cache.fill(100)
    key = (cache.namespace, "cache-config")
    before = (await cache.client.get(CONFIG_MAPS, key)).metadata.resource_version
    await cache.patch(
        paused=True,
        shards=4,
        config={"slowlog-max-len": 60},
        pod={"annotations": {"example.com/team": "blue"}},
    )
    await cache.wait_plan("spec.paused is set")
    await asyncio.sleep(3)
    assert await cache.uids() == uids
    assert (await cache.client.get(CONFIG_MAPS, key)).metadata.resource_version == before
    sets = await cache.client.list(STATEFUL_SETS, namespace=cache.namespace)
    assert len(sets.items) == 3
    await cache.patch(paused=False, pod=None)
    await cache.wait_ready(shards=4, seconds=90)
    now = await cache.uids()
    assert {name: now[name] for name in uids} == uids
    assert await cache.check(application) == []
