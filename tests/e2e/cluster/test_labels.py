"""Labels and owners of pods and other objects that somebody took away. K-27, K-29"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.harness import until
from kubecontroller.client.errors import NotFound
from kubecontroller.client.objects import CONFIG_MAPS, PODS, SERVICES, STATEFUL_SETS
from kubecontroller.client.patches import MergePatch

pytestmark = pytest.mark.e2e

_DATABASE = "redisoperator.dev/database"


async def test_a_primarys_pod_without_its_label_is_not_failed_over_and_gets_it_back(
    database: Any,
) -> None:
    cache = await database()
    await cache.wait_ready()
    uids, primary = await cache.uids(), await cache.primary_of(0)
    epoch = (await cache.myself(primary)).config_epoch
    key = (cache.namespace, primary)
    async with cache.under_load() as application:
        gone = MergePatch({"metadata": {"labels": {_DATABASE: None}}})
        await cache.client.patch(PODS, key, gone)

        async def is_labelled() -> bool:
            pod = await cache.client.get(PODS, key)
            return bool(pod.metadata.label(_DATABASE) == cache.name)

        await until(is_labelled, seconds=60, what=f"the label of {primary}")
        await cache.wait_ready()
    report = await application.verify()
    assert report.lost == (), report
    assert await cache.uids() == uids
    assert await cache.primary_of(0) == primary
    assert (await cache.myself(primary)).config_epoch == epoch


async def test_what_was_edited_and_deleted_while_the_operator_was_away_is_put_right(
    database: Any, cluster: Any
) -> None:
    cache = await database()
    await cache.wait_ready()
    uids = await cache.uids()
    cluster.stop_operator()
    try:
        unowned = MergePatch({"metadata": {"ownerReferences": None}})
        await cache.client.patch(SERVICES, (cache.namespace, "cache"), unowned)
        unlabelled = MergePatch({"metadata": {"labels": {_DATABASE: None}}})
        await cache.client.patch(CONFIG_MAPS, (cache.namespace, "cache-config"), unlabelled)
        scaled = MergePatch({"spec": {"replicas": 3}})
        await cache.client.patch(STATEFUL_SETS, (cache.namespace, "cache-1"), scaled)
        await cache.client.delete(SERVICES, (cache.namespace, "cache-nodes"))
        await asyncio.sleep(1)
    finally:
        cluster.start_operator()

    async def repaired() -> bool:
        try:
            nodes = await cache.client.get(SERVICES, (cache.namespace, "cache-nodes"))
            service = await cache.client.get(SERVICES, (cache.namespace, "cache"))
            config = await cache.client.get(CONFIG_MAPS, (cache.namespace, "cache-config"))
            workload = await cache.client.get(STATEFUL_SETS, (cache.namespace, "cache-1"))
        except NotFound:
            return False
        owned = all(found.metadata.owner_references for found in (nodes, service))
        labelled = config.metadata.label(_DATABASE) == cache.name
        return bool(owned and labelled and workload.spec.replicas == 2)

    await until(repaired, seconds=90, what="all of it to be put right")
    await until(lambda: _has(cache, set(uids)), seconds=60, what="the extra pod to go")
    await cache.wait_ready()
    assert await cache.uids() == uids


async def _has(cache: Any, names: set[str]) -> bool:
    return set(await cache.pods()) == names
