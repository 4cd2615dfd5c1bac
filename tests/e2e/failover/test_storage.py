"""Volumes grow in place while an application writes, or the class forbids it. IN-02, IN-03"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.disks import class_like_default, requested_gib, wait_template_size
from e2e.harness import PATIENCE, until
from e2e.standalone.conftest import STORED
from kubecontroller.client.errors import Invalid

pytestmark = pytest.mark.e2e


def _stored(name: str) -> dict[str, Any]:
    return {**STORED, "storage": {"size": "1Gi", "className": name}}


async def test_volumes_grow_without_a_restart(watched: Any, namespace: str, cluster: Any) -> None:
    client = cluster.client()
    async with class_like_default(client, f"{namespace}-grows", grows=True) as name:
        cache = await watched(**_stored(name))
        await cache.wait_ready(seconds=90)
        uids, claims = await cache.uids(), await cache.claims()
        async with cache.writing() as writer:
            await cache.patch(storage={"size": "2Gi"})

            async def grown() -> bool:
                return await requested_gib(cache) == {2.0}

            await until(grown, seconds=60, what="every claim to grow")
            await cache.wait_ready(seconds=60)
            # A replica that is added later has a volume of the new size from the start.
            await wait_template_size(cache, "cache", "2Gi")
        assert await cache.lost(writer) == []
        assert writer.longest < 1.0 * PATIENCE
        assert await cache.uids() == uids
        assert await cache.claims() == claims
        assert await cache.restarts() == 0
    await client.close()


async def test_a_class_that_forbids_growth_is_named_and_nothing_else_is_done(
    watched: Any, namespace: str, cluster: Any
) -> None:
    client = cluster.client()
    async with class_like_default(client, f"{namespace}-fixed", grows=False) as name:
        cache = await watched(**_stored(name))
        await cache.wait_ready(seconds=90)
        uids = await cache.uids()
        async with cache.writing() as writer:
            await cache.patch(storage={"size": "2Gi"})
            found = await cache.wait_condition("Degraded", "True", seconds=30)
            assert "ExpansionUnsupported" in found["message"]
            assert "data-cache-0" in found["message"]
            await asyncio.sleep(3)
        assert await cache.lost(writer) == []
        assert await requested_gib(cache) == {1.0}
        assert await cache.uids() == uids
        assert await cache.restarts() == 0
    await client.close()


async def test_volumes_cannot_shrink_nor_change_their_class(watched: Any) -> None:
    cache = await watched(**STORED)
    for change in ({"size": "512Mi"}, {"className": "another"}, None):
        with pytest.raises(Invalid) as refusal:
            await cache.patch(storage=change)
        assert "spec.storage" in str(refusal.value)
