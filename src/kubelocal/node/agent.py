"""The node agent: it runs the pods that are bound to its virtual nodes.

One agent serves several nodes. Cancelling `run` leaves the pods running, for the next agent to
adopt; `shutdown` ends them and keeps their volumes.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path

from kubecontroller import Client, Informer, Key, KubeError, Manifest, NotFound
from kubecontroller.client.objects import CONFIG_MAPS, SECRETS
from kubecontroller.runtime import Added, Change, Deleted, Updated
from kubelocal.apiserver.pod_api import ExecOptions, ExecSession, LogOptions
from kubelocal.node.addresses import AddressPool
from kubelocal.node.api import VOLUMES, Cluster
from kubelocal.node.environment.payloads import objects_named
from kubelocal.node.errors import KeeperError, NodeError
from kubelocal.node.events import EventRecorder
from kubelocal.node.images import Catalog, Images
from kubelocal.node.layout import Layout
from kubelocal.node.nodes import Heartbeat, NodeSpec
from kubelocal.node.pod.context import Machine
from kubelocal.node.pod.runner import PodRunner
from kubelocal.node.process.cgroups import find_cgroups, remove_groups
from kubelocal.node.process.client import Processes, ProcessList, version_line
from kubelocal.node.process.modes import ModeReport, choose_mode
from kubelocal.node.process.mounts import Mode
from kubelocal.node.process.users import describe_users
from kubelocal.node.requests import open_exec, open_logs

__all__ = ["NodeAgent", "end_pods"]

_log = logging.getLogger(__name__)
_RETRY = 1.0


class NodeAgent:
    """Runs pods as processes on one or more virtual nodes.

    `addresses` is the loopback network of the instance; `mode` forces a way to mount; `catalog` has
    the known images, `images` are folders with more programs (`NAME/VERSION/bin`); `pids_limit`
    applies to each container, where cgroups can be written; `hidden` are folders that pods see
    empty, where they have their own mount namespaces; `informers` are caches by plural that the
    process has anyway.
    """

    def __init__(
        self,
        client: Client,
        *,
        data_dir: Path,
        nodes: Sequence[NodeSpec],
        addresses: str = "127.64.0.0/16",
        mode: Mode | None = None,
        catalog: Catalog | None = None,
        images: Iterable[Path] = (),
        instance: str = "default",
        pids_limit: int | None = 4096,
        hidden: Iterable[Path] = (),
        informers: Mapping[str, Informer[Manifest]] | None = None,
    ) -> None:
        self._client = client
        self._layout = Layout(data_dir)
        self._nodes = {spec.name: spec for spec in nodes}
        self._network = addresses
        self._forced_mode = mode
        self._catalog = catalog or Catalog()
        self._image_folders = tuple(images)
        self._instance = instance
        self._pids_limit = pids_limit
        self._hidden = tuple(folder.resolve() for folder in hidden)
        self._processes = Processes(self._layout.keeper)
        self._cluster = Cluster(client, informers)
        self._recorder = EventRecorder(client)
        self._runners: dict[str, PodRunner] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._heartbeats: dict[str, asyncio.Task[None]] = {}
        self._dirty: dict[str, PodRunner] = {}
        self._wake = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._ready = asyncio.Event()
        self._closing = False
        self.report: ModeReport | None = None

    # Lifecycle

    async def run(self) -> None:
        """Serve the nodes until cancelled; pods continue without the agent."""
        try:
            await self._open()
            async with asyncio.TaskGroup() as group:
                self._group = group
                try:
                    await self._serve(group)
                finally:
                    self._closing = True  # no task may be added to a group that is ending
        finally:
            self._group = None
            self._processes.close()

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        group.create_task(self._cluster.run())
        group.create_task(self._recorder.run())
        group.create_task(self._publish_for_ever())
        await self._cluster.wait_synced()
        await self._take_over()
        for name in self._nodes:
            if not self._layout.is_stopped(name):
                self._begin_heartbeat(name)
        self._cluster.on_change("pods", self._on_pod)
        for kind in (CONFIG_MAPS, SECRETS):
            self._cluster.on_change(kind.plural, self._on_object)
        self._cluster.on_change(VOLUMES.plural, self._on_volume)
        self._ready.set()
        await asyncio.Event().wait()

    async def wait_ready(self) -> None:
        """Return once the agent serves its nodes."""
        await self._ready.wait()

    async def _open(self) -> None:
        self._layout.prepare()
        discovering = asyncio.create_task(
            asyncio.to_thread(Images.discover, self._catalog, self._image_folders, ask=version_line)
        )
        try:
            await self._open_processes()
            images = await discovering
        finally:
            discovering.cancel()
        assert self.report is not None
        self._addresses = AddressPool(self._network, state=self._layout.addresses)
        cgroups = find_cgroups(self._layout.group_name(self._instance))
        self._layout.remember_groups(cgroups.folders)
        self._machine = Machine(
            self._processes,
            images,
            self.report.mode,
            self._layout,
            self._recorder,
            cgroups,
            self._pids_limit,
            self._hidden,
        )
        _log.info("mounts by %s", self.report.describe())
        _log.info("%s", describe_users(self.report.mode))
        if cgroups.limitation is not None:
            _log.info("%s", cgroups.limitation)

    async def _open_processes(self) -> None:
        await self._processes.open()
        self.report = await choose_mode(
            self._processes, self._layout.root, forced=self._forced_mode
        )

    async def _take_over(self) -> None:
        """Adopt the pods that an earlier agent left running, and end those no longer wanted."""
        listed = await self._list_processes()
        wanted = {pod["metadata"]["uid"] for pod in self._cluster.pods.cache if self._is_local(pod)}
        kept: set[str] = set()
        unread = False
        for folder in self._layout.pods():
            try:
                record = folder.read()
            except OSError as error:  # what runs may be of this pod
                _log.warning("%s cannot be read, and is left as it is: %s", folder.path, error)
                unread = True
                continue
            identities = {c.identity for c in record.containers.values()} if record else set()
            if record is not None and record.uid in wanted:
                kept |= identities
                if record.address:
                    self._addresses.adopt([record.address])
                continue
            for identity in identities & set(listed.running):
                await self._processes.kill(identity)
            await asyncio.to_thread(folder.remove)
        if unread:
            return
        for identity in set(listed.running) - kept:
            await self._processes.kill(identity)
        await self._processes.forget(sorted(set(listed.ended) - kept))

    async def _list_processes(self) -> ProcessList:
        """Return the list of the keeper, however long it takes: without it all may still run."""
        while True:
            try:
                return await self._processes.list_processes()
            except KeeperError as error:
                _log.warning("no pod can be adopted yet, will retry: %s", error)
                await asyncio.sleep(_RETRY)

    async def shutdown(self, *, grace: float = 10.0) -> None:
        """End every process of every pod, and the keeper; the pods stay in the API.

        Call it after `run` was cancelled. Volumes stay; the next agent starts the pods again.
        """
        await end_pods(self._layout.root, grace=grace)

    # Pods

    def _is_local(self, pod: Manifest) -> bool:
        return pod["spec"].get("nodeName") in self._nodes

    def _on_pod(self, change: Change[Manifest]) -> None:
        match change:
            case Added(pod) | Updated(_, pod):
                if self._is_local(pod):
                    self._sync(pod)
            case Deleted(pod):
                runner = self._runners.get(pod["metadata"]["uid"])
                if runner is not None:
                    runner.vanish()

    def _sync(self, pod: Manifest) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        runner = self._runners.get(uid)
        if runner is not None:
            runner.update(pod)
        elif not self._closing and not self._layout.is_stopped(node):
            self._begin(pod)

    def _begin(self, pod: Manifest) -> None:
        assert self._group is not None
        uid = pod["metadata"]["uid"]
        runner = PodRunner(
            self._machine,
            self._cluster,
            self._addresses,
            pod=pod,
            node=self._nodes[pod["spec"]["nodeName"]].facts,
            publish=self._mark,
        )
        self._runners[uid] = runner
        self._tasks[uid] = self._group.create_task(self._run_pod(uid, runner))

    async def _run_pod(self, uid: str, runner: PodRunner) -> None:
        try:
            known = runner.folder.read() is not None
            listed = await self._processes.list_processes() if known else ProcessList({}, {})
            runner.update(runner.pod)
            await runner.run(listed)
        except Exception:  # an error of one pod must not end the node
            _log.exception("pod %s/%s failed on its node and is restarted", *runner.key)
            await asyncio.sleep(_RETRY)
            self._drop(uid)
            pod = self._cluster.pods.cache.get(runner.key)
            if pod is not None and pod["metadata"]["uid"] == uid:
                self._sync(pod)
            return
        self._drop(uid)

    def _drop(self, uid: str) -> None:
        self._runners.pop(uid, None)
        self._tasks.pop(uid, None)
        self._dirty.pop(uid, None)

    def _on_object(self, change: Change[Manifest]) -> None:
        """Notify the pods that refer to a changed ConfigMap or Secret."""
        changed = change.new if isinstance(change, Updated) else change.obj
        metadata = changed["metadata"]
        for runner in self._runners.values():
            if runner.key[0] == metadata["namespace"]:
                named = objects_named(runner.pod)
                if metadata["name"] in named.config_maps | named.secrets:
                    runner.objects_changed()

    def _on_volume(self, change: Change[Manifest]) -> None:
        """Delete the data of a deleted volume, unless it is to be kept."""
        if not isinstance(change, Deleted) or change.assumed or self._closing:
            return
        spec = change.obj["spec"]
        if spec.get("persistentVolumeReclaimPolicy") == "Delete":
            folder = self._layout.claim(change.obj["metadata"]["name"])
            assert self._group is not None
            self._group.create_task(asyncio.to_thread(_remove_folder, folder))

    # Status

    def _mark(self, runner: PodRunner) -> None:
        self._dirty[runner.uid] = runner
        self._wake.set()

    async def _publish_for_ever(self) -> None:
        """Write the changed statuses of pods, each at most once at a time."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._dirty:
                uid = next(iter(self._dirty))
                runner = self._dirty.pop(uid)
                try:
                    await runner.publish()
                except NotFound:
                    continue
                except KubeError as error:
                    _log.warning("status of pod %s/%s: %s", *runner.key, error)
                    asyncio.get_running_loop().call_later(_RETRY, self._mark, runner)
                except Exception:
                    _log.exception("status of pod %s/%s cannot be reported", *runner.key)

    # Nodes

    def _begin_heartbeat(self, name: str) -> None:
        assert self._group is not None
        beat = Heartbeat(
            self._client,
            self._nodes[name],
            images=self._machine.images.available(),
            folder=self._layout.root,
        )
        self._heartbeats[name] = self._group.create_task(beat.run())

    def serves(self, name: str) -> bool:
        """Return whether a node belongs to this agent."""
        return name in self._nodes

    async def stop_node(self, name: str) -> None:
        """Power a node off: its processes are killed and its heartbeat stops.

        Errors: KeeperError when the keeper cannot be reached; the node stays marked as powered
        off, and the next call kills what is left.
        """
        self._check_node(name)
        self._layout.mark_stopped(name, stopped=True)
        beat = self._heartbeats.pop(name, None)
        if beat is not None:
            beat.cancel()
        for uid, runner in list(self._runners.items()):
            if runner.pod["spec"].get("nodeName") == name:
                task = self._tasks[uid]
                self._drop(uid)
                task.cancel()
                await asyncio.wait({task})
                # By the record, which is written before a start: one may be in progress.
                record = runner.folder.read()
                for container in record.containers.values() if record else ():
                    await self._processes.kill(container.identity)

    async def start_node(self, name: str) -> None:
        """Power a node on again; its pods are started again."""
        self._check_node(name)
        if not self._layout.is_stopped(name):
            return
        self._layout.mark_stopped(name, stopped=False)
        self._begin_heartbeat(name)
        for pod in self._cluster.pods.cache:
            if pod["spec"].get("nodeName") == name:
                self._sync(pod)

    def _check_node(self, name: str) -> None:
        if name not in self._nodes:
            raise NodeError(f"there is no node {name}; there is: {', '.join(sorted(self._nodes))}")

    # Hooks of the API server

    def _find(self, namespace: str, pod: str) -> PodRunner | None:
        key: Key = (namespace, pod)
        newest_first = reversed(list(self._runners.values()))
        return next((runner for runner in newest_first if runner.key == key), None)

    async def logs(self, namespace: str, pod: str, options: LogOptions) -> AsyncIterator[bytes]:
        """Return the requested log of a pod's container as chunks."""
        return open_logs(self._find(namespace, pod), (namespace, pod), options)

    async def exec(self, namespace: str, pod: str, options: ExecOptions) -> ExecSession:
        """Start a command in a running container."""
        return await open_exec(self._find(namespace, pod), (namespace, pod), options)


async def end_pods(data_dir: Path, *, grace: float = 10.0) -> None:
    """End every process that an agent of this folder left; harmless when there is none."""
    layout = Layout(data_dir)
    processes = Processes(layout.keeper)
    if processes.has_work():
        await _end_processes(processes, grace=grace)
    for folder in layout.groups():
        await asyncio.to_thread(remove_groups, folder)
    layout.forget_groups()


async def _end_processes(processes: Processes, *, grace: float) -> None:
    try:
        await processes.open()
        processes.begin_quitting()
        listed = await processes.list_processes()
        ends = [processes.watch(identity) for identity in listed.running]
        for identity in listed.running:
            await processes.signal(identity)
        if ends:
            await asyncio.wait(ends, timeout=grace)
        await processes.quit()
    finally:
        processes.close()


def _remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
