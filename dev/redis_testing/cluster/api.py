"""The API of one simulated database: its pods, StatefulSets and claims, behind a real API server.

The database keeps what planning sees of its objects. Each request is answered by the API server of
local mode, which is shown those objects first, so that patches, uids and resourceVersions are
checked by the same code as in local mode; what a request changed is then taken over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from kubecontroller.client.errors import ConnectionFailed
from kubecontroller.client.request import Request, Response
from kubelocal.apiserver.inprocess import InProcessTransport
from kubelocal.apiserver.server import ApiServer
from kubelocal.apiserver.storage.store import Entry, Store
from redis_operator.api.quantity import parse_quantity
from redis_operator.manifests import names
from redis_operator.manifests.cluster import CLUSTER
from redis_operator.planning.observed import Pod, Volume, Workload

if TYPE_CHECKING:
    from .database import SimulatedDatabase

__all__ = ["NAMESPACE", "DatabaseApi"]

NAMESPACE = "default"
_PODS, _SETS, _CLAIMS = "pods", "statefulsets.apps", "persistentvolumeclaims"
# As the API server fills them in: what is not there would count as changed.
_CONTAINER = {
    "name": "server",
    "image": "x",
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "Always",
}
_POD_SPEC = {
    "containers": [_CONTAINER],
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
    "enableServiceLinks": True,
    "priority": 0,
    "preemptionPolicy": "PreemptLowerPriority",
    "serviceAccountName": "default",
    "serviceAccount": "default",
}


@lru_cache(maxsize=1)
def _server() -> ApiServer:
    """One for all databases: what it holds is replaced at each request."""
    return ApiServer(
        Store(), clock=lambda: datetime(2026, 1, 1, tzinfo=UTC), bits=Random(0).getrandbits
    )


class DatabaseApi:
    """A transport to the objects of one simulated database."""

    def __init__(self, database: SimulatedDatabase) -> None:
        self._database = database
        self._server = _server()
        self._transport = InProcessTransport(self._server)
        self._versions: dict[tuple[str, str], tuple[bytes, int]] = {}
        self._version = 100
        self.before_write: Callable[[], None] | None = None  # the world moves on, once
        self.is_down = False
        self.unlabelled: set[str] = set()  # names of objects that lost their labels

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Answer one request."""
        if self.is_down:
            raise ConnectionFailed("the API does not respond", host="simulation")
        if request.path.endswith("/resize"):
            return self._resize(request)
        if request.method != "GET" and self.before_write is not None:
            hook, self.before_write = self.before_write, None
            hook()
        shown = self._show()
        answer = await self._transport.request(request, timeout=timeout)
        if request.method != "GET":
            self._take_over(shown)
        return answer

    def stream(
        self, request: Request, *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Refuse: no one watches here."""
        raise NotImplementedError(request.path)

    async def close(self) -> None:
        """Have nothing to close."""

    # Objects as the API has them

    def _show(self) -> dict[tuple[str, str], bytes]:
        """Put the objects of the database into the API server, and return them."""
        shown: dict[tuple[str, str], bytes] = {}
        store = self._server.core.store
        for collection in (_PODS, _SETS, _CLAIMS):
            store.collection(collection).entries.clear()
        for collection, manifest in self._manifests():
            meta = manifest["metadata"]
            place = (collection, meta["name"])
            body = msgspec.json.encode(manifest)
            version = self._version_of(place, body)
            meta["resourceVersion"] = str(version)
            body = shown[place] = msgspec.json.encode(manifest)
            entry = Entry(NAMESPACE, meta["name"], meta["uid"], version, body, meta["labels"])
            store.collection(collection).entries[entry.key] = entry
        store.version = max(store.version, self._version)
        return shown

    def _version_of(self, place: tuple[str, str], body: bytes) -> int:
        known = self._versions.get(place)
        if known is None or known[0] != body:
            self._version = self._server.core.store.version = (
                max(self._version, self._server.core.store.version) + 1
            )
            known = self._versions[place] = (body, self._version)
        return known[1]

    def _manifests(self) -> Iterator[tuple[str, dict[str, Any]]]:
        database = self._database
        for pod in database.pods:
            yield _PODS, self._pod(pod)
        for workload in database.workloads.values():
            yield _SETS, self._set(workload)
        for volume in database.volumes.values():
            yield _CLAIMS, self._claim(volume)

    def _meta(self, name: str, uid: str, shard: int) -> dict[str, Any]:
        database = self._database.wanted.name
        labels = names.common_labels(database) | CLUSTER.selector(database, shard)
        if name in self.unlabelled:
            labels = {}
        return {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
        }

    def _pod(self, pod: Pod) -> dict[str, Any]:
        meta = self._meta(pod.name, pod.uid, pod.shard)
        if pod.role_label:
            meta["labels"][names.ROLE_LABEL] = pod.role_label
        up = self._database.world.servers[pod.name].alive
        status = {"name": "server", "image": "x", "imageID": "", "ready": up, "restartCount": 0}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": _POD_SPEC,
            "status": {"phase": "Running", "podIP": pod.ip, "containerStatuses": [status]},
        }

    def _set(self, workload: Workload) -> dict[str, Any]:
        meta = self._meta(workload.name, workload.uid, workload.shard)
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": meta,
            "spec": {
                "replicas": workload.pods,
                "selector": {"matchLabels": meta["labels"]},
                "serviceName": "x",
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "persistentVolumeClaimRetentionPolicy": {
                    "whenDeleted": "Retain",
                    "whenScaled": "Retain",
                },
                "podManagementPolicy": "OrderedReady",
                "revisionHistoryLimit": 10,
                "template": {
                    "metadata": {"labels": meta["labels"]},
                    "spec": _POD_SPEC,
                },
            },
        }

    def _claim(self, volume: Volume) -> dict[str, Any]:
        place = CLUSTER.place_of(self._database.wanted.name, volume.pod)
        assert place is not None, volume
        meta = self._meta(volume.name, volume.uid, place.shard)
        if volume.deleting:
            meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": meta | {"finalizers": ["kubernetes.io/pvc-protection"]},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": str(volume.requested)}},
                "storageClassName": "standard",
                "volumeMode": "Filesystem",
                "volumeName": volume.name,
            },
            "status": {"phase": "Bound", "capacity": {"storage": str(volume.capacity)}},
        }

    # What a request changed

    def _take_over(self, shown: dict[tuple[str, str], bytes]) -> None:
        store = self._server.core.store
        for (collection, name), body in shown.items():
            entry = store.collection(collection).entries.get(f"{NAMESPACE}/{name}")
            if entry is not None and entry.body == body:
                continue
            found = msgspec.json.decode(entry.body) if entry is not None else None
            if found is not None and found["metadata"].get("deletionTimestamp"):
                found = None
            match collection:
                case "pods":
                    self._database.pod_changed(name, found)
                case "statefulsets.apps":
                    self._database.set_changed(name, found)
                case _:
                    self._database.claim_changed(name, found)

    def _resize(self, request: Request) -> Response:
        """The API server of local mode has no such subresource; the rule that uses it is tested."""
        name = request.path.split("/")[-2]
        change = msgspec.json.decode(request.body)
        pod = next((p for p in self._database.pods if p.name == name), None)
        if pod is None or pod.uid != change["metadata"]["uid"]:
            return Response(404, {}, b"{}")
        wanted = change["spec"]["containers"][0]["resources"]
        resources = tuple(
            (f"{part}.{resource}", amount)
            for part, amounts in sorted(wanted.items())
            for resource, amount in sorted(amounts.items())
        )
        limit = int(parse_quantity(dict(resources).get("limits.memory", 0)) or 0)
        self._database.set_pod(replace(pod, resources=resources, memory_limit=limit))
        return Response(200, {}, msgspec.json.encode(self._pod(pod)))
