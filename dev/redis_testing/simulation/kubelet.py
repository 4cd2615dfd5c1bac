"""Nodes of a simulation: pods bound to them get an address and a simulated server on a volume.

Does what the pod's boot script does (I9): an identity never starts without its data, a volume of
another database is not taken for one's own, and a primary that ended unsaved gives its replica time
to take over. Does what a kubelet does: starts containers again, asks whether they are ready, ends
pods in peace, and reports them to the API.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from copy import copy
from datetime import datetime, timedelta
from typing import Any

from kubecontroller.client.api import Client
from kubecontroller.client.errors import AlreadyExists, ApiError, Conflict, NotFound
from kubecontroller.client.meta import Manifest
from kubecontroller.client.patches import StrategicPatch
from kubecontroller.runtime.changes import Added, Change, Deleted, Updated
from kubecontroller.runtime.informer import Informer
from kubelocal.controllers.engine.caches import BUILT_IN_KINDS
from kubelocal.node.pod.states import Container, Role, Running, Terminated, Waiting
from kubelocal.node.pod.status import PodState, pod_status
from redis_operator.manifests.names import WORKER_LABEL
from redis_operator.manifests.standalone_scripts import DATA_MISSING
from redis_operator.redis.config import parse
from redis_operator.redis.defaults import all_defaults
from redis_operator.redis.versions import parse_version

from ..cluster.state import DEFAULTS, Record, Server
from ..cluster.users import read_users
from .failover_pods import (
    boot_sentinel,
    follows_at_start,
    hand_over,
    is_failover,
    is_put_aside,
    is_sentinel,
    leads_at_end,
)
from .kept_pod import KeptPod, Volume
from .mounts import Mounts
from .network import Network
from .workers import work

__all__ = ["KeptPod", "Kubelet", "Volume"]

_PODS = BUILT_IN_KINDS["pods"]
_NODES = BUILT_IN_KINDS["nodes"]
_LEASES = BUILT_IN_KINDS["leases"]
_WORKER_SECONDS = 60.0
_START_SECONDS = 0.2
_BOOT_SECONDS = 0.1
_PROBE_SECONDS = 1.0
_BACKOFF = (0.5, 10.0, 20.0, 40.0)
_CALM_SECONDS = 600.0
_SHUTDOWN_SECONDS = 10.0
_FOREVER = timedelta(days=3650)


class Kubelet:
    """All nodes of one simulated Kubernetes."""

    def __init__(
        self, client: Client, network: Network, mounts: Mounts, clock: Callable[[], datetime]
    ) -> None:
        self._client = client
        self.mounts = mounts
        network.users_of = mounts.users_of
        self._network = network
        self._world = network.world
        self._clock = clock
        self.volumes: dict[str, Volume] = {}  # by server
        self.kept: dict[str, KeptPod] = {}  # by uid
        self.on_last_copy: Callable[[Server], None] = lambda _: None  # that ends with its data
        self.broken_images: set[str] = set()
        self.out_of_memory: set[str] = set()  # servers that end for want of it
        self.down: dict[str, asyncio.Event] = {}  # nodes without power, and the end of that
        self._latest: dict[str, Manifest] = {}
        self._wakes: dict[str, asyncio.Event] = {}
        self._group: asyncio.TaskGroup | None = None
        self.informer: Informer[Manifest] = Informer(client, _PODS)

    async def register(self, count: int) -> None:
        """Bring nodes into the cluster, each in a zone of its own, with a lease that holds."""
        for number in range(1, count + 1):
            await self._register(f"node{number}", f"zone-{'abc'[(number - 1) % 3]}")

    async def _register(self, name: str, zone: str) -> None:
        room = {"cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "1Ti"}
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        until = (self._clock() + _FOREVER).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": name, "renewTime": until, "leaseDurationSeconds": 40},
        }
        with suppress(AlreadyExists):
            await self._client.create(_LEASES, lease)
            await self._client.create(_NODES, node)
            change = StrategicPatch({"status": status})
            await self._client.patch(_NODES, ("", name), change, subresource="status")

    async def run(self) -> None:
        """Run pods until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self.informer.subscribe(self._changed)
            group.create_task(self.informer.run())

    # From the API

    def _changed(self, change: Change[Manifest]) -> None:
        match change:
            case Added(pod, _) | Updated(_, pod):
                uid = pod["metadata"]["uid"]
                self._latest[uid] = pod
                if pod["spec"].get("nodeName") and uid not in self._wakes:
                    self._wakes[uid] = asyncio.Event()
                    assert self._group is not None
                    self._group.create_task(self._live(uid), name=pod["metadata"]["name"])
            case Deleted(pod):
                uid = pod["metadata"]["uid"]
                self._latest.pop(uid, None)
                if uid in self._wakes:
                    self._wakes.pop(uid).set()  # not before: older news would give it a second life
                return
        if uid in self._wakes:
            self._wakes[uid].set()

    def _is_deleting(self, uid: str) -> bool:
        pod = self._latest.get(uid)
        return pod is None or "deletionTimestamp" in pod["metadata"]

    async def _pause(self, uid: str, seconds: float) -> None:
        """Wait, unless something happens to the pod first."""
        wake = self._wakes.get(uid)
        if wake is None:
            return  # it is gone
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await wake.wait()
        wake.clear()

    # The life of a pod

    async def _live(self, uid: str) -> None:
        pod = self._latest.get(uid)
        if pod is None:
            return  # gone before its node knew
        if WORKER_LABEL in (pod["metadata"].get("labels") or {}):
            await work(self._client, pod, self._clock)
            await self._end_worker(uid, pod)
            return
        kept = self.kept.get(uid)
        if kept is None:
            kept = self.kept[uid] = self._new(pod)
        else:
            self._network.sandboxes.add(kept.ip)
        await self._until_deleted(uid, kept)
        await self._end(uid, kept)

    async def _end_worker(self, uid: str, pod: Manifest) -> None:
        """End a worker that runs until it is deleted."""
        if pod["spec"].get("restartPolicy") != "Always":
            return
        while not self._is_deleting(uid):
            await self._pause(uid, _WORKER_SECONDS)
        with suppress(NotFound, Conflict):
            key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
            await self._client.delete(_PODS, key, uid=uid, grace_seconds=0)

    def _new(self, pod: Manifest) -> KeptPod:
        meta = pod["metadata"]
        containers = [
            Container(c["name"], Role.MAIN, c["image"], Waiting("ContainerCreating"))
            for c in pod["spec"]["containers"]
        ]
        node = pod["spec"]["nodeName"]
        return KeptPod(meta["name"], meta["namespace"], meta["uid"], node, containers=containers)

    async def _until_deleted(self, uid: str, kept: KeptPod) -> None:
        if not kept.ip:
            await self._until_deleted_or(uid, _START_SECONDS)
            kept.ip, kept.begun = self._world.new_address(), self._clock()
            self._network.sandboxes.add(kept.ip)
            await self._publish(kept)
        while not self._is_deleting(uid):
            if kept.node in self.down:
                await self._until_powered(kept)
            elif not kept.booted:
                await self._start(uid, kept)
            elif not self._world.servers[kept.name].alive:
                await self._ended(uid, kept)
            else:
                await self._probe(kept)
                await self._pause(uid, _PROBE_SECONDS)

    async def _until_powered(self, kept: KeptPod) -> None:
        """Wait for the node to start again: nothing runs there then, and addresses are others."""
        await self.down[kept.node].wait()
        self._network.sandboxes.discard(kept.ip)
        server = self._world.servers.get(kept.name)
        if server is not None and server.ip == kept.ip:
            server.ip = ""
        kept.ip, kept.booted = self._world.new_address(), False
        self._network.sandboxes.add(kept.ip)
        for container in kept.containers:
            container.state = container.last = Terminated(255, "Unknown", None, self._clock(), "")
            container.ready = container.started = False
            container.restarts += 1

    async def _until_deleted_or(self, uid: str, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end - 1e-6 and not self._is_deleting(uid):
            await self._pause(uid, end - loop.time())

    async def _start(self, uid: str, kept: KeptPod) -> None:
        pod = self._latest[uid]
        image = kept.server.image
        if image in self.broken_images:
            kept.server.state = Waiting("ImagePullBackOff", f"no image {image}")
            await self._publish(kept)
            await self._pause(uid, 2.0)
            return
        try:
            files, users = await self._files(pod)
        except NotFound as error:
            kept.server.state = Waiting("CreateContainerConfigError", str(error))
            await self._publish(kept)
            await self._pause(uid, 1.0)
            return
        for container in kept.containers:
            container.state = Running(self._clock())
            container.started = True
            container.ready = container.name != "server"
        await self._publish(kept)
        if await self._is_held(pod, kept, files):
            await self._ended(uid, kept, message=f"boot: {DATA_MISSING}")
            return
        wait = await self._prepare_volume(pod, kept)
        await self._until_deleted_or(uid, wait + _BOOT_SECONDS)
        if self._is_deleting(uid) or kept.node in self.down:
            return
        self._boot(kept, pod, files, users)

    async def _files(self, pod: Manifest) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Read the configuration and the passwords that the pod mounts."""
        namespace = pod["metadata"]["namespace"]
        volumes = {v["name"]: v for v in pod["spec"]["volumes"]}
        config = await self._client.get(
            BUILT_IN_KINDS["configmaps"], (namespace, volumes["config"]["configMap"]["name"])
        )
        secret = await self._client.get(
            BUILT_IN_KINDS["secrets"], (namespace, volumes["users"]["secret"]["secretName"])
        )
        users = {name: b64decode(value).decode() for name, value in secret["data"].items()}
        return config["data"], self.mounts.of(pod["metadata"]["name"], users)

    async def _prepare_volume(self, pod: Manifest, kept: KeptPod) -> float:
        """Do what the boot script does before the server starts; return how long it waits."""
        world, name = self._world, kept.name
        environment = _environment(pod)
        if is_sentinel(environment):
            return 0.0
        uid = await self._volume_uid(pod)
        volume = self.volumes.get(name)
        if name not in world.servers:
            server = world.add(name, database=pod["metadata"]["labels"].get(_DATABASE, ""))
            server.alive, server.ip = False, ""
        server = world.servers[name]
        server.persistent = environment["PERSISTENCE"] != "none"
        if volume is None or volume.uid != uid:
            world.wipe(name)
            self.volumes[name] = Volume(uid, environment["IDENTITY"], fresh=True)
            return 0.0
        if volume.identity != environment["IDENTITY"]:
            _lose_identity(self._world.new_id(), server)
            volume.identity = environment["IDENTITY"]
        has_replica = any(
            r.replica_of == server.id and not r.fail and not r.noaddr for r in server.others()
        )
        if server.me.votes and has_replica and volume.unsaved and server.persistent:
            return float(environment["FAILOVER_SECONDS"])
        return 0.0

    async def _volume_uid(self, pod: Manifest) -> str:
        for volume in pod["spec"]["volumes"]:
            if volume["name"] == "data" and "persistentVolumeClaim" in volume:
                key = (pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"])
                claim = await self._client.get(BUILT_IN_KINDS["persistentvolumeclaims"], key)
                return str(claim["metadata"]["uid"])
        return str(pod["metadata"]["uid"])

    def _boot(
        self, kept: KeptPod, pod: Manifest, files: Mapping[str, str], users: Mapping[str, str]
    ) -> None:
        environment = _environment(pod)
        if is_sentinel(environment):
            self._boot_sentinel(kept, pod, users)
            return
        volume, follows = self.volumes[kept.name], None
        if is_failover(files):
            kept.handover_seconds = float(environment.get("HANDOVER_SECONDS", "20"))
            follows = follows_at_start(self._world.servers[kept.name], volume)
        server = self._world.start(kept.name, address=kept.ip, follows=follows)
        server.engine, server.version = _software(kept.server.image)
        shared, own = files[environment["CONFIG_FILE"]], environment.get("SETTINGS", "")
        version = parse_version(server.engine, server.version)
        known = all_defaults(version) if version is not None else {}
        server.config = known | DEFAULTS | {"cluster-enabled": "no"}
        server.config |= _settings(shared) | _settings(own)
        server.config |= _settings(users["replication.conf"])
        if follows is not None:
            server.config |= {"replica-priority": "0", "replica-announce-ip": kept.ip}
        self._world.passwords[kept.name] = read_users(users[environment["ACL_FILE"]])
        volume.unsaved, volume.fresh = True, False
        kept.booted = True
        kept.last_start = asyncio.get_running_loop().time()

    def _boot_sentinel(self, kept: KeptPod, pod: Manifest, users: Mapping[str, str]) -> None:
        environment = _environment(pod)
        server = boot_sentinel(
            self._world,
            kept.name,
            ip=kept.ip,
            new_pod=kept.last_start < 0,
            database=pod["metadata"]["labels"].get(_DATABASE, ""),
            environment=environment,
            file=users["sentinel.conf"],
        )
        server.engine, server.version = _software(kept.server.image)
        self._world.passwords[kept.name] = read_users(users[environment["ACL_FILE"]])
        kept.booted = True
        kept.last_start = asyncio.get_running_loop().time()

    async def _is_held(self, pod: Manifest, kept: KeptPod, files: Mapping[str, str]) -> bool:
        """Return whether the boot script refuses to start on an unused volume."""
        if is_sentinel(_environment(pod)):
            return False
        volume = self.volumes.get(kept.name)
        fresh = volume is None or volume.uid != await self._volume_uid(pod)
        return "hold" in files and fresh and _environment(pod)["PERSISTENCE"] != "none"

    async def _ended(self, uid: str, kept: KeptPod, *, message: str = "") -> None:
        """Tell that the container ended, and let it start again after a while."""
        loop = asyncio.get_running_loop()
        container = kept.server
        started = container.state.started if isinstance(container.state, Running) else None
        reason = "OOMKilled" if kept.name in self.out_of_memory else "Error"
        self.out_of_memory.discard(kept.name)
        container.last = Terminated(137, reason, started, self._clock(), message)
        container.state = container.last
        container.ready = container.started = kept.booted = False
        calm = loop.time() - kept.last_start > _CALM_SECONDS
        kept.failures = 0 if calm else kept.failures + 1
        await self._publish(kept)
        wait = _BACKOFF[min(kept.failures, len(_BACKOFF)) - 1] if kept.failures else _BACKOFF[0]
        await self._until_deleted_or(uid, wait)
        container.restarts += 1

    async def _probe(self, kept: KeptPod) -> None:
        server = self._world.servers[kept.name]
        synced = server.is_primary or server.link_up or server.sentinel is not None
        kept.server.ready = (
            server.answers(self._world.now) and self._world.state_ok(server) and synced
        )
        if kept.server.ready and kept.name in self.volumes:
            self.volumes[kept.name].led = False
        await self._publish(kept)

    async def _end(self, uid: str, kept: KeptPod) -> None:
        """End the pod: in peace when it was asked to, at once when its object is gone."""
        if kept.node in self.down:
            await self._until_powered(kept)
        server = self._world.servers.get(kept.name)
        mine = server is not None and server.ip == kept.ip
        if server is not None and mine and server.alive:
            if uid in self._latest:
                if await hand_over(self._world, server, kept.handover_seconds):
                    self.on_last_copy(server)
                aside = is_put_aside(self._world, server)
                if kept.name in self.volumes:
                    self.volumes[kept.name].led = leads_at_end(self._world, server)
                await self._shut_down(server)
                if aside:
                    self.volumes[kept.name].uid = ""  # its files are not found again
            self.kill(kept.name)
        if server is not None and mine:
            server.ip = ""
        self._network.sandboxes.discard(kept.ip)
        self.kept.pop(uid, None)
        if uid in self._latest:
            with suppress(NotFound, Conflict):
                key = (kept.namespace, kept.name)
                await self._client.delete(_PODS, key, uid=uid, grace_seconds=0)

    async def _shut_down(self, server: Server) -> None:
        """SIGTERM: writes are paused until the replicas have them all, then all is saved."""
        loop, world = asyncio.get_running_loop(), self._world
        end = loop.time() + _SHUTDOWN_SECONDS
        await asyncio.sleep(_BOOT_SECONDS)
        while server.alive and server.is_primary and loop.time() < end:
            server.paused_until = world.now + 1.0
            copies = world.copies(server)
            if all(s.offset >= server.offset for s in copies if s.link_up):
                break
            await asyncio.sleep(0.1)
        server.paused_until = 0.0
        if server.alive:
            self._world.end(server.name)
            if server.name in self.volumes:
                self.volumes[server.name].unsaved = False

    def labelled(self, database: str, role: str) -> list[str]:
        """Return the pods that a Service leads to: ready ones with the role's label."""
        ready = {kept.name for kept in self.kept.values() if kept.server.ready}
        wanted = {_DATABASE: database, _ROLE: role}
        return [
            pod["metadata"]["name"]
            for pod in self._latest.values()
            if pod["metadata"]["name"] in ready
            and wanted.items() <= (pod["metadata"].get("labels") or {}).items()
        ]

    def kill(self, name: str) -> None:
        """End a server process at once; its node notices."""
        self._world.kill(name)
        self._network.server_ended(name)
        for uid, kept in self.kept.items():
            if kept.name == name and uid in self._wakes:
                self._wakes[uid].set()

    # To the API

    async def _publish(self, kept: KeptPod) -> None:
        pod = self._latest.get(kept.uid)
        if pod is None or kept.node in self.down:
            return
        # A status without its times follows from these, and most probes find them unchanged.
        version = pod["metadata"]["resourceVersion"]
        judged = (version, kept.ip, kept.begun, *(copy(one) for one in kept.containers))
        if judged == kept.judged:
            return
        kept.judged = judged
        state = PodState(
            containers=kept.containers,
            host_ip="10.255.0.1",
            pod_ip=kept.ip or None,
            start_time=kept.begun,
        )
        status = pod_status(pod, state, now=self._clock())
        if _gist(status) == kept.published:
            return
        kept.published = _gist(status)
        change = StrategicPatch({"metadata": {"uid": kept.uid}, "status": status})
        with suppress(NotFound, Conflict, ApiError):
            key = (kept.namespace, kept.name)
            await self._client.patch(_PODS, key, change, subresource="status")


_DATABASE = "redisoperator.dev/database"
_ROLE = "redisoperator.dev/role"
Work = Coroutine[Any, Any, None]


def _environment(pod: Manifest) -> dict[str, str]:
    server = next(c for c in pod["spec"]["containers"] if c["name"] == "server")
    return {e["name"]: e["value"] for e in server["env"] if "value" in e}


def _software(image: str) -> tuple[str, str]:
    """Return the engine and version that an image's name promises."""
    name, _, tag = image.partition(":")
    return ("valkey" if "valkey" in name else "redis"), f"{tag}.9"


def _settings(text: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for name, words in parse(text):
        found.setdefault(name, []).extend(words)
    return {name: " ".join(words) for name, words in found.items()}


def _lose_identity(fresh: str, server: Server) -> None:
    """Drop nodes.conf and keep the data."""
    server.table = {fresh: Record(id=fresh, ip=server.ip)}
    server.id = fresh
    server.current_epoch = server.last_vote_epoch = 0
    server.voted_about, server.banned, server.handshakes = {}, {}, {}
    server.importing, server.migrating = {}, {}


def _gist(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a status that is reported: everything but times."""
    conditions = [
        {k: v for k, v in c.items() if k != "lastTransitionTime"} for c in status["conditions"]
    ]
    return {**status, "conditions": conditions}
