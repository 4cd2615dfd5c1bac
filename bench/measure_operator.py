"""The operator on local mode: from pods to Ready, at rest, configuring, rolling.

Where a real cluster is named, databases are created there too.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

from bench.api_load import namespace
from bench.local_cluster import LocalCluster, local_cluster
from bench.real_cluster import named_kubeconfig, real_cluster, served_version
from bench.rows import Row, at_most, stated
from bench.writer import Writer
from redis_operator.kube.client import Client
from redis_operator.kube.errors import NotFound
from redis_operator.kube.meta import Manifest
from redis_operator.kube.objects import (
    CONFIG_MAPS,
    EVENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Pod,
)
from redis_operator.kube.patches import MergePatch
from redis_operator.kube.scheme import Kind
from redis_operator.kube.watch import Change
from redis_operator.testing.application import Seeds

__all__ = ["REDISES", "database", "run", "wait_ready"]

REDISES: Kind[Manifest] = Kind("redisoperator.dev", "v1", "Redis", "redis", True, dict)
_WRITTEN: tuple[Kind[Any], ...] = (
    REDISES,
    PODS,
    STATEFUL_SETS,
    SECRETS,
    SERVICES,
    CONFIG_MAPS,
    POD_DISRUPTION_BUDGETS,
    EVENTS,
)
_RESTART = "kubectl.kubernetes.io/restartedAt"
_REST_SECONDS = 30.0
_READY_SECONDS = 150.0
_CREATIONS = 3


def run() -> list[Row]:
    """Measure one operator on one local cluster of three nodes, and creation on a real one."""
    real = named_kubeconfig()
    rows = asyncio.run(_run_real(real)) if real else []
    with local_cluster("bench-operator", "--nodes", "3", "--zones", "3") as cluster:
        return rows + asyncio.run(_run(cluster))


async def _run_real(kubeconfig: str) -> list[Row]:
    spans: list[float] = []
    async with real_cluster(kubeconfig) as client:
        for _ in range(_CREATIONS):
            async with namespace(client) as place:
                spans.append(await _creation(client, place, **served_version()))
                await client.delete(REDISES, (place, "first"))
                await _wait_gone(client, place, "first")
    name = "Ready after the last pod is ready, real cluster"
    return [
        at_most(f"{name}, median", sorted(spans)[_CREATIONS // 2], "s", limit=1),
        at_most(f"{name}, longest", max(spans), "s", limit=1),
    ]


async def _run(cluster: LocalCluster) -> list[Row]:
    client = cluster.client()
    try:
        async with namespace(client) as place:
            span = await _creation(client, place)
            rows = [at_most("Ready after the last pod is ready", span, "s", limit=1)]
            await asyncio.sleep(5)
            rows.append(await _writes_at_rest(client))
            rows.append(await _configured(client, place))
            rows += await _roll(client, place)
            await client.delete(REDISES, (place, "first"))
    finally:
        await client.close()
    return rows


def database(place: str, name: str, **spec: Any) -> Manifest:
    return {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "Redis",
        "metadata": {"namespace": place, "name": name},
        "spec": {"mode": "Cluster", "shards": 3, "replicas": 1, **spec},
    }


async def _creation(client: Client, place: str, **spec: Any) -> float:
    """Create 3+3 and return how long after the last pod was ready the database is."""
    ready: dict[str, float] = {}

    async def follow() -> None:
        async with client.watch(PODS, namespace=place, resource_version="0") as events:
            async for event in events:
                if isinstance(event, Change) and _is_ready(event.object):
                    ready.setdefault(event.object.metadata.name, time.perf_counter())

    following = asyncio.create_task(follow())
    await client.apply(REDISES, database(place, "first", **spec))
    at = await wait_ready(client, place, "first")
    await asyncio.sleep(0.2)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert len(ready) == 6, ready
    return max(0.0, at - max(ready.values()))


async def _wait_gone(client: Client, place: str, name: str) -> None:
    async with asyncio.timeout(_READY_SECONDS):
        with suppress(NotFound):
            while await client.get(REDISES, (place, name)):  # noqa: ASYNC110
                await asyncio.sleep(0.2)


def _is_ready(pod: Pod) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions or ())


def _is_database_ready(found: Manifest) -> bool:
    status = found.get("status") or {}
    return status.get("observedGeneration") == found["metadata"]["generation"] and any(
        c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ())
    )


async def wait_ready(client: Client, place: str, name: str) -> float:
    """Return the moment at which the database was first seen to be Ready."""
    field = f"metadata.name={name}"
    async with (
        asyncio.timeout(_READY_SECONDS),
        client.watch(REDISES, namespace=place, fields=field, resource_version="0") as events,
    ):
        async for event in events:
            if isinstance(event, Change) and _is_database_ready(event.object):
                return time.perf_counter()
    raise RuntimeError(f"the watch of {name} ended")


async def _writes_at_rest(client: Client) -> Row:
    """Count changes of everything an operator writes while nothing happens."""
    counted = 0

    async def count(kind: Kind[Any]) -> None:
        nonlocal counted
        page = await client.list_page(kind)
        async with client.watch(kind, resource_version=page.resource_version) as events:
            async for event in events:
                if isinstance(event, Change):
                    counted += 1

    tasks = [asyncio.create_task(count(kind)) for kind in _WRITTEN]
    await asyncio.sleep(_REST_SECONDS)
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome
    name = f"API writes in {_REST_SECONDS:.0f} s of rest"
    return at_most(name, counted, "writes", limit=0)


async def _seeds(client: Client, place: str, name: str) -> Seeds:
    page = await client.list(PODS, namespace=place, labels=f"redisoperator.dev/database={name}")
    addresses = tuple((pod.status.pod_ip, 6379) for pod in page.items if pod.status.pod_ip)
    secret = await client.get(SECRETS, (place, f"{name}-conn"))
    return Seeds(addresses, "default", (secret.data or {})["password"].decode())


async def _configured(client: Client, place: str) -> Row:
    """Change a live setting and return when the status says that it is on all servers."""
    begun = time.perf_counter()
    change = {"spec": {"config": {"maxmemory-policy": "allkeys-lfu"}}}
    await client.patch(REDISES, (place, "first"), MergePatch(change))
    at = await wait_ready(client, place, "first")
    return at_most(
        "a live setting changed by its spec until Ready says so", at - begun, "s", limit=1
    )


async def _roll(client: Client, place: str) -> list[Row]:
    """Restart all six pods under 1,000 writes a second."""
    before = {pod.metadata.uid for pod in (await client.list(PODS, namespace=place)).items}
    async with Writer(await _seeds(client, place, "first"), writes_per_second=1000) as writer:
        await asyncio.sleep(1)
        await writer.reset()
        begun = time.perf_counter()
        asked = {"metadata": {"annotations": {_RESTART: "now"}}}
        await client.patch(REDISES, (place, "first"), MergePatch(asked))
        async with asyncio.timeout(_READY_SECONDS):
            while not await _all_fresh(client, place, before):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        took = time.perf_counter() - begun
        report = await writer.finish(await _seeds(client, place, "first"))
    return [
        at_most(
            "roll of six pods: longest wait of a write",
            report.longest_wait_seconds * 1000,
            "ms",
            limit=100,
        ),
        at_most("roll of six pods: acknowledged writes lost", len(report.lost), "writes", limit=0),
        stated("roll of six pods: whole", took, None, "s"),
    ]


async def _all_fresh(client: Client, place: str, before: set[str]) -> bool:
    pods = (await client.list(PODS, namespace=place)).items
    fresh = len(pods) == 6 and not before & {pod.metadata.uid for pod in pods}
    return fresh and _is_database_ready(await client.get(REDISES, (place, "first")))
