"""One container of a pod, from its image to its end, and its restarts.

Guarantees: at most one instance at a time; its record is on disk before it starts; after a stop it
is never started again; its state is in `container`, and each change is published.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kubelocal.apiserver.kinds.quantities import amount
from kubelocal.node.errors import ConfigError, ImageError, KeeperError, StartError
from kubelocal.node.images import Image
from kubelocal.node.layout import ContainerRecord
from kubelocal.node.pod.context import PodContext
from kubelocal.node.pod.health import Health, Unhealthy
from kubelocal.node.pod.probes import ExecCheck, HttpCheck, handler_of
from kubelocal.node.pod.probing import ask
from kubelocal.node.pod.states import (
    LONGEST,
    Backoff,
    Container,
    Role,
    Running,
    Terminated,
    Waiting,
    instant,
    parse_instant,
    termination_message,
)
from kubelocal.node.process.client import Description, Ended
from kubelocal.node.process.execution import Finished, run_command
from kubelocal.node.process.launch import Launch, describe

__all__ = ["ContainerRunner"]

_CONFIG_RETRY = 5.0
_KILL_RETRY = 1.0
_SHORTEST_GRACE = 2.0
_BEFORE_BACKOFF = 1.0
_LONGEST_HOOK = 3600.0


class ContainerRunner:
    """Runs one container; `run` ends when it has ended and is not restarted."""

    def __init__(
        self, context: PodContext, spec: Mapping[str, Any], role: Role, container: Container
    ) -> None:
        self._context = context
        self._spec = spec
        self.role = role
        self.container = container
        self.description: Description | None = None
        self._end: asyncio.Future[Ended] | None = None
        self.backoff = Backoff(container.restarts)
        self._image_backoff = 0.0
        self._stop = asyncio.Event()
        self._deadline = 0.0
        self._kill_reason = ""
        self._health: Health | None = None

    @property
    def name(self) -> str:
        """The container's name."""
        return self.container.name

    @property
    def is_running(self) -> bool:
        """Whether an instance of it runs now."""
        return isinstance(self.container.state, Running)

    @property
    def is_over(self) -> bool:
        """Whether it ended and will not be restarted."""
        return isinstance(self.container.state, Terminated) and not self._may_restart()

    # Lifecycle

    def adopt(self, record: ContainerRecord) -> None:
        """Adopt an instance that an earlier agent started and that still runs."""
        self.description = Description.read(self._context.folder.spec(self.name))
        started = parse_instant(record.started) if record.started else self._context.machine.now()
        self.container.state = Running(started)
        self.container.identity = record.identity
        self.container.attempt = self.container.restarts = record.attempt
        self._end = self._context.machine.processes.watch(record.identity)

    def record_end(self, record: ContainerRecord, ended: Ended) -> None:
        """Record that an instance of an earlier agent ended meanwhile."""
        started = parse_instant(record.started) if record.started else None
        self.container.identity = record.identity
        self.container.attempt = self.container.restarts = record.attempt
        if not isinstance(self.container.state, Terminated):
            self.container.state = Running(started or self._context.machine.now())
        self._ended(ended)

    async def run(self) -> None:
        """Run the container until it is stopped, or ends and is not restarted."""
        while True:
            if self._end is None:
                if self._stop.is_set():
                    return
                if self._latest_end() is not None and not await self._wait_turn():
                    return
                if not await self._start():
                    continue
            await self._supervise()
            if not self._may_restart():
                return

    def _may_restart(self) -> bool:
        if self._stop.is_set():
            return False
        policy = self._context.pod["spec"].get("restartPolicy", "Always")
        if self.role is Role.SIDECAR:
            return True
        if self.container.succeeded:
            return self.role is Role.MAIN and policy == "Always"
        return bool(policy != "Never")

    def _latest_end(self) -> Terminated | None:
        """Return the end after which the container waits for its restart, if any."""
        match self.container.state:
            case Terminated() as ended:
                return ended
            case Waiting("RunContainerError"):
                return self.container.last
        return None

    async def _wait_turn(self) -> bool:
        """Wait as long as the back-off says; return whether the container may start."""
        ended = self._latest_end()
        assert ended is not None
        if not self._may_restart():
            return False
        ran = 0.0
        if ended.started is not None and ended.reason != "StartError":
            ran = (ended.finished - ended.started).total_seconds()
        delay = self.backoff.after_end(ran=ran)
        since = (self._context.machine.now() - ended.finished).total_seconds()
        if delay - since > 0:
            metadata = self._context.pod["metadata"]
            owner = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
            message = f"back-off {_span(delay)} restarting failed container={self.name} pod={owner}"
            text = f"Back-off restarting failed container {self.name} in pod {owner}"
            self._event("BackOff", text, warning=True)
            if await self._sleep(min(_BEFORE_BACKOFF, delay - since)):
                return False
            self._wait_for(Waiting("CrashLoopBackOff", message), last=ended)
            if await self._sleep(delay - since - _BEFORE_BACKOFF):
                return False
        return not self._stop.is_set()

    def _wait_for(self, waiting: Waiting, *, last: Terminated | None = None) -> None:
        if isinstance(self.container.state, Terminated):
            self.container.last = last or self.container.state
        self.container.state = waiting
        self.container.ready = self.container.started = False
        self._context.changed()

    async def _sleep(self, seconds: float) -> bool:
        """Sleep until a stop at most; return whether it is stopping."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._stop.wait()
        return self._stop.is_set()

    # Start

    async def _start(self) -> bool:
        """Start an instance; return whether it runs. After a failure, wait for the back-off."""
        image = await self._pull()
        if image is None:
            return False
        attempt = self.container.attempt + 1
        identity = secrets.token_hex(32)
        try:
            description = await self._describe(image, identity, attempt)
            description.write(self._context.folder.spec(self.name))
            self._context.remember(self.name, ContainerRecord(identity, attempt))
        except ConfigError as error:
            await self._refused("CreateContainerConfigError", str(error))
            return False
        except OSError as error:
            await self._refused("CreateContainerError", f"{error.strerror}: {error.filename}")
            return False
        self._context.folder.drop_old_logs(self.name, attempt)
        self._event("Created", f"Created container: {self.name}")
        return await self._launch(description, image, identity, attempt)

    async def _describe(self, image: Image, identity: str, attempt: int) -> Description:
        home = self._context
        limits = (self._spec.get("resources") or {}).get("limits") or {}
        memory = int(amount(limits["memory"])) if "memory" in limits else None
        pids = home.machine.pids_limit
        groups = home.machine.cgroups.create(identity, memory=memory, pids=pids)
        return describe(
            Launch(
                pod=home.pod,
                container=self._spec,
                image=image,
                identity=identity,
                attempt=attempt,
                folder=home.folder,
                mode=home.machine.mode,
                sources=await home.sources(),
                volumes=home.volumes,
                service_variables=home.service_variables(),
                cgroups=groups,
                hidden=home.machine.hidden,
            )
        )

    async def _launch(
        self, description: Description, image: Image, identity: str, attempt: int
    ) -> bool:
        processes = self._context.machine.processes
        end = processes.watch(identity)
        previous = self.container.state
        try:
            await processes.start(self._context.folder.spec(self.name))
        except (StartError, KeeperError) as error:
            if isinstance(error, KeeperError) or error.stage == "keeper":
                await self._take_back(identity)
            processes.unwatch(identity)
            self._failed_to_start(description, identity, attempt, str(error))
            return False
        if isinstance(previous, Terminated):
            self.container.last = previous
        now = self._context.machine.now()
        self._context.remember(self.name, ContainerRecord(identity, attempt, instant(now)))
        self.description, self._end = description, end
        self.container.attempt = self.container.restarts = attempt
        self.container.identity = identity
        self.container.image_identity = image.identity
        self._event("Started", f"Started container {self.name}")
        if not await self._post_start():
            return True
        self.container.state = Running(now)
        self.container.started = self.container.ready = False
        return True

    async def _take_back(self, identity: str) -> None:
        """End an instance whose start was not confirmed: it may run, or be started later.

        The keeper handles requests in their order: once it has responded, nothing is left of it.
        """
        await self._kill(identity)
        with contextlib.suppress(KeeperError):
            await self._context.machine.processes.forget([identity])

    async def _kill(self, identity: str) -> None:
        """Kill an instance, with retries until the keeper confirms it."""
        while True:
            with contextlib.suppress(KeeperError):
                return await self._context.machine.processes.kill(identity)
            await asyncio.sleep(_KILL_RETRY)

    def _failed_to_start(
        self, description: Description, identity: str, attempt: int, problem: str
    ) -> None:
        program = description.argv[0]
        message = f'failed to start container: exec: "{program}": {problem}'
        self._event("Failed", f"Error: {message}", warning=True)
        now = self._context.machine.now()
        epoch = datetime.fromtimestamp(0, UTC)
        ended = Terminated(128, "StartError", epoch, now, message, identity)
        self.container.attempt = self.container.restarts = attempt
        self.container.identity = identity
        self.container.last, self.container.state = ended, Waiting("RunContainerError", message)
        if not self._may_restart():
            self.container.last, self.container.state = None, ended
        self._context.machine.cgroups.remove(identity)
        self._context.changed()

    async def _refused(self, reason: str, message: str) -> None:
        self._event("Failed", f"Error: {message}", warning=True)
        self._wait_for(Waiting(reason, message))
        stop = asyncio.ensure_future(self._stop.wait())
        change = asyncio.ensure_future(self._context.wait_objects_changed(_CONFIG_RETRY))
        try:
            await asyncio.wait({stop, change}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            change.cancel()

    # Image

    async def _pull(self) -> Image | None:
        """Return the container's image, or wait and return None when there is none."""
        text = str(self._spec.get("image") or "")
        policy = self._spec.get("imagePullPolicy") or "IfNotPresent"
        try:
            image = self._context.machine.images.resolve(text)
        except ImageError as error:
            await self._no_image(text, policy, error)
            return None
        if policy == "Always":
            self._event("Pulling", f'Pulling image "{text}"')
            self._event("Pulled", f'Successfully pulled image "{text}" in 0s')
        else:
            self._event("Pulled", f'Container image "{text}" already present on machine')
        self._image_backoff = 0.0
        return image

    async def _no_image(self, text: str, policy: str, error: ImageError) -> None:
        if error.reason == "InvalidImageName":
            self._event("InspectFailed", str(error), warning=True)
            await self._refused_image(Waiting("InvalidImageName", str(error)), _CONFIG_RETRY)
            return
        if policy == "Never":
            message = f'Container image "{text}" is not present with pull policy of Never'
            self._event("ErrImageNeverPull", message, warning=True)
            await self._refused_image(Waiting("ErrImageNeverPull", message), _CONFIG_RETRY)
            return
        self._event("Pulling", f'Pulling image "{text}"')
        self._event("Failed", f'Failed to pull image "{text}": {error}', warning=True)
        delay = self._image_backoff = min(max(10.0, self._image_backoff * 2), LONGEST)
        if await self._refused_image(Waiting("ErrImagePull", str(error)), _BEFORE_BACKOFF):
            return
        self._event("BackOff", f'Back-off pulling image "{text}"')
        message = f'Back-off pulling image "{text}": ErrImagePull: {error}'
        await self._refused_image(Waiting("ImagePullBackOff", message), delay - _BEFORE_BACKOFF)

    async def _refused_image(self, waiting: Waiting, seconds: float) -> bool:
        self._event("Failed", f"Error: {waiting.reason}", warning=True)
        self._wait_for(waiting)
        return await self._sleep(seconds)

    # Supervision

    async def _supervise(self) -> None:
        """Supervise a running instance until it ends."""
        assert self._end is not None
        self._health = Health(
            self._spec, self.container, self._context, run=self.run_command, role=self.role
        )
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            async with self._health as health:
                self._context.changed()
                watched: set[asyncio.Future[Any]] = {self._end, stopping, health.trouble}
                await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
                if not self._end.done():
                    await self._end_instance(stopping, health.trouble)
            ended = await asyncio.shield(self._end)
        finally:
            stopping.cancel()
            self._health = None
        self._ended(ended)
        with contextlib.suppress(KeeperError):
            await self._context.machine.processes.forget([self.container.identity])

    async def _end_instance(
        self, stopping: asyncio.Future[Any], trouble: asyncio.Future[Unhealthy]
    ) -> None:
        loop = asyncio.get_running_loop()
        if stopping.done():
            await self._terminate(max(self._deadline - loop.time(), 0.0), self._kill_reason)
            return
        unhealthy = trouble.result()
        grace = unhealthy.grace
        if grace is None:
            grace = float(self._context.pod["spec"].get("terminationGracePeriodSeconds", 30))
        self._deadline = loop.time() + grace
        await self._terminate(grace, unhealthy.message)

    def _ended(self, ended: Ended) -> None:
        machine = self._context.machine
        state = self.container.state
        started = state.started if isinstance(state, Running) else None
        finished = datetime.fromtimestamp(ended.finished / 1e9, UTC) if ended.finished else None
        reason = "Completed" if ended.code == 0 else "Error"
        if ended.code != 0 and machine.cgroups.was_out_of_memory(self.container.identity):
            reason = "OOMKilled"
        self.container.state = Terminated(
            code=ended.code,
            reason=reason,
            started=started,
            finished=finished or machine.now(),
            message=termination_message(
                self._context.folder, self._spec, self.container, ended.code
            ),
            identity=self.container.identity,
        )
        self.container.started = False
        self.container.ready = self.role is Role.INIT and ended.code == 0
        machine.cgroups.remove(self.container.identity)
        machine.processes.unwatch(self.container.identity)
        self._end = None
        self._context.changed()

    # Stopping

    def stop(self, *, deadline: float, reason: str) -> None:
        """End the container by a deadline in loop time; it is not restarted."""
        self._deadline = deadline
        self._kill_reason = reason
        self._stop.set()

    async def _terminate(self, grace: float, message: str) -> None:
        """Send SIGTERM to the instance, and kill it when its grace period is over."""
        assert self._end is not None
        loop = asyncio.get_running_loop()
        self._event("Killing", message)
        begun = loop.time()
        await self._pre_stop(grace)
        rest = grace - (loop.time() - begun)
        if grace > 0:
            rest = max(rest, _SHORTEST_GRACE)
        processes, identity = self._context.machine.processes, self.container.identity
        with contextlib.suppress(KeeperError):
            if grace > 0:
                await processes.signal(identity, signal.SIGTERM)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(rest):
                        await asyncio.shield(self._end)
        if not self._end.done():
            await self._kill(identity)

    # Hooks

    async def run_command(self, command: Sequence[str], timeout: float) -> Finished:
        """Run a command in the running instance."""
        if self.description is None:
            raise StartError("join", 0, f"container {self.name} is not running")
        folder = self._context.folder.container(self.name)
        return await run_command(
            self._context.machine.processes, self.description, folder, command, timeout=timeout
        )

    async def _hook(self, name: str, timeout: float) -> str | None:
        """Run a lifecycle hook; return what went wrong, or None."""
        declared = (self._spec.get("lifecycle") or {}).get(name)
        if not declared:
            return None
        if declared.get("sleep"):
            await self._sleep(min(float(declared["sleep"].get("seconds") or 0), timeout))
            return None
        check = handler_of(declared, self._spec, address=self._context.address)
        if not isinstance(check, ExecCheck | HttpCheck):
            return None
        result = await ask(check, self.run_command, timeout=timeout)
        return None if result.success else result.message

    async def _post_start(self) -> bool:
        """Run the postStart hook; return whether the container may continue."""
        assert self._end is not None
        if not (self._spec.get("lifecycle") or {}).get("postStart"):
            return True
        hook = asyncio.ensure_future(self._hook("postStart", _LONGEST_HOOK))
        stop = asyncio.ensure_future(self._stop.wait())
        watched: set[asyncio.Future[Any]] = {hook, stop, self._end}
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
        if not hook.done():
            hook.cancel()
            return True
        if hook.result() is None:
            return True
        self._event("FailedPostStartHook", "PostStartHook failed", warning=True)
        self.container.state = Running(self._context.machine.now())
        grace = float(self._context.pod["spec"].get("terminationGracePeriodSeconds", 30))
        await self._terminate(grace, "FailedPostStartHook")
        return False

    async def _pre_stop(self, grace: float) -> None:
        if grace <= 0:
            return
        declared = (self._spec.get("lifecycle") or {}).get("preStop")
        if declared and declared.get("sleep"):
            assert self._end is not None
            seconds = min(float(declared["sleep"].get("seconds") or 0), grace)
            await asyncio.wait({self._end}, timeout=seconds)
            return
        problem = await self._hook("preStop", grace)
        if problem is not None:
            self._event("FailedPreStopHook", "PreStopHook failed", warning=True)

    def _event(self, reason: str, message: str, *, warning: bool = False) -> None:
        kind = "containers" if self.role is Role.MAIN else "initContainers"
        field = f"spec.{kind}{{{self.name}}}"
        self._context.machine.recorder.record(
            self._context.pod, reason=reason, message=message, warning=warning, field=field
        )


def _span(seconds: float) -> str:
    """Format a duration as Go does: `10s`, `1m20s`, `5m0s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
