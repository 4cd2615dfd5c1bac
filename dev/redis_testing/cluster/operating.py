"""The operator's own parts at work on one simulated database: probe, memory, executor, movers.

Everything between the planner and the wire is the real code; only the servers, the API and the
clock are simulated. A separate event loop runs while something is asked or done; between that no
time passes in the simulation, unless a test lets it pass.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from kubecontroller.client.api import Client
from redis_operator.api.status import Binding, RedisStatus
from redis_operator.manifests.cluster import CLUSTER
from redis_operator.operator.execute import Executor, StepOutcome
from redis_operator.operator.live import ApiPods
from redis_operator.operator.memory import Memories
from redis_operator.operator.objects.actions import ClusterObjects
from redis_operator.operator.observe import Memory, elections
from redis_operator.operator.servers.actions import Servers
from redis_operator.operator.servers.links import Links, Target
from redis_operator.operator.servers.movers import SlotMovers
from redis_operator.operator.servers.probe import Question, probe
from redis_operator.planning.advice import Plan
from redis_operator.planning.counting import StrayCount
from redis_operator.planning.observed import Node, Observed, Pod
from redis_operator.redis.connection import Address, Credentials

from ..simulation.api import ProcessTransport
from ..simulation.network import Network, SimulationLoop
from ..simulation.process import Effect, Journal, Process, Strike
from .api import NAMESPACE, DatabaseApi
from .world import TICK

if TYPE_CHECKING:
    from .database import SimulatedDatabase

__all__ = ["SimulatedOperator"]

_PROBE_SECONDS = 0.2
_LOGIN = Credentials("replication", "secret")

T = TypeVar("T")


class SimulatedOperator:
    """One operator process after another, for one database."""

    def __init__(self, database: SimulatedDatabase) -> None:
        self._database = database
        self._loop = SimulationLoop()
        self._processes: list[Process] = []
        weakref.finalize(self, _close, self._loop, self._processes)
        self.journal = Journal()
        self.journal.decide = self._decide
        self.network = self._loop.network = Network(database.world, self.journal)
        self.api = DatabaseApi(database)
        self._key = (NAMESPACE, database.wanted.name)
        self._started: dict[str, float] = {}
        self._number = 0
        self.effects_left: int | None = None  # then the process dies
        self.told = RedisStatus()
        self._begin()

    def _begin(self) -> None:
        """Start a process that knows nothing but what the status says."""
        self._number += 1
        self.process = Process(f"operator-{self._number}")
        self._processes[:] = [self.process]
        self.links = Links(on_lost=lambda _: None)
        self.memories = Memories(clock=self._now)
        self.movers = SlotMovers(on_end=lambda _: None)
        transport = ProcessTransport(self.api, self.process, self.journal)
        self._unlearned: Observed | None = None
        self._client = Client(transport, field_manager="redis-operator")

    def _now(self) -> float:
        return self._database.world.now

    # Running

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """Do something as the operator; None when the process died of it."""
        self._refresh()
        result = self._loop.run_until_complete(self._guarded(work))
        if not self.process.alive:
            self.restart()
        return result

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        ticking = asyncio.create_task(self._tick())
        result: list[T] = []

        async def keep() -> None:
            result.append(await work())

        task = self.process.start(keep())
        try:
            await asyncio.wait([task])
            if self.process.ended is not None:
                await self.process.ended
        finally:
            ticking.cancel()
        if not task.cancelled():
            task.result()
        return result[0] if result else None

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self._database.world.advance(TICK)
            self._database.run_controllers()
            self._refresh()

    @property
    def is_moving(self) -> bool:
        """Whether slots are being moved."""
        return bool(self.movers.moving(self._key))

    def pass_time(self, seconds: float) -> None:
        """Let time pass for the operator and the world; moves in progress continue."""
        if self.is_moving:
            end = self._now() + seconds
            self.run(lambda: asyncio.sleep(seconds))
            seconds = max(0.0, end - self._now())
        else:
            self._loop.run_until_complete(asyncio.sleep(seconds))
        self._database.world.advance(seconds)

    def wait_for_moves(self) -> None:
        """Wait until the moves in progress have ended."""

        async def wait() -> None:
            while self.is_moving:  # noqa: ASYNC110 - there is no event for the end of moves
                await asyncio.sleep(TICK)

        self.run(wait)

    def restart(self) -> None:
        """End the process where it is, and start another one."""
        if self.process.alive:
            self._loop.run_until_complete(self._end())
        self.network.process_ended(self.process)
        self.effects_left = None
        self._begin()

    async def _end(self) -> None:
        self.process.die()
        assert self.process.ended is not None
        await self.process.ended

    def _refresh(self) -> None:
        """Pass the addresses and the ended processes to the network."""
        self.network.sandboxes = {pod.ip for pod in self._database.pods}
        for name, server in self._database.world.servers.items():
            began = server.started_at if server.alive else -1.0
            if self._started.setdefault(name, began) != began:
                self._started[name] = began
                self.network.server_ended(name)

    def _decide(self, effect: Effect) -> Strike | None:
        del effect
        if self.effects_left is None:
            return None
        self.effects_left -= 1
        return Strike.CRASH_AFTER if self.effects_left <= 0 else None

    # Observing

    def observe(self, count_strays_on: frozenset[str]) -> Observed:
        """Probe every pod's server, and add what is remembered."""
        self._learn()
        found = None
        while found is None:  # a move in progress may kill the process: the next one observes
            found = self.run(lambda: self._observe(count_strays_on))
        self._unlearned = found
        return found

    async def _observe(self, count_strays_on: frozenset[str]) -> Observed:
        database = self._database
        pods = [database.as_seen(pod) for pod in database.pods]
        nodes = await asyncio.gather(*(self._ask(pod, count_strays_on) for pod in pods))
        memory = self._memory()
        return Observed(
            nodes=tuple(nodes),
            workloads=tuple(database.workloads[shard] for shard in sorted(database.workloads)),
            volumes=tuple(database.volumes.values()),
            elections=elections(memory, nodes, self._now()),
            cluster=memory.cluster,
            resyncs=memory.resyncs,
            resize_refused=memory.resize_refused,
            formed=memory.formed,
        )

    def _memory(self) -> Memory:
        binding = Binding(name="db-conn") if self._database.formed else None
        told = replace(self.told, binding=binding)
        moving, duplicate_strays = (
            self.movers.moving(self._key),
            self.movers.duplicate_strays(self._key),
        )
        return self.memories.of(self._key, told, moving, duplicate_strays)

    async def _ask(self, pod: Pod, count_strays_on: frozenset[str]) -> Node:
        question = Question(
            pod=pod,
            target=_target(pod),
            directives=tuple(name for name, _ in self._database.wanted.config),
            count_strays=pod.name in count_strays_on,
            ended=pod.name in self._database.broken,  # its container crashes repeatedly
        )
        return await probe(self.links, question, timeout=_PROBE_SECONDS, clock=self._now)

    # Acting

    def carry_out(self, advice: Plan, observed: Observed) -> tuple[StepOutcome, ...]:
        """Do a plan, and remember what came of it; nothing when the process died of it."""
        return self.run(lambda: self._carry_out(advice, observed)) or ()

    def _learn(self) -> None:
        """Remember an observation that nothing was done about."""
        if self._unlearned is not None:
            self.memories.learn(self._key, self._unlearned, ())
            self._unlearned = None

    @property
    def census(self) -> StrayCount:
        """The last count of stray keys that this process remembers."""
        self._learn()
        return self.memories._stray_counts.get(self._key, StrayCount())  # noqa: SLF001

    @census.setter
    def census(self, census: StrayCount) -> None:
        self._learn()
        self.memories._stray_counts[self._key] = census  # noqa: SLF001

    async def _carry_out(self, advice: Plan, observed: Observed) -> tuple[StepOutcome, ...]:
        targets = {pod.name: _target(pod) for pod in self._database.pods if pod.ip}
        servers = Servers(self.links, targets, ApiPods(self._client, NAMESPACE))
        objects = ClusterObjects(
            self._client,
            *self._key,
            servers,
            layout=CLUSTER,
            keep_claims=self._database.keep_claims,
        )
        movers = self.movers.of(self._key, _LOGIN)
        executor = Executor(servers.effects(), objects.effects(), movers.effects(servers))
        outcomes = await executor.carry_out(advice)
        self.memories.learn(self._key, observed, outcomes)
        self._unlearned = None
        return outcomes


def _target(pod: Pod) -> Target:
    return Target(pod.uid, Address(pod.ip, 6379))


def _close(loop: SimulationLoop, processes: list[Process]) -> None:
    """End tasks of a dead process without a report."""
    for process in processes:
        process.alive = False
    loop.set_exception_handler(lambda *_: None)
    loop.close()
