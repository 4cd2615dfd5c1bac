"""Volumes grow in place; nothing else may be done to them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.disks import class_like_default, requested_gib, wait_template_size
from e2e.harness import until
from kubecontroller.client.errors import Invalid

pytestmark = pytest.mark.e2e

STORED = {"storage": {"size": "1Gi"}, "durability": {"persistence": "aof"}}


async def test_volumes_grow_without_a_restart(database: Any, namespace: str, cluster: Any) -> None:
    client = cluster.client()
    async with class_like_default(client, f"{namespace}-grows", grows=True) as name:
        stored = {**STORED, "storage": {"size": "1Gi", "className": name}}
        cache = await database(**stored)
        await cache.wait_ready(seconds=90)
        uids = await cache.uids()
        async with cache.under_load() as application:
            await cache.patch(storage={"size": "2Gi"})

            async def grown() -> bool:
                return await requested_gib(cache) == {2.0}

            await until(grown, seconds=60, what="every claim to grow")
            await cache.wait_ready(seconds=60)
            await wait_template_size(cache, "cache-0", "2Gi")
        report = await application.verify()
        assert report.lost == (), report
        assert await cache.uids() == uids
        assert await cache.restarts() == 0
    await client.close()


async def test_a_class_that_forbids_growth_is_named_and_nothing_else_is_done(
    database: Any, namespace: str, cluster: Any
) -> None:
    client = cluster.client()
    async with class_like_default(client, f"{namespace}-fixed", grows=False) as name:
        stored = {**STORED, "storage": {"size": "1Gi", "className": name}}
        cache = await database(**stored)
        await cache.wait_ready(seconds=90)
        uids = await cache.uids()
        async with cache.under_load() as application:
            await cache.patch(storage={"size": "2Gi"})
            found = await cache.wait_condition("Degraded", "True", seconds=30)
            assert "ExpansionUnsupported" in found["message"]
            assert "data-cache-0-0" in found["message"]
            await asyncio.sleep(3)
        report = await application.verify()
        assert report.lost == (), report
        assert await requested_gib(cache) == {1.0}
        assert await cache.uids() == uids
        assert await cache.restarts() == 0
    await client.close()


async def test_volumes_cannot_shrink_nor_change_their_class(database: Any) -> None:
    cache = await database(**STORED)
    await cache.wait_ready(seconds=90)
    uids = await cache.uids()
    for change in ({"size": "512Mi"}, {"className": "another"}):
        with pytest.raises(Invalid) as refusal:
            await cache.patch(storage=change)
        assert "spec.storage" in str(refusal.value)
    with pytest.raises(Invalid):
        await cache.patch(storage=None)
    assert await cache.uids() == uids
    await cache.wait_ready()
