"""A database of real servers without Kubernetes: probe, plan and execute on loopback addresses."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from msgspec.structs import replace

from redis_operator.operator.effects import Effect
from redis_operator.operator.execute import Executor, StepOutcome
from redis_operator.operator.live import LivePod
from redis_operator.operator.servers.actions import Servers
from redis_operator.operator.servers.links import Links, Target
from redis_operator.operator.servers.probe import Question, probe
from redis_operator.planning.actions import LabelPod, LabelRole
from redis_operator.planning.advice import Plan, Wanted
from redis_operator.planning.observed import Observed, Pod, Workload
from redis_operator.planning.plan import plan
from redis_testing.servers import Server


async def _nothing(action: Any, facts: Any) -> None:
    """There are no Kubernetes objects here: labels concern nothing."""


NO_LABELS = {LabelRole: Effect(_nothing), LabelPod: Effect(_nothing)}


class Database:
    """Servers that stand for pods: shard by shard, ordinal by ordinal."""

    def __init__(self, servers: list[Server], *, shards: int, replicas: int) -> None:
        self.servers = servers
        self.wanted = Wanted(name="db", shards=shards, replicas=replicas, node_timeout_ms=2000)
        self.lost = asyncio.Event()
        self.links = Links(on_lost=lambda _: self.lost.set())
        self.formed = False
        self.log: list[str] = []
        self._count_on: tuple[str, ...] = ()

    def pods(self) -> list[Pod]:
        size = self.wanted.pods_per_shard
        return [
            Pod(f"db-{n // size}-{n % size}", f"uid-{n}", n // size, n % size, s.address.host)
            for n, s in enumerate(self.servers)
        ]

    def targets(self) -> dict[str, Target]:
        pairs = zip(self.pods(), self.servers, strict=True)
        return {pod.name: Target(pod.uid, server.address) for pod, server in pairs}

    async def read(self, pod: str) -> LivePod | None:
        """Return a pod as an API would: each has the server that stands for it."""
        target = self.targets().get(pod)
        return LivePod(target.uid, target.address.host) if target is not None else None

    async def observe(self) -> Observed:
        targets = self.targets()
        questions = [
            Question(pod, targets[pod.name], ("cluster-node-timeout",), pod.name in self._count_on)
            for pod in self.pods()
        ]
        nodes = await asyncio.gather(*(probe(self.links, q, timeout=2.0) for q in questions))
        size = self.wanted.pods_per_shard
        workloads = tuple(
            Workload(shard, f"db-{shard}", f"w{shard}", size, "")
            for shard in range(self.wanted.shards)
        )
        return Observed(nodes=tuple(nodes), workloads=workloads, formed=self.formed)

    async def step(self) -> tuple[Plan, tuple[StepOutcome, ...], Observed]:
        observed = await self.observe()
        advice = plan(self.wanted, observed, time.time())
        self._count_on = advice.count_strays_on
        servers = Servers(self.links, self.targets(), self)
        executor = Executor(servers.effects(), NO_LABELS)
        outcomes = await executor.carry_out(advice)
        self.log.append(f"{advice.rule}: {advice.why} {advice.blocked} {len(advice.steps)} steps")
        self.log += [f"  {o.action}: {o.error}" for o in outcomes if not o.done]
        return advice, outcomes, observed

    async def settle(self, *, seconds: float = 60.0) -> Observed:
        """Look, plan and do until there is nothing left to do and every server says ok."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            advice, _, observed = await self.step()
            healthy = all(node.state_ok for node in observed.seen)
            unlabelled = [s for s in advice.steps if type(s).__name__ != "LabelRole"]
            if not unlabelled and not advice.blocked and healthy and not observed.unreachable:
                self.formed = True
                return observed
            await asyncio.sleep(0.02)
        raise AssertionError("does not settle:\n" + "\n".join(self.log[-40:]))

    def close(self) -> None:
        self.links.close()


@pytest.fixture
def database_of() -> Any:
    made: list[Database] = []

    def make(servers: list[Server], **shape: int) -> Database:
        made.append(Database(servers, **shape))
        return made[-1]

    yield make
    for database in made:
        database.close()


__all__ = ["Database", "replace"]
