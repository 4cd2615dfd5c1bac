"""One simulated Kubernetes with one database, its clients, and operators that come and go."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry

from kubecontroller.client.api import Client
from kubecontroller.client.errors import AlreadyExists, NotFound
from kubecontroller.client.meta import Manifest
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.transport import Transport
from kubecontroller.runtime.controller import CachesNotSynced
from kubecontroller.runtime.events import Recorder
from kubecontroller.runtime.manager import Manager
from kubelocal.apiserver.calls import User
from kubelocal.apiserver.inprocess import InProcessTransport
from kubelocal.apiserver.server import ApiServer
from kubelocal.apiserver.storage.store import Store
from kubelocal.controllers.engine.caches import BUILT_IN_KINDS
from kubelocal.controllers.loop import ControlLoops
from kubelocal.controllers.volumes import DEFAULT_CLASS
from redis_operator.api.crd import crds
from redis_operator.install.installer import kind_of
from redis_operator.install.inventory import item_of
from redis_operator.install.rights import OPERATOR, account
from redis_operator.manifests.names import MANAGER
from redis_operator.operator.backups.wiring import (
    add_backups,
    add_redis_restores,
    add_restores,
    add_schedules,
)
from redis_operator.operator.settings import Settings
from redis_operator.operator.wiring import add_databases, add_failovers
from redis_operator.operator.world import REDIS_FAILOVERS, REDISES, World

from ..cluster.state import Server
from ..cluster.world import TICK, SimulatedCluster
from .api import ProcessTransport
from .clients import Ledger, Writer
from .kubelet import Kubelet
from .mounts import Mounts
from .network import Network, SimulationLoop
from .process import Effect, Journal, Process
from .snapshot import Snapshot, restored, taken
from .workers import told_by

__all__ = [
    "ACCOUNT",
    "DATABASE",
    "NAMESPACE",
    "Broken",
    "Simulation",
    "Snapshot",
    "database",
    "simulate",
]

NAMESPACE = "default"
DATABASE = "db"
ACCOUNT = User(
    f"system:serviceaccount:{OPERATOR}:{OPERATOR}",
    ("system:serviceaccounts", "system:authenticated"),
)
"""The account of operators: it has the rights of an installation, and no other."""
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_WORLD_EPOCH = 1000.0
_RESTART_SECONDS = 1.0
_LOOK_SECONDS = 0.25
_WRITES_A_SECOND = 15  # to one object
_QUIET_SECONDS = 12.0  # longer than the pause between two passes when settled

T = TypeVar("T")
Wrap = Callable[[Transport], Transport]
MakeManager = Callable[[Process, Client], Manager]


class Broken(AssertionError):  # noqa: N818 - what the promise is
    """A promise was broken; the message says which, when, and what led there."""


def database(*, shards: int = 3, replicas: int = 1, storage: bool = True, **spec: Any) -> Manifest:
    """Return a database to apply."""
    found: dict[str, Any] = {
        "mode": "Cluster",
        "engine": "valkey",
        "version": "8.1",
        "shards": shards,
        "replicas": replicas,
    }
    if storage:
        found["storage"] = {"size": "1Gi"}
    return {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "Redis",
        "metadata": {"name": DATABASE, "namespace": NAMESPACE},
        "spec": found | spec,
    }


class NoForwarding:
    """Service calls do not exist here."""

    async def update(self, table: object, /) -> dict[Any, str]:
        """Do nothing."""
        del table
        return {}

    async def close(self) -> None:
        """Do nothing."""


class Simulation:
    """Everything, in the loop that runs. Make one with `simulate`."""

    def __init__(self, *, seed: int, snapshot: Snapshot | None = None) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulationLoop)
        self._loop = loop
        self.seed = seed
        self.journal = Journal()
        self.world = deepcopy(snapshot.world) if snapshot else SimulatedCluster(seed=seed)
        self.world.random.seed(seed)
        store = restored(snapshot) if snapshot else Store()
        chance = random.Random(f"{seed} {loop.time()}")
        self.server = ApiServer(store, clock=self.now, bits=chance.getrandbits)
        self.network = loop.network = Network(self.world, self.journal)
        self.client = Client(InProcessTransport(self.server), field_manager="person")
        kubelet = self._system_client("kubelet")
        self.kubelet = Kubelet(kubelet, self.network, Mounts(store), self.now)
        self.ledger = Ledger(self.world, DATABASE)
        if snapshot is not None:
            kept, volumes, ledger = deepcopy(snapshot.parts)
            self.kubelet.kept, self.kubelet.volumes = kept, volumes
            self.ledger.promised = ledger
        self.writer = Writer(self.ledger, seed=seed)
        self.writer.doors = lambda: self.kubelet.labelled(DATABASE, "primary")
        self.writer._number = max(self.ledger.promised.values(), default=0)  # noqa: SLF001
        self.processes: list[Process] = []
        self.metrics = CollectorRegistry()  # of the operator that started last
        self.failures: list[BaseException] = []
        self.restarts = True
        self.quiet_seconds = _QUIET_SECONDS
        self.skew = 0.0  # how far the clock of the operator's host is ahead
        self.patience = 1.0  # how much longer than usual things may take
        self._paces: dict[tuple[str, str], tuple[int, int]] = {}  # the second, and writes in it
        self.history: list[str] = []  # what was done to it, for the report of a failure
        self._checked_at = -1.0
        self.wrap: Wrap = lambda transport: transport
        self.make_manager: MakeManager = lambda _, client: Manager(client, name=MANAGER)
        self._tasks: list[asyncio.Task[Any]] = []
        self.journal.told.append(self._check_effect)
        self.kubelet.on_last_copy = self._excuse_last_copy

    # Time

    def now(self) -> datetime:
        """Return the time of day."""
        return _EPOCH + timedelta(seconds=self._loop.time())

    def wall(self) -> float:
        """Return the time of day as the operator's host reports it, in seconds since the epoch."""
        return self.now().timestamp() + self.skew

    # Starting and ending

    async def start(self, *, nodes: int = 3) -> None:
        """Bring up the cluster, without an operator."""
        with suppress(AlreadyExists):
            await self.client.create(BUILT_IN_KINDS["storageclasses"], DEFAULT_CLASS)
            for definition in crds().values():
                await self.client.apply(BUILT_IN_KINDS["customresourcedefinitions"], definition)
            for document in account():
                await self.client.apply(kind_of(item_of(document)), document)
        await self.kubelet.register(nodes)
        loops = ControlLoops(
            self._system_client("control-plane"),
            clock=self.now,
            forwarder=NoForwarding(),
        )
        self.spawn(loops.run())
        self.spawn(self.kubelet.run())
        self.spawn(self._tick())

    async def stop(self) -> None:
        """End everything."""
        self.restarts = False
        for process in self.processes:
            process.die()
        for task in self._tasks:
            task.cancel()
        ends = [p.ended for p in self.processes if p.ended is not None]
        await asyncio.gather(*self._tasks, *ends, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something in the background until the end; its errors break the simulation."""
        task = self._loop.create_task(work)
        self._tasks.append(task)
        task.add_done_callback(self._note_failure)
        return task

    def _note_failure(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.failures.append(task.exception() or RuntimeError())

    def _system_client(self, manager: str) -> Client:
        return Client(InProcessTransport(self.server), field_manager=manager)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self.world.advance(_WORLD_EPOCH + self._loop.time() - self.world.now)
            self.network.kick(self.world.kicked)
            self.world.kicked.clear()

    # Operators

    def start_operator(self, name: str = "operator", *, wrap: Wrap | None = None) -> Process:
        """Start an operator process; one that dies is started again, as a Deployment does."""
        process = Process(f"{name}-{len(self.processes)}")
        self.processes.append(process)
        process.on_death.append(lambda: self._on_death(process, name))
        task = process.start(self._operate(process, wrap or self.wrap))
        task.add_done_callback(lambda t: self._operator_ended(process, t))
        return process

    async def _operate(self, process: Process, wrap: Wrap) -> None:
        below = wrap(InProcessTransport(self.server, user=ACCOUNT))
        client = Client(ProcessTransport(below, process, self.journal), field_manager=MANAGER)
        manager = self.make_manager(process, client)
        self.metrics = manager.metrics.registry
        suffixes = iter(range(self._loop_number(), 1 << 62))
        manager.recorder = Recorder(
            manager.client,
            component=MANAGER,
            wall_clock=self.now,
            name_suffix=lambda: next(suffixes),
        )
        settings = Settings(elect=False, health_port=0)
        world = World(manager, settings.namespaces)
        add_databases(manager, settings, world=world, clock=self.wall)
        add_failovers(manager, settings, clock=self.wall)
        add_backups(manager, settings, world, clock=self.wall)
        add_restores(manager, settings, world, clock=self.wall)
        add_redis_restores(manager, settings, world, clock=self.wall)
        archived = partial(told_by, self.client)
        add_schedules(manager, settings, world, clock=self.wall, ask=archived)
        await manager.run()

    def _loop_number(self) -> int:
        return int(self._loop.time() * 1e6) * 1000 + len(self.processes)

    def _on_death(self, process: Process, name: str) -> None:
        self.network.process_ended(process)
        if self.restarts:
            self._loop.call_later(_RESTART_SECONDS, self._restart, name)

    def _restart(self, name: str) -> None:
        if self.restarts:
            self.start_operator(name)

    def _operator_ended(self, process: Process, task: asyncio.Task[None]) -> None:
        if not process.alive:
            return
        error = None if task.cancelled() else task.exception()
        if isinstance(error, CachesNotSynced) or (error is None and process.was_told_to_stop):
            process.die()  # it ended and is started again, as it should be
            return
        self.failures.append(error or RuntimeError("the operator ended by itself"))

    # People

    async def apply(self, manifest: Manifest) -> None:
        """Apply a database as a person does, or a RedisFailover that stands for one."""
        kind = REDIS_FAILOVERS if manifest["kind"] == REDIS_FAILOVERS.kind else REDISES
        await self.client.apply(kind, manifest, manager="kubectl")

    async def change(self, **spec: Any) -> None:
        """Change fields of the database's spec; None removes one."""
        await self.client.patch(REDISES, (NAMESPACE, DATABASE), MergePatch({"spec": spec}))

    async def annotate(self, **annotations: str) -> None:
        """Set annotations of the database."""
        change = MergePatch({"metadata": {"annotations": annotations}})
        await self.client.patch(REDISES, (NAMESPACE, DATABASE), change)

    def kill(self, name: str) -> None:
        """Kill a server process; what only it had is not promised any more."""
        self.ledger.excuse(self.world.servers[name])
        self.kubelet.kill(name)
        if self.world.slow_disks:
            self.ledger.lower_lost()

    def power_off(self, name: str) -> None:
        """Let the machine of a server lose power: what was not synced to its disk is lost."""
        self.ledger.excuse(self.world.servers[name])
        self.world.power_off(name)
        self.kubelet.kill(name)
        self.ledger.lower_lost()

    def cut_off(self, name: str) -> None:
        """Let no operator reach a server any more; others do."""
        self.network.unreachable |= {(process.name, name) for process in self.processes}

    def reach_again(self) -> None:
        """Let operators reach all servers."""
        self.network.unreachable.clear()

    def rejoin(self) -> None:
        """Let all processes reach each other again.

        An operator that nothing hinders has led clients to the new primary long before. One that
        waits for the API, or died, has not: the old primary, whose replicas were taken from it, has
        its label, and takes writes until the sentinels have seen for eight seconds that it leads.
        Those are lost, as they are with real servers: nothing in its pod knows of the other one.
        """
        for name in {name for pair in self.world.cut for name in pair}:
            self.world.servers[name].was_away = self.journal.is_hindered
        self.world.cut.clear()
        self.reach_again()

    def freeze(self, name: str) -> None:
        """Stop a server process without ending it."""
        self.ledger.excuse(self.world.servers[name])
        self.world.servers[name].stopped = True

    def thaw(self, name: str) -> None:
        """Let a stopped process continue."""
        server = self.world.servers[name]
        server.stopped, server.woken_at, server.was_away = False, self.world.now, True

    async def delete_pod(self, name: str) -> None:
        """Delete a pod as a person does; what only a replica of a dead primary had is excused."""
        server = self.world.servers.get(name)
        if server is not None and not server.is_primary:
            self.ledger.excuse(server)
        await self.client.delete(BUILT_IN_KINDS["pods"], (NAMESPACE, name))

    def write_on(self) -> asyncio.Task[None]:
        """Let clients write until the end, or until the task is cancelled."""
        return self.spawn(self.writer.run())

    # Looking

    async def redis(self) -> Manifest:
        """Read the database."""
        return await self.client.get(REDISES, (NAMESPACE, DATABASE))

    async def found(self) -> Manifest:
        """Read the database, or nothing when there is none."""
        try:
            return await self.redis()
        except NotFound:
            return {}

    async def until(self, holds: Callable[[Manifest], bool], *, within: float, what: str) -> None:
        """Wait until something holds of the database; check every promise on the way."""

        async def look() -> bool:
            found = await self.found()
            return bool(found) and holds(found)

        await self.until_all(look, within=within, what=what)

    async def until_all(
        self, holds: Callable[[], Awaitable[bool]], *, within: float, what: str
    ) -> None:
        """Wait until something holds of the whole; check every promise on the way."""
        end = self._loop.time() + within * self.patience
        while True:
            self.check()
            if await holds():
                return
            if self._loop.time() >= end:
                raise Broken(self.explain(f"not {what} within {within:g} s", await self.found()))
            await asyncio.sleep(_LOOK_SECONDS)

    async def until_ready(self, *, within: float = 180.0) -> None:
        """Wait until the database is what was asked for, and all agree on it."""
        await self.until(
            lambda found: is_ready(found) and self.is_calm(), within=within, what="Ready"
        )

    def is_ready(self, found: Manifest) -> bool:
        """Return whether a database says that it is ready, of the spec that stands."""
        return is_ready(found)

    def is_calm(self) -> bool:
        """Return whether no slot is open, and every pod is really ready."""
        mine = [s for s in self.world.servers.values() if s.database == DATABASE and s.alive]
        ready = all(kept.server.ready for kept in self.kubelet.kept.values())
        jobs = [job for server in mine for job in server.jobs if not job.is_finished]
        return ready and not jobs and not any(s.importing or s.migrating for s in mine)

    # Promises

    def check(self) -> None:
        """Raise when a promise is broken."""
        if self.failures:
            raise Broken(self.explain(f"something broke: {self.failures[0]!r}", {})) from (
                self.failures[0]
            )
        gone = self.ledger.gone()
        if gone:
            raise Broken(self.explain(f"acknowledged and gone: {gone[:5]}", {}))

    def _check_effect(self, effect: Effect) -> None:
        if effect.kind.startswith("api "):
            self._check_pace(effect)
        if effect.at == self._checked_at and "MIGRATE" not in effect.kind:
            return  # one of a batch: states between are not visible
        self._checked_at = effect.at
        gone = self.ledger.gone()
        if gone and not self.failures:
            self.failures.append(Broken(self.explain(f"gone after {effect}: {gone[:5]}", {})))

    def _check_pace(self, effect: Effect) -> None:
        """No process writes to one object over and over, whatever its caches show.

        What was refused or did not arrive is sent again, and not counted: it is bounded by itself.
        """
        who_where = (effect.process, effect.detail)
        second, times = self._paces.get(who_where, (0, 0))
        times = times + 1 if second == int(effect.at) else 1
        self._paces[who_where] = (int(effect.at), times)
        if times > _WRITES_A_SECOND and not self.failures:
            problem = f"written more than {_WRITES_A_SECOND} times within a second: {effect}"
            self.failures.append(Broken(self.explain(problem, {})))

    def _excuse_last_copy(self, server: Server) -> None:
        """All other copies in memory were deleted, and this one waited for the operator."""
        if self.journal.is_hindered:
            self.ledger.excuse(server)

    def check_end(self) -> None:
        """Raise unless clients find everything they were promised."""
        self.check()
        hidden = self.ledger.hidden()
        if hidden:
            raise Broken(self.explain(f"acknowledged and not to be read: {hidden[:5]}", {}))

    def explain(self, problem: str, found: Manifest) -> str:
        """Return a whole report of where things stand."""
        lines = [f"seed {self.seed} at {self._loop.time():.2f}: {problem}"]
        status = found.get("status") or {}
        lines += [f"  phase {status.get('phase')}, plan {status.get('plan')}"]
        lines += [
            f"  {c['type']}={c['status']} {c.get('reason')}: {c.get('message')}"
            for c in status.get("conditions") or ()
        ]
        for s in self.world.servers.values():
            followed = s.follows[0] if s.follows is not None else str(s.me.replica_of)[:8]
            role = "primary" if s.is_primary else f"replica of {followed}"
            if s.sentinel is not None:
                named = [p.told_address[0] for p in s.sentinel.primaries.values()]
                role = f"sentinel of {named} {s.sentinel.events[-6:]}"
            lines.append(
                f"  {s.name} {s.id[:8]} at {s.ip or '-'} {role} epoch {s.me.epoch} slots {s.slots} "
                f"keys {s.key_count} offset {s.offset} alive {s.alive} link {s.link_up} "
                f"knows {len(s.table)} open {sorted({*s.importing, *s.migrating})[:3]}"
            )
        lines += [f"  {told}" for told in self.history[-25:]]
        lines += [f"  {effect}" for effect in self.journal.effects[-25:]]
        return "\n".join(lines)

    def snapshot(self) -> Snapshot:
        """Keep everything as it is now."""
        parts = (self.kubelet.kept, self.kubelet.volumes, self.ledger.promised)
        return taken(self._loop.time(), self.server.core.store, self.world, parts)


def is_ready(found: Manifest) -> bool:
    """Return whether a database says that it is ready, of the spec that stands."""
    status = found.get("status") or {}
    current = status.get("observedGeneration") == found["metadata"].get("generation")
    ready = any(
        c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ()
    )
    return current and ready


def simulate(
    scenario: Callable[[Simulation], Coroutine[Any, Any, T]],
    *,
    seed: int = 0,
    snapshot: Snapshot | None = None,
) -> T:
    """Run a scenario in a simulation of its own, from the beginning or from a snapshot."""
    random.seed(seed)
    start = snapshot.time if snapshot is not None else 0.0

    async def play() -> T:
        simulation = Simulation(seed=seed, snapshot=snapshot)
        await simulation.start()
        try:
            return await scenario(simulation)
        finally:
            await simulation.stop()

    with asyncio.Runner(loop_factory=lambda: SimulationLoop(start=start)) as runner:
        return runner.run(play())
