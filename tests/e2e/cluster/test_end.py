from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.clusters import start_operator, wait_started
from e2e.harness import REDISES, cpu_seconds, until
from e2e.proxy import Proxy, proxied
from kubecontroller.client.api import Propagation
from kubecontroller.client.errors import NotFound
from kubecontroller.client.objects import PERSISTENT_VOLUME_CLAIMS, SERVICES
from kubecontroller.client.patches import MergePatch

pytestmark = pytest.mark.e2e

STORED = {"storage": {"size": "1Gi"}, "durability": {"persistence": "aof"}}


async def _is_gone(cache: Any) -> bool:
    try:
        await cache.client.get(REDISES, cache.key)
    except NotFound:
        return not await cache.pods()
    return False


async def _has_no_claims(cache: Any) -> bool:
    return not await cache.claims()


async def test_a_deleted_database_takes_its_pods_and_volumes_along(database: Any) -> None:
    cache = await database(**STORED)
    await cache.wait_ready()
    await cache.client.delete(REDISES, cache.key)
    await until(lambda: _is_gone(cache), seconds=60, what="the database to be gone")
    await until(lambda: _has_no_claims(cache), seconds=60, what="its claims to be gone")


async def test_a_database_recreated_on_retained_volumes_has_its_data_back(database: Any) -> None:
    cache = await database(**STORED, deletion={"policy": "Retain"})
    await cache.wait_ready()
    application = await cache.fill(200)
    await cache.client.delete(REDISES, cache.key)
    await until(lambda: _is_gone(cache), seconds=60, what="the database to be gone")
    assert len(await cache.claims()) == 6
    again = await database(**STORED, deletion={"policy": "Retain"})
    await again.wait_ready(seconds=90)
    assert await again.check(application) == []


async def test_a_database_recreated_at_once_keeps_its_claims_and_inherits_nothing(
    database: Any,
) -> None:
    """K-31: the end of the first must not take anything of the second along."""
    cache = await database(**STORED)
    await cache.wait_ready()
    await cache.fill(200)
    old_claims, old_nodes = await _claim_uids(cache), await _node_ids(cache)
    await cache.client.delete(REDISES, cache.key)
    await until(lambda: _is_deleted(cache), seconds=60, what="the object to be gone")
    again = await database(**STORED)  # while pods and claims of the first may still be ending
    await again.wait_ready(seconds=120)
    claims, nodes = await _claim_uids(again), await _node_ids(again)
    assert len(claims) == len(nodes) == 6
    assert not claims & old_claims
    assert not nodes & old_nodes
    application = await again.fill(200)
    await asyncio.sleep(5)
    assert await _claim_uids(again) == claims
    assert await again.check(application) == []


async def test_a_stale_cache_at_the_end_costs_the_next_database_nothing(
    database: Any, cluster: Any, tmp_path: Path
) -> None:
    """K-31: the operator sees neither the end of the first nor what the second one has got."""
    cache = await database(**STORED)
    await cache.wait_ready()
    await cache.fill(200)
    old_claims, old_nodes = await _claim_uids(cache), await _node_ids(cache)
    async with (
        proxied(cluster.kubeconfig, tmp_path) as proxy,
        operator_behind(cluster, proxy, tmp_path / "operator.log"),
    ):
        await cache.client.delete(REDISES, cache.key)
        await until(lambda: _is_deleted(cache), seconds=60, what="the object to be gone")
        proxy.fresh.clear()  # pods and claims of the first may still be ending
        again = await database(**STORED)
        await asyncio.sleep(5)
        proxy.fresh.set()
        await again.wait_ready(seconds=120)
        claims, nodes = await _claim_uids(again), await _node_ids(again)
        application = await again.fill(200)
        proxy.fresh.clear()
        await asyncio.sleep(5)
        proxy.fresh.set()
        await asyncio.sleep(3)
    assert len(claims) == len(nodes) == 6
    assert not claims & old_claims
    assert not nodes & old_nodes
    assert await _claim_uids(again) == claims
    assert await again.check(application) == []


@pytest.mark.parametrize("protected", [False, True], ids=["plain", "protected"])
async def test_a_database_that_is_orphaned_leaves_its_servers_and_the_next_takes_them_over(
    database: Any, protected: bool
) -> None:
    """K-31: `kubectl delete --cascade=orphan` keeps what runs, also when it is let go later."""
    cache = await database(**STORED, deletion={"protected": protected})
    await cache.wait_ready()
    application = await cache.fill(200)
    pods, claims, nodes = await cache.uids(), await _claim_uids(cache), await _node_ids(cache)
    await cache.client.delete(REDISES, cache.key, propagation=Propagation.ORPHAN)
    if protected:
        await cache.wait_condition("Deleting", "False", reason="DeletionProtected")
        await asyncio.sleep(5)
        await cache.patch(deletion={"protected": False})
    await until(lambda: _is_deleted(cache), seconds=60, what="the object to be gone")
    await asyncio.sleep(5)
    assert await cache.uids() == pods
    assert await _claim_uids(cache) == claims
    assert await cache.check(application) == []
    again = await database(**STORED)
    await again.wait_ready(seconds=90)
    assert await again.uids() == pods
    assert await _node_ids(again) == nodes
    assert await again.check(application) == []


@asynccontextmanager
async def operator_behind(cluster: Any, proxy: Proxy, log: Path) -> AsyncIterator[None]:
    """Run an operator behind a proxy of this very process, in place of the cluster's own."""
    cluster.require_process()
    cluster.stop_operator()
    process = start_operator(log, proxy.kubeconfig)
    try:
        await asyncio.to_thread(wait_started, process, log)
        yield
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 60)
        cluster.start_operator()


async def _is_deleted(cache: Any) -> bool:
    try:
        await cache.client.get(REDISES, cache.key)
    except NotFound:
        return True
    return False


async def _claim_uids(cache: Any) -> set[str]:
    page = await cache.client.list(PERSISTENT_VOLUME_CLAIMS, namespace=cache.namespace)
    return {claim.metadata.uid for claim in page.items}


async def _node_ids(cache: Any) -> set[str]:
    return {(await cache.myself(pod)).id for pod in await cache.pods()}


async def test_a_protected_database_survives_its_deletion_until_it_is_let_go(database: Any) -> None:
    cache = await database(**STORED, deletion={"protected": True})
    await cache.wait_ready()
    application = await cache.fill(200)
    before = {pod.metadata.uid for pod in (await cache.pods()).values()}
    await cache.client.delete(REDISES, cache.key)
    await cache.wait_condition("Deleting", "False", reason="DeletionProtected")
    await asyncio.sleep(3)
    assert {pod.metadata.uid for pod in (await cache.pods()).values()} == before
    assert await cache.check(application) == []
    await cache.patch(deletion={"protected": False})
    await until(lambda: _is_gone(cache), seconds=60, what="the database to be gone")


async def test_the_end_does_not_wait_for_servers_that_do_not_answer(database: Any) -> None:
    cache = await database(image="no-such-image:1", version="9.1")
    await cache.wait_condition("Ready", "False")
    await cache.client.delete(REDISES, cache.key)
    await until(lambda: _is_gone(cache), seconds=60, what="the database to be gone")


_HELD = MergePatch({"metadata": {"finalizers": ["example.com/held"]}})
_FREE = MergePatch({"metadata": {"finalizers": None}})


async def test_a_child_that_cannot_go_is_reported_and_holds_up_nothing_else(
    database: Any, cluster: Any
) -> None:
    cache = await database()
    other = await database("other")
    await cache.wait_ready()
    await other.wait_ready()
    key = (cache.namespace, "cache")
    await cache.client.patch(SERVICES, key, _HELD)
    await cache.client.delete(REDISES, cache.key)
    await until(lambda: _is_gone(cache), seconds=60, what="the database to be gone")
    try:
        again = await database()
        found = await again.wait_condition("Ready", "False", reason="ChildRefused", seconds=60)
        for part in ("Service cache", "being deleted", "example.com/held"):
            assert part in found["message"], found
        before = cpu_seconds(cluster.operator_pid())
        await asyncio.sleep(5)
        assert cpu_seconds(cluster.operator_pid()) - before < 2.5  # no busy loop
        primary = await other.primary_of(0)
        await other.crash(primary)
        await other.wait_new_primary(0, primary)
    finally:
        await cache.client.patch(SERVICES, key, _FREE)
    await again.wait_ready(seconds=90)
