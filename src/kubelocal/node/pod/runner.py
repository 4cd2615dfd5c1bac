"""One pod: its address, its volumes, its containers in their order, and its end.

Guarantees: containers start in the order of Kubernetes (init containers one after another,
sidecars when started, then the others together); when the pod is deleted, all its processes have
ended before its object is removed; a restarted agent adopts what still runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from kubecontroller import Conflict, KubeError, NotFound
from kubelocal.node.addresses import AddressPool, hosts_text
from kubelocal.node.api import Cluster
from kubelocal.node.environment.downward import NodeFacts
from kubelocal.node.environment.variables import Sources, service_variables
from kubelocal.node.errors import KeeperError, NodeError, VolumeError
from kubelocal.node.layout import ContainerRecord, PodFolder, PodRecord
from kubelocal.node.pod.container import ContainerRunner
from kubelocal.node.pod.context import Machine
from kubelocal.node.pod.states import (
    Backoff,
    Container,
    Role,
    Waiting,
    from_status,
    instant,
    parse_instant,
)
from kubelocal.node.pod.status import PodState, phase_of, pod_status
from kubelocal.node.process.client import Ended, ProcessList
from kubelocal.node.volumes.pod_volumes import PodVolumes

__all__ = ["PodRunner"]

_log = logging.getLogger(__name__)
_MOUNT_RETRY_LONGEST = 122.0
_FORCED_GRACE = 1.0
_FIRST_STATUS_AFTER = 0.05
_OVER = ("Succeeded", "Failed")


class PodRunner:
    """Runs one pod; `run` ends when nothing of the pod is left to do."""

    def __init__(
        self,
        machine: Machine,
        cluster: Cluster,
        addresses: AddressPool,
        *,
        pod: Mapping[str, Any],
        node: NodeFacts,
        publish: Callable[[PodRunner], None],
    ) -> None:
        self.machine = machine
        self.folder: PodFolder = machine.layout.pod(pod["metadata"]["uid"])
        self._cluster = cluster
        self._addresses = addresses
        self._pod = pod
        self._node = node
        self._publish = publish
        self._volumes = PodVolumes(
            cluster, machine.layout, self.folder, mode=machine.mode, node=node
        )
        self._record = self._new_record()
        self._start_time: datetime | None = None
        self._is_terminal = False
        self._failed: tuple[str, str] | None = None
        self._changed = asyncio.Event()
        self._objects_changed = asyncio.Event()
        self._ending = asyncio.Event()
        self._deadline = 0.0
        self._gone = False
        self.runners = [ContainerRunner(self, *made) for made in self._containers()]

    def _new_record(self) -> PodRecord:
        metadata = self._pod["metadata"]
        return PodRecord(metadata["namespace"], metadata["name"], metadata["uid"], self._node.name)

    def _containers(self) -> list[tuple[Mapping[str, Any], Role, Container]]:
        spec, status = self._pod["spec"], self._pod.get("status") or {}
        known = {
            one["name"]: one
            for part in ("initContainerStatuses", "containerStatuses")
            for one in status.get(part) or ()
        }
        inits = spec.get("initContainers") or ()
        reason = "PodInitializing" if inits else "ContainerCreating"
        made = []
        for declared in (*inits, *spec["containers"]):
            role = Role.MAIN
            if declared in inits:
                role = Role.SIDECAR if declared.get("restartPolicy") == "Always" else Role.INIT
            if declared["name"] in known:
                container = from_status(known[declared["name"]], role)
            else:
                image = declared.get("image") or ""
                container = Container(declared["name"], role, image, Waiting(reason))
            made.append((declared, role, container))
        return made

    # For its containers

    @property
    def pod(self) -> Mapping[str, Any]:
        """The current pod of the API."""
        return self._pod

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self._pod["metadata"]["namespace"], self._pod["metadata"]["name"]

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return str(self._pod["metadata"]["uid"])

    @property
    def address(self) -> str:
        """The pod's own address."""
        return self._record.address

    @property
    def volumes(self) -> Mapping[str, Path]:
        """The folders of the pod's volumes."""
        return self._volumes.folders

    async def sources(self) -> Sources:
        """The sources of variables."""
        return await self._volumes.sources(self._pod, self.address)

    def service_variables(self) -> Mapping[str, str]:
        """The variables with the addresses of services: the API's own, and the namespace's."""
        own = [
            s for s in self._cluster.services("default") if s["metadata"]["name"] == "kubernetes"
        ]
        if self._pod["spec"].get("enableServiceLinks", True):
            own += self._cluster.services(self.key[0])
        return service_variables(own)

    def remember(self, name: str, record: ContainerRecord) -> None:
        """Record which instance of a container is about to be started."""
        containers = {**self._record.containers, name: record}
        self._record = msgspec.structs.replace(self._record, containers=containers)
        self.folder.write(self._record)

    def changed(self) -> None:
        """Publish the pod's status again."""
        self._changed.set()
        self._publish(self)

    async def wait_objects_changed(self, timeout: float) -> None:
        """Return when an object that the pod refers to changed, or after so many seconds."""
        self._objects_changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._objects_changed.wait()

    # For the agent

    def update(self, pod: Mapping[str, Any]) -> None:
        """Use the newest state of the pod; a deletion begins here."""
        self._pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            self._end_by(asyncio.get_running_loop().time() + grace)
        else:
            self._objects_changed.set()
            self._publish(self)

    def vanish(self) -> None:
        """End what is left of a pod that is no longer in the API."""
        self._gone = True
        self._end_by(asyncio.get_running_loop().time() + _FORCED_GRACE)

    def objects_changed(self) -> None:
        """Handle a possible change of an object that the pod refers to."""
        self._objects_changed.set()

    def _end_by(self, deadline: float) -> None:
        if self._ending.is_set() and deadline >= self._deadline:
            return
        self._deadline = deadline
        self._ending.set()
        self._changed.set()

    def state(self) -> PodState:
        """The state of the pod on this node."""
        return PodState(
            containers=[runner.container for runner in self.runners],
            host_ip=self._node.address,
            pod_ip=self._record.address or None,
            start_time=self._start_time,
            is_terminal=self._is_terminal,
            failed=self._failed,
        )

    async def publish(self) -> None:
        """Write the pod's status, if it differs from what the API has."""
        if self._gone:
            return
        status = pod_status(self._pod, self.state(), now=self.machine.now())
        before = self._pod.get("status") or {}
        if _differs(before, status):
            self._pod = await self._cluster.publish(self._pod, status)

    # Lifecycle

    async def run(self, listed: ProcessList) -> None:
        """Run the pod until nothing of it is left to do."""
        try:
            await self._live(listed)
        except asyncio.CancelledError:
            raise
        except Exception:
            _log.exception("pod %s/%s failed on this node", *self.key)
            raise

    async def _live(self, listed: ProcessList) -> None:
        alive = self._restore(listed)
        over = (self._pod.get("status") or {}).get("phase") in _OVER
        self._is_terminal = over
        if not over:
            keep_volumes = None
            if alive or await self._set_up():
                if alive:
                    await self._restore_volumes()
                keep_volumes = asyncio.ensure_future(self._keep_volumes())
            try:
                await self._run_containers(alive=alive)
            finally:
                if keep_volumes is not None:
                    keep_volumes.cancel()
            self._is_terminal = True
            self.changed()
        await self._ending.wait()
        await self._leave()

    def _restore(self, listed: ProcessList) -> bool:
        """Adopt what an earlier agent left; return whether anything of the pod still runs."""
        found = self.folder.read()
        status = self._pod.get("status") or {}
        if status.get("startTime"):
            self._start_time = parse_instant(status["startTime"])
        if found is None:
            return False
        self._record = found
        alive = any(record.identity in listed.running for record in found.containers.values())
        for runner in self.runners:
            if not listed.running:  # the machine was off, and a kubelet that boots knows no delays
                runner.backoff = Backoff()
            record = found.containers.get(runner.name)
            if record is None:
                continue
            if record.identity in listed.running:
                runner.adopt(record)
            elif record.identity in listed.ended:
                runner.record_end(record, listed.ended[record.identity])
            elif runner.is_running:
                runner.record_end(record, Ended(137, 0, lost=True))
        if not alive and found.address:
            self._addresses.release(found.address)
            self._record = msgspec.structs.replace(found, address="")
        return alive

    async def _restore_volumes(self) -> None:
        """Find the volumes of a pod that still runs; errors of their files can wait."""
        try:
            await self._volumes.prepare(self._pod, self.address)
        except VolumeError as error:
            _log.warning("pod %s/%s: %s", *self.key, error)

    async def _set_up(self) -> bool:
        """Prepare the pod's volumes and its address; return False when it must end meanwhile."""
        if self._start_time is None:
            self._start_time = self.machine.now()
        # A pod that starts at once is published once, when it runs.
        asyncio.get_running_loop().call_later(_FIRST_STATUS_AFTER, self.changed)
        delay = 0.5
        while not self._ending.is_set():
            try:
                await self._try_set_up()
            except (NodeError, KubeError, OSError) as error:
                reason = (
                    "FailedMount" if isinstance(error, VolumeError) else "FailedCreatePodSandBox"
                )
                self._event(reason, str(error))
                await self._pause(delay)
                delay = min(delay * 2, _MOUNT_RETRY_LONGEST)
            else:
                return True
        return False

    async def _try_set_up(self) -> None:
        if not self._record.address:
            address = self._addresses.lease()
            start = instant(self._start_time or self.machine.now())
            self._record = msgspec.structs.replace(
                self._record, address=address, start_time=start, containers=self._record.containers
            )
            try:
                self.folder.write(self._record)
            except OSError:
                self._addresses.release(address)
                self._record = msgspec.structs.replace(self._record, address="")
                raise
        await self._volumes.prepare(self._pod, self.address)
        (self.folder.path / "hosts").write_text(hosts_text(self._pod, self.address))

    async def _pause(self, seconds: float) -> None:
        """Wait a while, or until a change that may help."""
        self._objects_changed.clear()
        waits = [
            asyncio.ensure_future(self._objects_changed.wait()),
            asyncio.ensure_future(self._ending.wait()),
        ]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _keep_volumes(self) -> None:
        """Update files whenever their objects change, or a token expires."""
        while True:
            due = self._volumes.refresh_at
            now = asyncio.get_running_loop().time()
            await self.wait_objects_changed(3600.0 if due is None else max(due - now, 1.0))
            try:
                await self._volumes.refresh(self._pod, self.address)
            except (VolumeError, KubeError) as error:
                self._event("FailedMount", str(error))
                await asyncio.sleep(1.0)

    async def _run_containers(self, *, alive: bool) -> None:
        async with asyncio.TaskGroup() as tasks:
            guard = tasks.create_task(self._enforce_deadlines())
            running: list[asyncio.Task[None]] = []
            mains = [r for r in self.runners if r.role is Role.MAIN]
            if not alive and (self._ending.is_set() or all(r.is_over for r in mains)):
                guard.cancel()
                return
            if await self._initialize(tasks, running, alive=alive):
                started = [tasks.create_task(runner.run()) for runner in mains]
                await asyncio.wait(started)
            await self._stop_sidecars(running)
            guard.cancel()

    async def _initialize(
        self,
        tasks: asyncio.TaskGroup,
        running: list[asyncio.Task[None]],
        *,
        alive: bool,
    ) -> bool:
        """Run init containers and start sidecars; return whether the others may start."""
        begun = alive and any(
            runner.is_running for runner in self.runners if runner.role is Role.MAIN
        )
        for runner in self.runners:
            if runner.role is Role.SIDECAR:
                running.append(tasks.create_task(runner.run()))
                await self._wait_until(lambda runner=runner: runner.container.started)  # type: ignore[misc]
            elif runner.role is Role.INIT and not (alive and runner.container.succeeded):
                if begun:
                    continue
                await runner.run()
                if not runner.container.succeeded:
                    return False
            if self._ending.is_set():
                return begun
        return True

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition() and not self._ending.is_set():
            self._changed.clear()
            await self._changed.wait()

    async def _enforce_deadlines(self) -> None:
        """End the containers when the pod must end, and kill what is left at its deadline."""
        await self._wait_ending()
        loop = asyncio.get_running_loop()
        for runner in self.runners:
            if runner.role is not Role.SIDECAR:
                runner.stop(deadline=self._deadline, reason=f"Stopping container {runner.name}")
        while True:
            delay = self._deadline - loop.time() + 0.5
            self._changed.clear()
            if delay <= 0:
                await self._kill_all()
                delay = 5.0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._changed.wait()

    async def _wait_ending(self) -> None:
        """Return when the pod is deleted, or was active for longer than its deadline."""
        limit = self._pod["spec"].get("activeDeadlineSeconds")
        if limit is None:
            await self._ending.wait()
            return
        start = self._start_time or self.machine.now()
        rest = float(limit) - (self.machine.now() - start).total_seconds()
        try:
            async with asyncio.timeout(max(rest, 0.0)):
                await self._ending.wait()
        except TimeoutError:
            message = "Pod was active on the node longer than the specified deadline"
            self._failed = ("DeadlineExceeded", message)
            self._event("DeadlineExceeded", message, warning=False)
            grace = float(self._pod["spec"].get("terminationGracePeriodSeconds", 30))
            self._deadline = asyncio.get_running_loop().time() + grace

    async def _kill_all(self) -> None:
        for runner in self.runners:
            if runner.is_running:
                with contextlib.suppress(KeeperError):
                    await self.machine.processes.kill(runner.container.identity)

    async def _stop_sidecars(self, running: list[asyncio.Task[None]]) -> None:
        """End the sidecars, the last one first, when everything else has ended."""
        sidecars = [r for r in self.runners if r.role is Role.SIDECAR]
        loop = asyncio.get_running_loop()
        grace = float(self._pod["spec"].get("terminationGracePeriodSeconds", 30))
        for runner, task in reversed(list(zip(sidecars, running, strict=False))):
            deadline = self._deadline if self._ending.is_set() else loop.time() + grace
            runner.stop(deadline=deadline, reason=f"Stopping container {runner.name}")
            await asyncio.wait({task})

    async def _leave(self) -> None:
        """Report to the API that the pod has ended, and remove what is left of it."""
        self._is_terminal = True
        while True:
            if await self._remove_from_api():
                break
            await asyncio.sleep(1.0)
        await asyncio.to_thread(self.folder.remove)
        if self._record.address:
            self._addresses.release(self._record.address)

    async def _remove_from_api(self) -> bool:
        """Write the last status and remove the pod from the API; return whether that is done."""
        try:
            await self.publish()
            if not self._gone:
                await self._cluster.remove(self._pod)
        except (Conflict, NotFound):
            return True  # another pod has the name now
        except KubeError as error:
            _log.warning("pod %s/%s cannot be removed from the API: %s", *self.key, error)
            return False
        return True

    @property
    def phase(self) -> str:
        """The phase that follows from the state on this node."""
        return phase_of(self._pod, self.state())

    def _event(self, reason: str, message: str, *, warning: bool = True) -> None:
        self.machine.recorder.record(self._pod, reason=reason, message=message, warning=warning)


def _differs(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether a status differs from the one of the API."""
    for name, value in after.items():
        if name == "conditions":
            known = {c["type"]: c for c in before.get("conditions") or ()}
            if any(not _same(known.get(c["type"]), c) for c in value):
                return True
        elif before.get(name) != value:
            return True
    return False


def _same(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> bool:
    if before is None:
        return False
    names = ("status", "reason", "message", "observedGeneration")
    return all(before.get(name) == after.get(name) for name in names)
