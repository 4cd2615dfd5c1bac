"""The operator on local mode: from servers to Ready, idle, configuring, rolling.

Ready is measured from the moment at which the last server accepts connections: our readiness probe
already waits for the cluster, so that a pod is ready too late to begin there. Idle writes are
counted by the API server itself. Where a real cluster is named, databases are created there too.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import suppress
from typing import Any

from bench.api_load import namespace
from bench.local_cluster import LocalCluster, local_cluster
from bench.real_cluster import named_kubeconfig, real_cluster, served_version
from bench.rows import Row, at_most, stated
from bench.turns import RUNS
from bench.writer import Writer
from kubecontroller.client.api import Client
from kubecontroller.client.errors import NotFound
from kubecontroller.client.meta import Manifest
from kubecontroller.client.objects import PODS, SECRETS
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.request import Request
from kubecontroller.client.scheme import Kind
from kubecontroller.client.watch import WatchedChange
from redis_operator.cli.application import Seeds
from redis_operator.manifests.names import COMPONENT_LABEL

__all__ = [
    "REDISES",
    "connection_seeds",
    "creation",
    "database",
    "run",
    "timed_creation",
    "wait_gone",
    "wait_ready",
]

REDISES: Kind[Manifest] = Kind("redisoperator.dev", "v1", "Redis", "redis", True, dict)
_WRITTEN = (
    *("redis", "pods", "statefulsets", "secrets", "services", "configmaps"),
    *("poddisruptionbudgets", "events", "persistentvolumeclaims", "serviceaccounts"),
)
_WRITING = ("create", "update", "patch", "apply", "delete", "deletecollection", "post", "put")
_COUNTED = re.compile(r"apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>[0-9.e+]+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_RESTART = "kubectl.kubernetes.io/restartedAt"
_REST_SECONDS = 30.0
_READY_SECONDS = 150.0
_CREATIONS = RUNS
SECONDS = 400 / 5 * RUNS


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
                await wait_gone(client, place, "first")
    return [at_most("Ready after the last server listens, real cluster", spans, "s", limit=3)]


async def _run(cluster: LocalCluster) -> list[Row]:
    client = cluster.client()
    try:
        spans = []
        for _ in range(RUNS - 1):
            async with namespace(client) as place:
                spans.append(await _creation(client, place))
                await client.delete(REDISES, (place, "first"))
                await wait_gone(client, place, "first")
        async with namespace(client) as place:
            spans.append(await _creation(client, place))
            rows = [at_most("Ready after the last server listens", spans, "s", limit=3)]
            await asyncio.sleep(5)
            rows.append(await _writes_at_rest(client))
            took = [await _configured(client, place, number) for number in range(RUNS)]
            name = "a live setting changed by its spec until Ready says so"
            rows.append(at_most(name, took, "s", limit=1))
            rows += _rolled([await _roll(client, place) for _ in range(RUNS)])
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
    return await creation(client, database(place, "first", **spec), pods=6)


async def creation(client: Client, wanted: Manifest, *, pods: int) -> float:
    """Create a database; return how long after the last of its pods listens it is Ready."""
    return (await timed_creation(client, wanted, pods=pods))[0]


async def timed_creation(client: Client, wanted: Manifest, *, pods: int) -> tuple[float, float]:
    """Create a database; return how long it took since the last of its pods listens, and in all."""
    place, name = wanted["metadata"]["namespace"], wanted["metadata"]["name"]
    listening: dict[str, float] = {}

    async def knock(host: str, port: int) -> None:
        while True:
            try:
                _, writer = await asyncio.open_connection(host, port)
            except OSError:
                await asyncio.sleep(0.01)
                continue
            listening[host] = time.perf_counter()
            writer.close()
            return

    async def follow() -> None:
        known: set[str] = set()
        async with (
            asyncio.TaskGroup() as group,
            client.watch(PODS, namespace=place, resource_version="0") as events,
        ):
            async for event in events:
                if not isinstance(event, WatchedChange):
                    continue
                host = event.object.status.pod_ip
                if host and host not in known:
                    known.add(host)
                    watches = event.object.metadata.label(COMPONENT_LABEL) == "sentinel"
                    group.create_task(knock(host, 26379 if watches else 6379))

    following = asyncio.create_task(follow())
    begun = time.perf_counter()
    await client.apply(REDISES, wanted)
    at = await wait_ready(client, place, name)
    await asyncio.sleep(0.2)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert len(listening) == pods, listening
    return at - max(listening.values()), at - begun


async def wait_gone(client: Client, place: str, name: str) -> None:
    async with asyncio.timeout(_READY_SECONDS):
        with suppress(NotFound):
            while await client.get(REDISES, (place, name)):  # noqa: ASYNC110
                await asyncio.sleep(0.2)


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
            if isinstance(event, WatchedChange) and _is_database_ready(event.object):
                return time.perf_counter()
    raise RuntimeError(f"the watch of {name} ended")


async def _writes_at_rest(client: Client) -> Row:
    """Let the API server count requests that write what an operator writes, changed or not."""
    before = await _writes(client)
    assert before, "the API server counted none of the writes that made the database"
    await asyncio.sleep(_REST_SECONDS)
    counted = await _writes(client) - before
    name = f"API writes in {_REST_SECONDS:.0f} s of rest, counted by the server"
    return at_most(name, counted, "writes", limit=0)


async def _writes(client: Client) -> int:
    answer = await client.transport.request(Request(method="GET", path="/metrics"), timeout=10)
    total = 0
    for line in answer.body.decode().splitlines():
        match = _COUNTED.match(line)
        if match is None:
            continue
        labels = dict(_LABEL.findall(match["labels"]))
        if labels.get("resource") in _WRITTEN and labels.get("verb", "").lower() in _WRITING:
            total += int(float(match["count"]))
    return total


async def connection_seeds(client: Client, place: str, name: str) -> Seeds:
    page = await client.list(PODS, namespace=place, labels=f"redisoperator.dev/database={name}")
    addresses = tuple((pod.status.pod_ip, 6379) for pod in page.items if pod.status.pod_ip)
    secret = await client.get(SECRETS, (place, f"{name}-conn"))
    return Seeds(addresses, "default", (secret.data or {})["password"].decode())


async def _configured(client: Client, place: str, number: int) -> float:
    """Change a live setting and return when the status says that it is on all servers."""
    begun = time.perf_counter()
    policy = ("allkeys-lfu", "volatile-lfu")[number % 2]
    change = {"spec": {"config": {"maxmemory-policy": policy}}}
    await client.patch(REDISES, (place, "first"), MergePatch(change))
    return await wait_ready(client, place, "first") - begun


async def _roll(client: Client, place: str) -> tuple[float, int, float]:
    """Restart all six pods under 1,000 writes a second: longest wait, writes lost, seconds."""
    before = {pod.metadata.uid for pod in (await client.list(PODS, namespace=place)).items}
    async with Writer(
        await connection_seeds(client, place, "first"), writes_per_second=1000
    ) as writer:
        await asyncio.sleep(1)
        await writer.reset()
        begun = time.perf_counter()
        asked = {"metadata": {"annotations": {_RESTART: str(begun)}}}
        await client.patch(REDISES, (place, "first"), MergePatch(asked))
        async with asyncio.timeout(_READY_SECONDS):
            while not await _all_fresh(client, place, before):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        took = time.perf_counter() - begun
        report = await writer.finish(await connection_seeds(client, place, "first"))
    return report.longest_wait_seconds * 1000, len(report.lost), took


def _rolled(rolls: list[tuple[float, int, float]]) -> list[Row]:
    waits, lost, took = ([roll[column] for roll in rolls] for column in range(3))
    name = "roll of six pods"
    return [
        at_most(f"{name}: longest wait of a write", waits, "ms", limit=100),
        at_most(f"{name}: longest wait of a write in any of them", max(waits), "ms", limit=100),
        at_most(f"{name}: acknowledged writes lost in all", sum(lost), "writes", limit=0),
        stated(f"{name}: whole", took, None, "s"),
    ]


async def _all_fresh(client: Client, place: str, before: set[str]) -> bool:
    pods = (await client.list(PODS, namespace=place)).items
    fresh = len(pods) == 6 and not before & {pod.metadata.uid for pod in pods}
    return fresh and _is_database_ready(await client.get(REDISES, (place, "first")))
