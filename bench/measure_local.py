"""Local mode by its own command: coming up, pods, idling; beside a real cluster where given."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from bench.api_load import namespace
from bench.local_cluster import LocalCluster, local_cluster
from bench.rows import Row, at_most, better_if_less, stated
from kubecontroller.client.api import Client
from kubecontroller.client.config import load
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.objects import PODS, Pod
from kubecontroller.client.watch import WatchedChange

_SINGLE = 10
_IMAGE = "valkey:9.1"  # comes with local mode; only its name is used: the pods sleep
_MANY = 100
_IDLE_PODS = 50
_IDLE_SECONDS = 15.0


def run() -> list[Row]:
    """Measure one instance with one node."""
    with local_cluster("bench-first"):
        pass  # whoever starts first compiles
    with local_cluster("bench-local") as cluster:
        starting = cluster.cpu_seconds()
        rows = [
            at_most("`up` until ready", cluster.ready_seconds, "s", limit=1),
            stated("`up`: CPU of the control plane", starting["control plane"], None, "s"),
        ]
        return rows + asyncio.run(_run(cluster))


async def _run(cluster: LocalCluster) -> list[Row]:
    real = os.environ.get("BENCH_KUBECONFIG") or os.environ.get("KUBECONFIG")
    theirs = await _real_pod(real) if real else None
    client = cluster.client()
    ours = await _one_pod(client)
    rows = [at_most("a pod from create to Running, median", ours * 1000, "ms", limit=100)]
    if theirs is not None:
        name = "a pod from create to Running, real cluster"
        rows.append(better_if_less(name, ours * 1000, theirs * 1000, "ms", aim=1))
    async with namespace(client) as place:
        rows.append(
            at_most("100 pods until Running", await _pods(client, place, _MANY), "s", limit=5)
        )
    async with namespace(client) as place:
        await _pods(client, place, _IDLE_PODS)
        await asyncio.sleep(3)
        rows += await _idle(cluster)
    await client.close()
    return rows


async def _idle(cluster: LocalCluster) -> list[Row]:
    before = cluster.cpu_seconds()
    await asyncio.sleep(_IDLE_SECONDS)
    after = cluster.cpu_seconds()
    used = {role: (after[role] - before.get(role, 0.0)) / _IDLE_SECONDS * 100 for role in after}
    name = f"idle with {_IDLE_PODS} pods"
    return [
        at_most(f"{name}: CPU of everything", sum(used.values()), "% of a core", limit=2),
        *(
            stated(f"{name}: CPU of the {role}", share, None, "% of a core")
            for role, share in used.items()
        ),
        at_most(
            f"{name}: memory of the control plane",
            cluster.rss_mib("control plane"),
            "MiB",
            limit=80,
        ),
        stated(f"{name}: memory of the operator", cluster.rss_mib("operator"), None, "MiB"),
    ]


def _sleeper(place: str, name: str, image: str) -> dict[str, Any]:
    container = {"name": "main", "image": image, "command": ["sleep", "600"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": place},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


async def _one_pod(client: Client, *, image: str = _IMAGE) -> float:
    """Return the median time of one pod alone."""
    async with namespace(client) as place:
        await _pods(client, place, 1, image=image)  # the first one finds everything cold
        spans = [
            await _pods(client, place, 1, prefix=f"single-{number}", image=image)
            for number in range(_SINGLE)
        ]
    return sorted(spans)[len(spans) // 2]


async def _pods(
    client: Client, place: str, count: int, *, prefix: str = "pod", image: str = _IMAGE
) -> float:
    """Create pods at once and return how long it took until the last one runs."""
    names = {f"{prefix}-{number}" for number in range(count)}
    page = await client.list_page(PODS, namespace=place)
    watching = client.watch(PODS, namespace=place, resource_version=page.resource_version)
    async with watching as events:
        begun = time.perf_counter()
        creating = asyncio.gather(
            *(client.create(PODS, _sleeper(place, name, image)) for name in sorted(names))
        )
        async with asyncio.timeout(60):
            async for event in events:
                if isinstance(event, WatchedChange) and _runs(event.object):
                    names.discard(event.object.metadata.name)
                if not names:
                    break
        await creating
        return time.perf_counter() - begun


async def _real_pod(config: str) -> float:
    client = Client(HttpTransport(load(file=config)), field_manager="bench")
    try:
        return await _one_pod(client, image=os.environ.get("BENCH_IMAGE", "valkey:8.1.1"))
    finally:
        await client.close()


def _runs(pod: Pod) -> bool:
    return pod.status.phase == "Running"
