"""Volumes grow in place; nothing else may be done to them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest

from e2e.harness import until
from kubecontroller.client.errors import Invalid
from kubecontroller.client.objects import PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS, STORAGE_CLASSES

pytestmark = pytest.mark.e2e

STORED = {"storage": {"size": "1Gi"}, "durability": {"persistence": "aof"}}


async def _requests(cache: Any) -> set[str]:
    found = set()
    for name in await cache.claims():
        claim = await cache.client.get(PERSISTENT_VOLUME_CLAIMS.plain(), (cache.namespace, name))
        found.add(claim["spec"]["resources"]["requests"]["storage"])
    return found


async def _default_class(client: Any) -> Any:
    marked = "storageclass.kubernetes.io/is-default-class"
    classes = (await client.list(STORAGE_CLASSES.plain())).items
    return next(
        c for c in classes if (c["metadata"].get("annotations") or {}).get(marked) == "true"
    )


@asynccontextmanager
async def _class_like_default(client: Any, name: str, *, grows: bool) -> Any:
    """Make a storage class like the default one, whose volumes can or cannot grow."""
    default = await _default_class(client)
    made = {
        **{k: v for k, v in default.items() if k not in ("metadata", "apiVersion", "kind")},
        "metadata": {"name": name},
        "allowVolumeExpansion": grows,
    }
    await client.create(STORAGE_CLASSES.plain(), made)
    try:
        yield name
    finally:
        await client.delete(STORAGE_CLASSES, ("", name))


async def test_volumes_grow_without_a_restart(database: Any, namespace: str, cluster: Any) -> None:
    client = cluster.client()
    async with _class_like_default(client, f"{namespace}-grows", grows=True) as name:
        stored = {**STORED, "storage": {"size": "1Gi", "className": name}}
        cache = await database(**stored)
        await cache.wait_ready(seconds=90)
        uids = await cache.uids()
        async with cache.under_load() as application:
            await cache.patch(storage={"size": "2Gi"})

            async def grown() -> bool:
                return {_gib(size) for size in await _requests(cache)} == {2.0}

            await until(grown, seconds=60, what="every claim to grow")
            await cache.wait_ready(seconds=60)
            found = await cache.client.get(STATEFUL_SETS.plain(), (cache.namespace, "cache-0"))
            template = found["spec"]["volumeClaimTemplates"][0]
            assert template["spec"]["resources"]["requests"]["storage"] == "2Gi"
        report = await application.verify()
        assert report.lost == (), report
        assert await cache.uids() == uids
        assert await cache.restarts() == 0
    await client.close()


async def test_a_class_that_forbids_growth_is_named_and_nothing_else_is_done(
    database: Any, namespace: str, cluster: Any
) -> None:
    client = cluster.client()
    async with _class_like_default(client, f"{namespace}-fixed", grows=False) as name:
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
        assert {_gib(size) for size in await _requests(cache)} == {1.0}
        assert await cache.uids() == uids
        assert await cache.restarts() == 0
    await client.close()


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
