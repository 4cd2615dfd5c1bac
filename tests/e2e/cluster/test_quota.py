"""A namespace that is full: pods that may not be made are told, and those that run stay. K-14"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.harness import until
from kubecontroller.client.scheme import Kind

pytestmark = pytest.mark.e2e

_QUOTAS: Kind[Any] = Kind("", "v1", "ResourceQuota", "resourcequotas", True, dict)


async def limit(cluster: Any, namespace: str, **hard: str) -> None:
    client = cluster.client()
    metadata = {"namespace": namespace, "name": "full"}
    await client.create(_QUOTAS, {"metadata": metadata, "spec": {"hard": hard}})
    await client.close()


@pytest.mark.parametrize(
    ("limited", "spec"),
    [("pods", {}), ("persistentvolumeclaims", {"storage": {"size": "64Mi"}})],
    ids=["pods", "claims"],
)
async def test_a_full_namespace_is_told_with_the_numbers_and_nothing_that_runs_is_touched(
    database: Any, limited: str, spec: dict[str, Any]
) -> None:
    cache = await database(**spec)
    await cache.wait_ready()
    uids = await cache.uids()
    await limit(cache.cluster, cache.namespace, **{limited: "6"})
    async with cache.under_load() as application:
        await cache.patch(replicas=2)
        told = await cache.wait_condition("Degraded", "True", reason="PodsRefused", seconds=60)
        assert "exceeded quota: full" in told["message"]
        assert f"limited: {limited}=6" in told["message"]
        assert (await cache.condition("Available"))["status"] == "True"
        await asyncio.sleep(3)  # time enough to do harm
        assert await cache.uids() == uids
        await cache.client.delete(_QUOTAS, (cache.namespace, "full"))
        await until(lambda: _count(cache, 9), seconds=120, what="the replicas to be made")
        await cache.wait_ready(seconds=120)
    report = await application.verify()
    assert report.lost == (), report
    now = await cache.uids()
    assert uids.items() <= now.items()
    assert (await cache.condition("Degraded"))["status"] == "False"


async def test_a_primary_that_dies_in_a_full_namespace_is_replaced_and_comes_back(
    database: Any,
) -> None:
    cache = await database()
    await cache.wait_ready()
    application = await cache.fill(200)
    await limit(cache.cluster, cache.namespace, pods="6", configmaps="0", services="0")
    primary = await cache.primary_of(0)
    await cache.delete_pods(primary, grace_seconds=0)
    await cache.wait_new_primary(0, primary)
    await cache.wait_ready(seconds=90)
    assert await cache.check(application) == []


async def test_a_new_database_in_a_full_namespace_says_why_it_is_not_formed(
    database: Any, cluster: Any, namespace: str
) -> None:
    await limit(cluster, namespace, pods="2")
    cache = await database()
    told = await cache.wait_condition("Degraded", "True", reason="PodsRefused", seconds=60)
    assert "exceeded quota: full" in told["message"]
    await cache.client.delete(_QUOTAS, (cache.namespace, "full"))
    await cache.wait_ready(seconds=120)


async def _count(cache: Any, pods: int) -> bool:
    return len(await cache.pods()) == pods
