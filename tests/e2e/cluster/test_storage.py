"""Volumes grow in place; nothing else may be done to them."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import until
from redis_operator.kube.errors import Invalid
from redis_operator.kube.objects import PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS, STORAGE_CLASSES

pytestmark = pytest.mark.e2e

STORED = {"storage": {"size": "1Gi"}, "durability": {"persistence": "aof"}}


async def _requests(cache: Any) -> set[str]:
    found = set()
    for name in await cache.claims():
        claim = await cache.client.get(PERSISTENT_VOLUME_CLAIMS.plain(), (cache.namespace, name))
        found.add(claim["spec"]["resources"]["requests"]["storage"])
    return found


async def _can_grow(client: Any) -> bool:
    classes = (await client.list(STORAGE_CLASSES.plain())).items
    marked = "storageclass.kubernetes.io/is-default-class"
    return any(
        c.get("allowVolumeExpansion")
        for c in classes
        if (c["metadata"].get("annotations") or {}).get(marked) == "true"
    )


async def test_volumes_grow_without_a_restart_or_say_why_they_cannot(database: Any) -> None:
    cache = await database(**STORED)
    await cache.wait_ready(seconds=90)
    uids = await cache.uids()
    async with cache.under_load() as application:
        await cache.patch(storage={"size": "2Gi"})
        if await _can_grow(cache.client):

            async def grown() -> bool:
                return {_gib(size) for size in await _requests(cache)} == {2.0}

            await until(grown, seconds=60, what="every claim to grow")
            await cache.wait_ready(seconds=60)
            found = await cache.client.get(STATEFUL_SETS.plain(), (cache.namespace, "cache-0"))
            template = found["spec"]["volumeClaimTemplates"][0]
            assert template["spec"]["resources"]["requests"]["storage"] == "2Gi"
        else:
            found = await cache.wait_condition("Degraded", "True", seconds=30)
            assert "ExpansionUnsupported" in found["message"]
    report = await application.verify()
    assert report.lost == (), report
    assert await cache.uids() == uids
    assert await cache.restarts() == 0


def _gib(size: str) -> float:
    if size.endswith("Gi"):
        return float(size.removesuffix("Gi"))
    return int(size) / 2**30


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
