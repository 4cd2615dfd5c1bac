"""Virtual nodes: their objects in the API, and their heartbeat."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import shutil
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from kubecontroller import (
    AlreadyExists,
    Client,
    Conflict,
    KubeError,
    Manifest,
    MergePatch,
    NotFound,
)
from kubecontroller.client import StrategicPatch
from kubecontroller.client.objects import LEASES, NODES
from kubecontroller.custom import dated
from kubelocal.node.environment.downward import NodeFacts
from kubelocal.node.pod.states import instant
from kubelocal.node.pod.status import RUNTIME

__all__ = ["Heartbeat", "NodeSpec", "node_manifest", "node_status"]

_log = logging.getLogger(__name__)
_LEASE_NAMESPACE = "kube-node-lease"
_LEASE_SECONDS = 40
_BEAT = 10.0
_STATUS_EVERY = 300.0
_RETRY = 0.2


class NodeSpec(Struct, frozen=True, kw_only=True):
    """A virtual node: its name, address, zone and size. Sizes default to the machine's own."""

    name: str
    address: str
    zone: str = ""
    region: str = "local"
    cpu: int = field(default_factory=lambda: os.cpu_count() or 1)
    memory: int = field(
        default_factory=lambda: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    )
    pods: int = 250
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def facts(self) -> NodeFacts:
        """The properties that its pods may read."""
        return NodeFacts(self.name, self.address, float(self.cpu), self.memory)


def _architecture() -> str:
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def node_manifest(spec: NodeSpec) -> Manifest:
    """Return the Node object that a kubelet registers."""
    labels = {
        "beta.kubernetes.io/arch": _architecture(),
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": _architecture(),
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
    }
    if spec.zone:
        labels["topology.kubernetes.io/region"] = spec.region
        labels["topology.kubernetes.io/zone"] = spec.zone
    return {
        "metadata": {
            "name": spec.name,
            "labels": {**labels, **spec.labels},
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {},
    }


def _condition(
    kind: str, status: str, reason: str, message: str, *, before: Mapping[str, Any], now: str
) -> dict[str, Any]:
    new = {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": now,
        "reason": reason,
        "message": message,
    }
    return dated(new, before.get(kind), now)


def node_status(
    spec: NodeSpec, before: Mapping[str, Any], *, images: list[str], folder: Path, now: datetime
) -> dict[str, Any]:
    """Return the status of a healthy node."""
    stamp = instant(now)
    known = {c["type"]: c for c in before.get("conditions") or ()}
    disk = shutil.disk_usage(folder)
    full = disk.free < disk.total * 0.02
    pressure = ("True", "KubeletHasDiskPressure", "kubelet has disk pressure")
    no_pressure = ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure")
    facts = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory",
         "kubelet has sufficient memory available"),
        ("DiskPressure", *(pressure if full else no_pressure)),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]  # fmt: skip
    capacity = {
        "cpu": str(spec.cpu),
        "memory": f"{spec.memory // 1024}Ki",
        "pods": str(spec.pods),
        "ephemeral-storage": f"{disk.total // 1024}Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
    }
    return {
        "addresses": [
            {"type": "InternalIP", "address": spec.address},
            {"type": "Hostname", "address": spec.name},
        ],
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": [_condition(*fact, before=known, now=stamp) for fact in facts],
        "images": [{"names": [name], "sizeBytes": 0} for name in images],
        "nodeInfo": _node_info(spec.name),
    }


def _node_info(name: str) -> dict[str, str]:
    identity = uuid.uuid5(uuid.NAMESPACE_DNS, name).hex
    return {
        "architecture": _architecture(),
        "bootID": _first_line(Path("/proc/sys/kernel/random/boot_id")),
        "containerRuntimeVersion": f"{RUNTIME}://1.0",
        "kernelVersion": platform.release(),
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.34.0",
        "machineID": identity,
        "operatingSystem": "linux",
        "osImage": _os_name(),
        "systemUUID": identity,
    }


def _first_line(path: Path) -> str:
    try:
        return path.read_text().splitlines()[0]
    except (OSError, IndexError):
        return ""


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


class Heartbeat:
    """Registers a node and renews its Lease and status while `run` runs."""

    def __init__(self, client: Client, spec: NodeSpec, *, images: list[str], folder: Path) -> None:
        self._client = client
        self._spec = spec
        self._images = images
        self._folder = folder
        self._status_due = 0.0

    async def run(self) -> None:
        """Report until cancelled; errors are logged and retried soon."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                if loop.time() >= self._status_due:
                    await self._post_status()
                    self._status_due = loop.time() + _STATUS_EVERY
                await self._renew()
            except KubeError as error:
                _log.warning("node %s cannot report: %s", self._spec.name, error)
                await asyncio.sleep(_RETRY)
            except Exception:  # without a heartbeat every pod of the node would be evicted
                _log.exception("node %s cannot report, will retry", self._spec.name)
                await asyncio.sleep(_RETRY)
            else:
                await asyncio.sleep(_BEAT)

    async def _post_status(self) -> None:
        plain = NODES.plain()
        try:
            node = await self._client.get(plain, ("", self._spec.name))
        except NotFound:
            try:
                node = await self._client.create(plain, node_manifest(self._spec))
            except AlreadyExists:
                node = await self._client.get(plain, ("", self._spec.name))
        status = node_status(
            self._spec,
            node.get("status") or {},
            images=self._images,
            folder=self._folder,
            now=datetime.now(UTC),
        )
        patch = StrategicPatch({"status": status})
        await self._client.patch(plain, ("", self._spec.name), patch, subresource="status")

    async def _renew(self) -> None:
        name = self._spec.name
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        try:
            await self._client.patch(
                LEASES.plain(), (_LEASE_NAMESPACE, name), MergePatch({"spec": spec})
            )
        except NotFound:
            metadata = {"name": name, "namespace": _LEASE_NAMESPACE}
            try:
                await self._client.create(LEASES.plain(), {"metadata": metadata, "spec": spec})
            except (AlreadyExists, Conflict):
                return
