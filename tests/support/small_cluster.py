"""A cluster in virtual time: the API server, its controllers, and nodes that run operator pods.

Pods do what operator pods do: they are ready after a while, the oldest holds the lease, and they
end when they are deleted. An image whose name has `missing` in it is never pulled; the operator of
one with `broken` in it ends as soon as it starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from kubecontroller.client.api import Client
from kubecontroller.client.errors import AlreadyExists, ApiError, NotFound
from kubecontroller.client.meta import Manifest
from kubecontroller.client.objects import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    LEASES,
    NODES,
    PODS,
    SECRETS,
)
from kubecontroller.client.patches import MergePatch
from kubelocal.apiserver.inprocess import InProcessTransport
from kubelocal.apiserver.server import ApiServer
from kubelocal.apiserver.storage.entries import decode
from kubelocal.apiserver.storage.store import Entry, Store
from kubelocal.controllers.loop import ControlLoops
from redis_operator.api.crd import crds
from redis_operator.api.webhooks import CONFIGURATION, INSTALLATION_LABEL, SECRET
from redis_operator.install.installer import Installer
from redis_operator.install.objects import VERSION_LABEL
from redis_operator.install.options import Options
from redis_operator.install.remover import Remover
from redis_operator.install.rights import OPERATOR
from redis_operator.install.strategy import Listed, Strategy, generate, written
from redis_operator.install.waiting import CERTIFICATES, WEBHOOK_CONFIGURATIONS, StageTimeout
from redis_operator.operator.world import REDISES
from redis_testing.simulation.system import NoForwarding

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_STEP_SECONDS = 0.5
_NOT_SAID = {
    "events",
    "pods",
    "replicasets.apps",
    "leases.coordination.k8s.io",
    "endpoints",
    "endpointslices.discovery.k8s.io",
}


class Snapshot(NamedTuple):
    """All objects of a cluster at some moment, to go on from there as often as one likes."""

    time: float
    version: int
    objects: dict[str, tuple[Entry, ...]]

    def restored(self) -> Store:
        store = Store(version=self.version)
        for collection, entries in self.objects.items():
            for entry in entries:
                store.load(collection, entry)
        return store


class SmallCluster:
    def __init__(self, before: Snapshot | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        store = Store() if before is None else before.restored()
        self.server = ApiServer(store, clock=self.now)
        self.transport = InProcessTransport(self.server)
        self.client = Client(self.transport, field_manager="person")
        self.told: list[str] = []
        self.certifies = True  # whether the operator can have a certificate
        self.issues = ""  # why cert-manager issues nothing, if it does not
        self.change_strategy: Callable[[Strategy], Strategy] = lambda made: made
        self.lets_go = True  # whether the operator deals with databases that are deleted

    def now(self) -> datetime:
        return _EPOCH + timedelta(seconds=self._loop.time())

    def snapshot(self) -> Snapshot:
        store = self.server.core.store
        objects = {one.name: tuple(one.entries.values()) for one in store.collections()}
        return Snapshot(self._loop.time(), store.version, objects)

    def installer(self, transport: Any = None, *, seconds: float = 60.0) -> Installer:
        client = Client(transport or self.transport, field_manager="redis-operator-install")
        return Installer(client, tell=self.told.append, patience=StageTimeout(seconds))

    def remover(self, transport: Any = None, *, seconds: float = 60.0) -> Remover:
        client = Client(transport or self.transport, field_manager="redis-operator-install")
        return Remover(client, tell=self.told.append, patience=StageTimeout(seconds))

    async def state(self) -> dict[str, Any]:
        """Return everything that people said in the cluster, by kind and name."""
        found: dict[str, Any] = {}
        for collection in self.server.core.store.collections():
            if collection.name in _NOT_SAID:
                continue
            for entry in collection.entries.values():
                said = _said(decode(entry.body))
                found[f"{collection.name} {entry.namespace}/{entry.name}"] = said
        return found

    async def create_database(self, name: str, namespace: str = "default", **spec: Any) -> None:
        for definition in crds().values():
            await self.client.apply(CUSTOM_RESOURCE_DEFINITIONS.plain(), definition)
        await self.client.create(
            REDISES,
            {
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "finalizers": ["redisoperator.dev/database"],
                },
                "spec": {"mode": "Standalone", **spec},
            },
        )

    async def databases(self) -> list[Manifest]:
        try:
            return list((await self.client.list(REDISES)).items)
        except NotFound:
            return []

    # Nodes

    async def run_nodes(self) -> None:
        done: tuple[object, ...] = ()
        while True:
            await asyncio.sleep(_STEP_SECONDS)
            asked = (self.certifies, self.lets_go, self.issues)
            before = (self.server.core.store.version, *asked)
            if before == done:
                continue  # the last step found the same, and changed nothing
            with suppress(ApiError):
                await self._step()
                done = before

    async def _step(self) -> None:
        pods = (await self.client.list(PODS.plain())).items
        for pod in pods:
            meta = pod["metadata"]
            key = (meta["namespace"], meta["name"])
            if meta.get("deletionTimestamp"):
                await self.client.delete(PODS, key, grace_seconds=0)
            elif not pod.get("status", {}).get("conditions") or not _is_ready(pod):
                await self._start(key, pod)
        living = sorted(
            (p["metadata"]["creationTimestamp"], p["metadata"]["name"], p["metadata"]["namespace"])
            for p in pods
            if not p["metadata"].get("deletionTimestamp")
            and p["metadata"]["labels"].get("app.kubernetes.io/name") == OPERATOR
            and _is_ready(p)
        )
        serving = {
            p["metadata"]["name"]
            for p in pods
            if "--webhook-port" in _words(p) and "--webhook-certificate=issued" not in _words(p)
        }
        for _, name, namespace in living[:1]:
            await self._lead(namespace, name)
            if self.certifies and name in serving:
                await self._certify(namespace)
        await self._issue()
        if living and self.lets_go:
            await self._end_databases()

    async def _start(self, key: tuple[str, str], pod: Manifest) -> None:
        image = pod["spec"]["containers"][0]["image"]
        if pod["spec"]["containers"][0].get("args") == ["strategy"] and "missing" not in image:
            await self._write_strategy(key, pod)
            return
        status: dict[str, Any] = {"name": "operator", "image": image, "ready": True, "imageID": ""}
        if "missing" in image:
            waiting = {"reason": "ImagePullBackOff", "message": f"there is no {image}"}
            status |= {"ready": False, "state": {"waiting": waiting}}
        if "broken" in image:
            waiting = {"reason": "CrashLoopBackOff", "message": "back-off"}
            status |= {"ready": False, "state": {"waiting": waiting}}
        ready = {"type": "Ready", "status": "True" if status["ready"] else "False"}
        change = {
            "phase": "Running",
            "conditions": [ready],
            "containerStatuses": [status | {"restartCount": 0}],
        }
        await self.client.patch(PODS, key, MergePatch({"status": change}), subresource="status")

    async def _write_strategy(self, key: tuple[str, str], pod: Manifest) -> None:
        """Do what the program of an image does in the Job that asks it; its tag is its version."""
        if (pod.get("status") or {}).get("phase") == "Succeeded":
            return
        container = pod["spec"]["containers"][0]
        given = {one["name"]: one.get("value", "") for one in container["env"]}
        options = msgspec.json.decode(given["INSTALLATION_OPTIONS"], type=Options)
        made = self.change_strategy(generate(options))
        document = written(of_version(made, container["image"].partition(":")[2]))
        document["metadata"]["name"] = given["STRATEGY_NAME"]
        await self.client.apply(CONFIG_MAPS.plain(), document, manager="strategy")
        change = MergePatch({"status": {"phase": "Succeeded"}})
        await self.client.patch(PODS, key, change, subresource="status")

    async def _lead(self, namespace: str, pod: str) -> None:
        spec = {"holderIdentity": f"{pod}_1", "leaseDurationSeconds": 15}
        lease = {"metadata": {"namespace": namespace, "name": OPERATOR}, "spec": spec}
        with suppress(NotFound):
            found = await self.client.get(LEASES.plain(), (namespace, OPERATOR))
            if spec.items() <= found["spec"].items():
                return  # most steps change nothing: a look costs less than a write
        await self.client.apply(LEASES, lease, manager="operator")

    async def _certify(self, namespace: str) -> None:
        """Do what a replica does for admission: a certificate, and its CA bundle."""
        metadata = {
            "namespace": namespace,
            "name": SECRET,
            "labels": {INSTALLATION_LABEL: namespace},
        }
        try:
            await self.client.get(SECRETS.plain(), (namespace, SECRET))
        except NotFound:
            await self.client.create(SECRETS, {"metadata": metadata, "data": {}})
        with suppress(NotFound):
            found = await self.client.get(WEBHOOK_CONFIGURATIONS, ("", CONFIGURATION))
            bundle = {"clientConfig": {"caBundle": "Y2E="}}
            hooks = [{"name": hook["name"], **bundle} for hook in found["webhooks"]]
            if all(h["clientConfig"].get("caBundle") == "Y2E=" for h in found["webhooks"]):
                return
            await self.client.apply(
                WEBHOOK_CONFIGURATIONS,
                {"metadata": {"name": CONFIGURATION}, "webhooks": hooks},
                manager="redis-operator-ca",
            )

    async def serve_cert_manager(self) -> None:
        """Do what an installation of cert-manager does first; `issues` is what it does then."""
        await self.client.apply(CUSTOM_RESOURCE_DEFINITIONS.plain(), certificate_definition())

    async def _issue(self) -> None:
        """Do what cert-manager does: a Secret for each Certificate, and its CA injected."""
        try:
            certificates = (await self.client.list(CERTIFICATES)).items
        except NotFound:
            return
        for made in certificates:
            meta, spec = made["metadata"], made["spec"]
            ready = {"type": "Ready", "status": "False" if self.issues else "True"}
            ready |= {"message": self.issues, "observedGeneration": meta["generation"]}
            change = MergePatch({"status": {"conditions": [ready]}})
            key = (meta["namespace"], meta["name"])
            await self.client.patch(CERTIFICATES, key, change, subresource="status")
            if self.issues:
                continue
            secret = {
                "metadata": {
                    "namespace": meta["namespace"],
                    "name": spec["secretName"],
                    "labels": spec["secretTemplate"]["labels"],
                },
                "data": dict.fromkeys(("tls.crt", "tls.key", "ca.crt"), "aXNzdWVk"),
            }
            await self.client.apply(SECRETS.plain(), secret, manager="cert-manager")
            await self._inject("/".join(key))

    async def _inject(self, source: str) -> None:
        for found in (await self.client.list(WEBHOOK_CONFIGURATIONS)).items:
            notes = found["metadata"].get("annotations") or {}
            if notes.get("cert-manager.io/inject-ca-from") == source:
                for hook in found["webhooks"]:
                    hook["clientConfig"]["caBundle"] = "aXNzdWVk"
                await self.client.replace(WEBHOOK_CONFIGURATIONS, found)

    async def _end_databases(self) -> None:
        for raw in await self.databases():
            meta = raw["metadata"]
            if meta.get("deletionTimestamp"):
                change = MergePatch({"metadata": {"finalizers": None}})
                await self.client.patch(REDISES, (meta["namespace"], meta["name"]), change)


def certificate_definition() -> Manifest:
    """Return a definition that takes what cert-manager's own takes, and more."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": "certificates", "singular": "certificate", "kind": "Certificate"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "certificates.cert-manager.io"},
        "spec": {
            "group": "cert-manager.io",
            "scope": "Namespaced",
            "names": {**names, "listKind": "CertificateList"},
            "versions": [version],
        },
    }


def of_version(strategy: Strategy, version: str) -> Strategy:
    """Return what another version would consist of: the same, but for its name."""
    parts = [
        structs.replace(
            part, objects=tuple(_relabelled(listed, version) for listed in part.objects)
        )
        for part in strategy.parts
    ]
    return structs.replace(strategy, version=version, parts=tuple(parts))


def _relabelled(listed: Listed, version: str) -> Listed:
    metadata = listed.document["metadata"]
    labels = {**metadata["labels"], VERSION_LABEL: version}
    document = {**listed.document, "metadata": {**metadata, "labels": labels}}
    return structs.replace(listed, document=document)


def _words(pod: Manifest) -> list[str]:
    return list(pod["spec"]["containers"][0].get("args") or ())


def _is_ready(pod: Manifest) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


_COUNTED = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")


def _said(raw: Manifest) -> Manifest:
    metadata = {k: v for k, v in raw["metadata"].items() if k not in _COUNTED}
    metadata["annotations"] = {
        k: v
        for k, v in (metadata.get("annotations") or {}).items()
        if not k.startswith("deployment.kubernetes.io/")
    }
    return {**{k: v for k, v in raw.items() if k != "status"}, "metadata": metadata}


@asynccontextmanager
async def small_cluster(before: Snapshot | None = None) -> AsyncIterator[SmallCluster]:
    """Run a cluster: a new one, or one that goes on from a snapshot, at no earlier time."""
    if before is not None:
        await asyncio.sleep(max(0.0, before.time - asyncio.get_running_loop().time()))
    cluster = SmallCluster(before)
    room = {"cpu": "8", "memory": "16Gi", "pods": "50", "ephemeral-storage": "1Ti"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    for name in ("node1", "node2"):
        with suppress(AlreadyExists):
            node = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}
            await cluster.client.create(NODES.plain(), node)
            until = (cluster.now() + timedelta(days=3650)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            spec = {"holderIdentity": name, "renewTime": until, "leaseDurationSeconds": 40}
            await cluster.client.create(
                LEASES.plain(),
                {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec},
            )
            status = {"capacity": room, "allocatable": room, "conditions": [ready]}
            change = MergePatch({"status": status})
            await cluster.client.patch(NODES.plain(), ("", name), change, subresource="status")
    loops = ControlLoops(
        Client(InProcessTransport(cluster.server), field_manager="control-plane"),
        clock=cluster.now,
        forwarder=NoForwarding(),
    )
    tasks = [asyncio.create_task(loops.run()), asyncio.create_task(cluster.run_nodes())]
    try:
        yield cluster
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
