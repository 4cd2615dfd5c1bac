"""Modes Standalone and Failover turn into each other in place, while an application writes."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import PATIENCE, until
from kubecontroller.client.errors import Invalid
from kubecontroller.client.objects import SERVICES, STATEFUL_SETS

pytestmark = pytest.mark.e2e

STORED = {"storage": {"size": "1Gi"}, "durability": {"persistence": "aof"}}


async def there(cache: Any, kind: Any) -> set[str]:
    found = await cache.client.list(kind, namespace=cache.namespace)
    return {o.metadata.name for o in found.items if o.metadata.name.startswith(cache.name)}


@pytest.mark.parametrize("spec", [{}, STORED], ids=["in memory", "on volumes"])
async def test_a_server_gets_replicas_and_sentinels_and_loses_them_again(
    watched: Any, spec: dict[str, Any]
) -> None:
    cache = await watched(mode="Standalone", replicas=0, **spec)
    await cache.wait_ready()
    objects = await there(cache, STATEFUL_SETS) | await there(cache, SERVICES)
    async with cache.writing() as writer:
        await cache.patch(mode="Failover", replicas=2)
        status = await cache.wait_ready(seconds=180)
        assert status["ready"] == "3/3"
        assert {await cache.named(f"cache-sentinel-{n}") for n in range(3)} == {
            (await cache.pods())[await cache.primary()].status.pod_ip
        }
        await cache.patch(mode="Standalone", replicas=0)

        async def alone() -> bool:
            return set(await cache.pods()) == {"cache-0"}

        await until(alone, seconds=180, what="one server to be left")
        status = await cache.wait_ready(seconds=60)
        assert status["ready"] == "1/1"
    assert await cache.lost(writer) == []
    assert writer.longest < 2 * PATIENCE
    left = await there(cache, STATEFUL_SETS) | await there(cache, SERVICES)
    assert left == objects
    assert await cache.claims() == (["data-cache-0"] if spec else [])


async def test_mode_cluster_is_refused_with_the_way_to_it(watched: Any) -> None:
    cache = await watched()
    with pytest.raises(Invalid, match=r"spec\.mode.*restoring a backup or importing"):
        await cache.patch(mode="Cluster", shards=3, replicas=1)
