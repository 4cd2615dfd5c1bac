"""Costs of single parts that tests used to time: each has a limit, and none has a peer.

Counted in processor time where the part does not wait, so that a busy machine matters little.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from bench.rows import Row, at_most
from kubecontroller.client.api import Client
from kubecontroller.client.errors import AlreadyExists
from kubecontroller.client.lines import LineJoiner
from kubecontroller.client.meta import Manifest, ObjectMeta
from kubecontroller.client.objects import NAMESPACES, PODS, Pod
from kubecontroller.runtime.informer import Informer
from kubelocal.apiserver.apply.merge import apply
from kubelocal.apiserver.inprocess import InProcessTransport
from kubelocal.apiserver.kinds.filling import default
from kubelocal.apiserver.kinds.schemas import schema_of
from kubelocal.apiserver.server import ApiServer
from kubelocal.apiserver.storage.store import Store
from kubelocal.loopback import free_subnet, held_number
from kubelocal.node.agent import NodeAgent
from kubelocal.node.nodes import NodeSpec

_RUNS = 5
_EVENTS = 5000
_LINE_MEBIBYTES = 40
_APPLIES = 40
_PODS = 20


def run() -> list[Row]:
    """Measure each part several times and state the median."""
    return [
        at_most("one event into a cache", _median(_event) * 1e6, "us", limit=50),
        at_most("a line of 40 MiB in pieces of 1 KiB", _median(_line) * 1000, "ms", limit=500),
        at_most("apply of a StatefulSet of 8 KB", _median(_apply) * 1000, "ms", limit=5),
        at_most("a pod: CPU of agent and API server", asyncio.run(_pod()) * 1000, "ms", limit=100),
    ]


def _median(measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(_RUNS))


def _event() -> float:
    """Seconds of CPU that an informer takes to store an object and notify one subscriber."""

    async def feed() -> float:
        server = ApiServer(Store(), clock=lambda: datetime.now(UTC))
        informer = Informer(Client(InProcessTransport(server)), PODS)
        informer.subscribe(lambda _: None)
        meta = ObjectMeta(name="a", namespace="d", uid="u")
        begun = time.process_time()
        for n in range(_EVENTS):
            fresh = msgspec.structs.replace(meta, name=f"a-{n}", resource_version=str(n + 1))
            change = informer._put(Pod(metadata=fresh))
            await informer._notify(informer._subscriptions, change)
        return (time.process_time() - begun) / _EVENTS

    return asyncio.run(feed())


def _line() -> float:
    joiner, piece = LineJoiner(), b"x" * 1024
    begun = time.process_time()
    for _ in range(_LINE_MEBIBYTES * 1024):
        joiner.feed(piece)
    joiner.feed(b"\n")
    return time.process_time() - begun


def _apply() -> float:
    schema = schema_of("apps", "v1", "StatefulSet")
    containers = [
        {
            "name": f"c{n}",
            "image": "a:1",
            "env": [{"name": f"E{i}", "value": "x" * 20} for i in range(20)],
            "ports": [{"containerPort": 1000 + i, "protocol": "TCP"} for i in range(5)],
        }
        for n in range(6)
    ]
    spec = {
        "serviceName": "s",
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}},
    }
    live: dict[str, Any] | None = None
    spent = []
    for replicas in range(_APPLIES):
        wanted = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "s", "namespace": "n", "labels": {f"l{i}": "x" for i in range(9)}},
            "spec": {**spec, "replicas": replicas},
        }
        begun = time.process_time()
        live = apply(
            schema,
            live,
            wanted,
            manager="m",
            force=True,
            version="apps/v1",
            subresource="",
            now="2026-01-01T00:00:00Z",
            reset=("status",),
        )
        default("apps", "StatefulSet", live)
        spent.append(time.process_time() - begun)
    return statistics.median(spent)


async def _pod() -> float:
    """Seconds of CPU of the agent and the API server for a pod, from create to Running."""
    server = ApiServer(Store(), clock=lambda: datetime.now(UTC))
    client = Client(InProcessTransport(server), field_manager="bench")
    for name in ("default", "kube-node-lease"):
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACES.plain(), {"metadata": {"name": name}})
    with tempfile.TemporaryDirectory() as folder:
        agent = NodeAgent(
            client,
            data_dir=Path(folder) / "node",
            nodes=[NodeSpec(name="node-1", address=f"127.{held_number()}.254.1")],
            addresses=free_subnet(),
            instance=f"bench-{held_number()}",
        )
        serving = asyncio.create_task(agent.run())
        try:
            await agent.wait_ready()
            await _until_running(client, ["warm-up"])
            begun = time.process_time()
            await _until_running(client, [f"p{n}" for n in range(_PODS)])
            return (time.process_time() - begun) / _PODS
        finally:
            serving.cancel()
            await asyncio.wait({serving})
            await agent.shutdown(grace=0.2)


async def _until_running(client: Client, names: list[str]) -> None:
    for name in names:
        await client.create(PODS.plain(), _manifest(name))
    for name in names:
        while (await client.get(PODS, ("default", name))).status.phase != "Running":  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def _manifest(name: str) -> Manifest:
    container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "600"]}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [container],
            "nodeName": "node-1",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
        },
    }
