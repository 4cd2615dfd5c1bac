"""The lifecycle of an operator's process: the order in which its parts start and stop.

Start: health and metrics → webhooks (before caches: a conversion webhook that is not served yet
would block the very lists that fill them) → caches, until synced → tasks that need no leader →
warm-up (controllers collect keys) → election → controllers and tasks that need the leader.

Stop, within `stop_grace` seconds in all: not ready any more → tasks and warm-up → controllers
(running reconciles may end) → the lease is released: nothing that needs it runs any more, and a
standby leads while the rest is closed → caches → webhooks, which still receive reviews for a while
after the process stopped being ready → health and metrics → events. A stage that fails or takes too
long does not prevent the next one.

A lost lease skips all of it: `exit_now` is called first, so that nothing that still runs can write.
A second signal ends the process without any of this too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from kubecontroller.client.access import Access
from kubecontroller.client.api import Client
from kubecontroller.client.decode import Unreadable
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.scheme import Kind
from kubecontroller.client.transport import Transport
from kubecontroller.runtime.caches import Caches
from kubecontroller.runtime.controller import CachesNotSynced, Controller
from kubecontroller.runtime.election import (
    Election,
    ElectionThread,
    FencedTransport,
    LeadershipLost,
    Watchdog,
)
from kubecontroller.runtime.events import Recorder, Regarding
from kubecontroller.runtime.informer import Informer
from kubecontroller.runtime.lease import LeaseSettings, default_identity
from kubecontroller.runtime.logs import fields
from kubecontroller.runtime.metrics import MeasuredTransport, Metrics
from kubecontroller.runtime.server import HealthServer

__all__ = ["LOST_STATUS", "Manager", "Server"]

T = TypeVar("T")

_log = logging.getLogger(__name__)
LOST_STATUS: Final = 2
"""The exit status of a process that lost the lease."""
_ENDLESS = frozenset({"caches", "controllers", "events", "machinery"})
_LAST_SECONDS = 5.0
_LEAST_SECONDS = 0.1
_RELEASE_SECONDS = 5.0
_CANCEL_SECONDS = 5.0
_STUCK_SECONDS = 30.0


class Server(Protocol):
    """A server that runs as long as the process, such as webhooks."""

    async def start(self) -> None:
        """Begin to serve."""
        ...

    async def stop(self) -> None:
        """Stop serving."""
        ...


class Manager:
    """Holds the parts of one operator process and runs them in order.

    `client` is for all reads and, once a lease is set, fences writes by it: use `manager.client`,
    not the one passed in. `unfenced_client` is for what every replica writes, leader or not:
    certificates of webhooks, events. `connect` opens the election's own connection; `election`
    replaces the election in a thread. `linger` is for how many seconds webhooks are served after
    the process stopped being ready: the time until no API server sends reviews any more.
    """

    def __init__(
        self,
        client: Client,
        *,
        name: str = "operator",
        lease: LeaseSettings | None = None,
        connect: Callable[[], Transport] | None = None,
        election: Election | None = None,
        health: HealthServer | None = None,
        metrics: Metrics | None = None,
        webhooks: Iterable[Server] = (),
        stop_grace: float = 30.0,
        linger: float = 5.0,
        cache_timeout: float = 120.0,
        stuck_after: float | None = None,
        exit_now: Callable[[int], object] = os._exit,
    ) -> None:
        if lease is not None and connect is None:
            raise ValueError("an election needs its own connection: pass connect=")
        self.name = name
        self.controllers: list[Controller] = []
        self.informers: dict[tuple[object, ...], Informer[Any]] = {}
        self.metrics = metrics if metrics is not None else Metrics()
        self.metrics.watch_manager(self)
        if election is None and lease is not None and connect is not None:
            election = ElectionThread(lease, connect)
        self.election = election
        measured = MeasuredTransport(
            client.transport, self.metrics, host=getattr(client.transport, "host", "")
        )
        transport: Transport = measured
        if election is not None:
            transport = FencedTransport(measured, election)
        # without an election a process leads as soon as it works: an alert must not see no leader
        self._leading = self.metrics.leading.labels(election.settings.name if election else name)
        self._leading.set(0)
        self.client = Client(transport, field_manager=client.field_manager, timeout=client.timeout)
        self.unfenced_client = Client(
            measured, field_manager=client.field_manager, timeout=client.timeout
        )
        self.recorder = Recorder(self.unfenced_client, component=name)
        self.health = health
        self._webhooks = list(webhooks)
        self._stop_grace = stop_grace
        self._linger = linger
        self._cache_timeout = cache_timeout
        self._watchdog = Watchdog(stuck_after) if stuck_after is not None else None
        self._exit_now = exit_now
        self._extra: list[tuple[str, Callable[[], Awaitable[None]], bool]] = []
        self._groups: dict[str, list[asyncio.Task[None]]] = {}
        self._not_ready: str | None = "starting"
        self._stopping = asyncio.Event()
        self._failure: BaseException | None = None
        self._signals = 0
        self._connection: Transport | None = None
        self._caches_started = False
        self.on_synced: list[Callable[[], None]] = []

    @classmethod
    def connected(
        cls, access: Access, *, name: str, namespace: str = "", **options: Any
    ) -> Manager:
        """Return a manager that reaches a server by HTTP and elects a leader by a lease of that
        name.

        The lease is in `namespace`, or in the namespace of the configuration. A loop that is
        blocked for half a minute ends the process, or its election would keep the lease for ever.
        Call it in the loop that will run it; `run` closes the connection at its end.
        """
        lease = LeaseSettings(namespace or access.namespace, name, default_identity())
        client = Client(HttpTransport(access, user_agent=name), field_manager=name)
        defaults = {
            "lease": lease,
            "connect": partial(HttpTransport, access, user_agent=name),
            "stuck_after": _STUCK_SECONDS,
        }
        options = {**defaults, **options}
        manager = cls(client, name=name, **options)
        manager._connection = client.transport
        return manager

    def informer(
        self, kind: Kind[T], *, namespace: str = "", labels: str = "", fields: str = "", **more: Any
    ) -> Informer[T]:
        """Return the shared informer of a kind; the same kind and selectors share one.

        One requested while the manager runs is started at once; wait for it with `wait_synced`.
        """
        place = (kind, namespace, labels, fields)
        known = self.informers.get(place)
        if known is None:
            known = Informer(
                self.client, kind, namespace=namespace, labels=labels, fields=fields, **more
            )
            self.informers[place] = known
            if self._caches_started:
                self._run_cache(known)
        elif more:
            raise ValueError(f"{known!r} exists already: give its options where it is first made")
        return known

    def caches(
        self, kind: Kind[T], *, namespaces: Iterable[str] = (), labels: str = "", **more: Any
    ) -> Caches[T]:
        """Return the shared caches of a kind in some namespaces, or in all, read as one."""
        places = tuple(dict.fromkeys(namespaces)) or ("",)
        return Caches(self.informer(kind, namespace=ns, labels=labels, **more) for ns in places)

    def add(self, controller: Controller) -> None:
        """Run a controller; the manager runs its informers too."""
        if any(other.name == controller.name for other in self.controllers):
            raise ValueError(f"two controllers are named {controller.name!r}: metrics would mix")
        self.controllers.append(controller)
        for watch in controller.watches:
            if watch.informer not in self.informers.values():
                self.informers[(id(watch.informer),)] = watch.informer

    def add_task(
        self, name: str, task: Callable[[], Awaitable[None]], *, needs_leader: bool = False
    ) -> None:
        """Run a task beside the controllers, on every replica or only on the leader."""
        self._extra.append((name, task, needs_leader))

    def add_webhooks(self, server: Server) -> None:
        """Serve webhooks from the start on, before caches and election: on every replica.

        Their writes go through `unfenced_client`: no process leads yet when they begin.
        """
        if self._caches_started:
            raise RuntimeError("webhooks must be added before the manager runs")
        self._webhooks.append(server)

    def serve_health(
        self, *, host: str = "0.0.0.0", port: int = 8080, secured_port: int | None = None
    ) -> HealthServer:
        """Serve `/healthz`, `/readyz` and `/metrics` from the start; return the server.

        With `secured_port`, metrics are served there instead, over TLS, to readers whose token the
        API server authenticates and authorizes to `get` the path `/metrics`.
        """
        secured = None
        if secured_port is not None:
            from kubecontroller.runtime.secured import SecuredMetrics  # noqa: PLC0415 - heavy

            secured = SecuredMetrics(self.unfenced_client, port=secured_port)
        self.health = HealthServer(self.metrics, host=host, port=port, secured=secured)
        return self.health

    def limitation(self) -> str | None:
        """Return why this process is not ready, or nothing."""
        return self._not_ready

    def request_stop(self) -> None:
        """Begin to stop, as after a first signal."""
        self._stopping.set()

    async def run(self) -> None:
        """Run until stopped, by a signal or otherwise.

        Errors: `LeadershipLost`; `CachesNotSynced`; the error of a part that must not end.
        """
        self._install_signals()
        start = asyncio.create_task(self._start(), name="start")
        stop = asyncio.create_task(self._stopping.wait(), name="stop")
        try:
            await asyncio.wait({start, stop}, return_when=asyncio.FIRST_COMPLETED)
            if start.done():
                self._ended("start", start)
            await stop
        finally:
            for task in (start, stop):
                task.cancel()
            await asyncio.gather(start, stop, return_exceptions=True)
            await self._stop()
            self._remove_signals()
        if self._failure is not None:
            raise self._failure

    # Starting

    async def _start(self) -> None:
        if self._watchdog is not None:
            self._watchdog.start()
        self._spawn("machinery", "loop lag", self.metrics.measure_lag())
        self._spawn("events", "events", self.recorder.run())
        await self._start_servers()
        await self._start_caches()
        for name, task, needs_leader in self._extra:
            if not needs_leader:
                self._spawn("others", name, task())
        for controller in self.controllers:
            if not controller.needs_leader:
                self._spawn("controllers", controller.name, controller.run())
        await self._warm_up()
        self._not_ready = None
        await self._lead()
        for name, task, needs_leader in self._extra:
            if needs_leader:
                self._spawn("leader", name, task())
        for controller in self.controllers:
            if controller.needs_leader:
                self._spawn("controllers", controller.name, controller.run())
        _log.info("started", extra=fields(manager=self.name))

    async def _start_servers(self) -> None:
        if self.health is not None:
            self.health.add_readiness("manager", self.limitation)
            self.health.add_health("ping", lambda: None)  # to respond is to be alive
            await self.health.start()
        for server in self._webhooks:
            await server.start()

    async def _start_caches(self) -> None:
        self._caches_started = True
        for informer in self.informers.values():
            self._run_cache(informer)
        try:
            async with asyncio.timeout(self._cache_timeout):
                for informer in list(self.informers.values()):
                    await (
                        informer.wait_answered() if informer.optional else informer.wait_synced()
                    )
        except TimeoutError:
            raise CachesNotSynced(self._unsynced()) from None
        for callback in self.on_synced:
            callback()
        _log.info("caches synced", extra=fields(caches=len(self.informers)))

    def _run_cache(self, informer: Informer[Any]) -> None:
        if informer.on_unreadable is None:
            informer.on_unreadable = partial(self._report_unreadable, informer.kind)
        self._spawn("caches", f"cache of {informer.kind.resource}", informer.run())

    def _report_unreadable(self, kind: Kind[Any], what: Unreadable) -> None:
        """Record an event at an object that cannot be decoded: nothing else can be written."""
        about = Regarding(kind.api_version, kind.kind, *what.key, what.uid, what.resource_version)
        message = f"{self.name} cannot decode it and ignores it: {what.error}"
        self.recorder.warning(about, "Unreadable", message)

    async def _warm_up(self) -> None:
        for controller in self.controllers:
            controller.listen()
        for controller in self.controllers:
            await controller.wait_synced(timeout=self._cache_timeout)

    async def _lead(self) -> None:
        election = self.election
        if election is not None:
            election.start()
            self._spawn("machinery", "leadership", self._follow_leadership(election))
            await election.wait_leading()
        self._leading.set(1)

    async def _follow_leadership(self, election: Election) -> None:
        await election.lost.wait()
        self._leading.set(0)
        lost = LeadershipLost(
            f"the lease {election.settings.namespace}/{election.settings.name} was lost; "
            f"{election.holder or 'no one'} was seen to hold it last"
        )
        _log.error("exiting at once", extra=fields(error=lost))
        self._exit_now(LOST_STATUS)
        raise lost

    def _unsynced(self) -> str:
        missing = [
            f"{informer.kind.resource} ({informer.last_error or 'no answer yet'})"
            for informer in self.informers.values()
            if not informer.has_synced and not informer.optional
        ]
        return f"no first list within {self._cache_timeout:g} s of: {', '.join(missing)}"

    # Stopping

    async def _stop(self) -> None:
        self._not_ready = "stopping"
        self._stopping.set()
        is_lost = isinstance(self._failure, LeadershipLost)
        loop = asyncio.get_running_loop()
        grace = 0.0 if is_lost else self._stop_grace
        deadline = loop.time() + grace
        closing = loop.time() + min(self._linger, grace / 4) if self._webhooks else loop.time()
        # What comes after the controllers needs time too: the lease is released there.
        work_until = deadline - min(_LAST_SECONDS, grace / 2)
        stages: list[tuple[str, Callable[[], Awaitable[object]]]] = [
            ("tasks", partial(self._cancel, "others")),
            ("controllers", partial(self._stop_controllers, work_until)),
            ("election", partial(self._stop_election, is_lost=is_lost)),
            ("caches", partial(self._cancel, "caches")),
            ("webhooks", partial(self._stop_webhooks, closing)),
            ("server", partial(self._stop_servers, [self.health] if self.health else [])),
            ("events", partial(self._stop_events, is_lost=is_lost)),
        ]
        for number, (stage, stop) in enumerate(stages):
            _log.info("stopping", extra=fields(manager=self.name, stage=stage))
            begin = max(loop.time(), closing) if stage == "webhooks" else loop.time()
            share = (deadline - begin) / (len(stages) - number)
            until = work_until if stage == "controllers" else begin + share
            await _limited(stage, stop(), timeout=until - loop.time())
        if self._watchdog is not None:
            self._watchdog.stop()

    async def _stop_controllers(self, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(c.stop(grace=deadline - loop.time()) for c in self.controllers))
        await self._cancel("leader", "controllers")

    async def _stop_webhooks(self, closing: float) -> None:
        """Close webhooks once the API servers have noticed that this process is not ready."""
        await asyncio.sleep(closing - asyncio.get_running_loop().time())
        await self._stop_servers(self._webhooks)

    async def _stop_servers(self, servers: Iterable[Server]) -> None:
        stops = (server.stop() for server in servers)
        for result in await asyncio.gather(*stops, return_exceptions=True):
            if isinstance(result, Exception):
                _log.error("a server failed to stop", extra=fields(error=result))

    async def _stop_election(self, *, is_lost: bool) -> None:
        await self._cancel("machinery")
        if self.election is not None:
            await self.election.stop(timeout=0.0 if is_lost else _RELEASE_SECONDS)
        self._leading.set(0)

    async def _stop_events(self, *, is_lost: bool) -> None:
        await self.recorder.drain(timeout=0.0 if is_lost else 1.0)
        await self._cancel("events")
        if self._connection is not None:
            await self._connection.close()

    async def _cancel(self, *groups: str) -> None:
        tasks = [task for group in groups for task in self._groups.pop(group, [])]
        for task in tasks:
            task.cancel()
        if tasks:
            _, stubborn = await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)
            for task in stubborn:
                _log.error("a task does not stop", extra=fields(task=task.get_name()))

    def _spawn(self, group: str, name: str, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(_awaited(work))
        task.set_name(name)
        self._groups.setdefault(group, []).append(task)
        task.add_done_callback(partial(self._ended, group))

    def _ended(self, group: str, task: asyncio.Task[None]) -> None:
        """Handle the end of a part: by an error, or although it was not asked to stop."""
        if not task.cancelled() and task.exception() is not None:
            self._fail(task.exception())
        elif not self._stopping.is_set() and (task.cancelled() or group in _ENDLESS):
            how = "was cancelled" if task.cancelled() else "ended"
            self._fail(RuntimeError(f"{task.get_name()} {how} although it was not asked to stop"))

    def _fail(self, error: BaseException | None) -> None:
        if self._failure is None:
            self._failure = error
            _log.error("stopping because of an error", extra=fields(error=error))
        self._stopping.set()

    # Signals

    def _install_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            # Only the main thread may; elsewhere the caller stops the manager.
            with suppress(RuntimeError, ValueError, NotImplementedError):
                loop.add_signal_handler(number, self.signalled)

    def _remove_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(RuntimeError, ValueError, NotImplementedError):
                loop.remove_signal_handler(number)

    def signalled(self) -> None:
        """Handle a signal: the first asks for a graceful stop, the second ends the process."""
        self._signals += 1
        if self._signals > 1:
            _log.error("second signal: ending at once")
            self._exit_now(1)
            return
        self.request_stop()


async def _awaited(work: Awaitable[None]) -> None:
    await work


async def _limited(stage: str, work: Awaitable[object], *, timeout: float) -> None:
    """Run one stage of the stop; errors are logged, and the next stage begins."""
    task = asyncio.ensure_future(work)
    await asyncio.wait([task], timeout=max(timeout, _LEAST_SECONDS))
    if not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_LEAST_SECONDS)
        _log.error("stopping took too long", extra=fields(stage=stage))
    elif not task.cancelled() and task.exception() is not None:
        _log.error("stopping failed", extra=fields(stage=stage, error=task.exception()))
