"""A database of real servers without Kubernetes: the operator's look, plan and act on loopback.

What a pass of the operator does, and nothing of what surrounds it: no API server, no objects.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from bench.missing import Missing
from redis_operator.cli.application import Seeds
from redis_operator.operator.effects import Effect
from redis_operator.operator.execute import Executor, StepOutcome
from redis_operator.operator.live import LivePod
from redis_operator.operator.servers.actions import Servers as Reached
from redis_operator.operator.servers.links import Links, Target
from redis_operator.operator.servers.movers import SlotMovers
from redis_operator.operator.servers.probe import Question, probe
from redis_operator.planning.actions import LabelPod, LabelRole
from redis_operator.planning.advice import Plan, Wanted
from redis_operator.planning.clusters import ClusterFacts
from redis_operator.planning.observed import Observed, Pod, Workload
from redis_operator.planning.plan import plan
from redis_operator.redis import commands
from redis_operator.redis.connection import Credentials
from redis_operator.redis.errors import RedisError
from redis_testing.servers import EngineBinary, Server, find_engines

__all__ = ["Database", "engine", "seeds_of", "wait_ok"]

_KEY = ("bench", "db")


def engine(name: str) -> EngineBinary:
    """Return the newest program of that engine and version, such as `redis-7.0`."""
    found = [binary for binary in find_engines() if binary.name.startswith(name)]
    if not found:
        raise Missing(f"there is no {name} server on this machine")
    return found[-1]


def seeds_of(servers: list[Server]) -> Seeds:
    """Return where an application begins to look."""
    return Seeds(tuple((server.address.host, server.address.port) for server in servers))


async def wait_ok(servers: list[Server], *, seconds: float) -> float:
    """Wait until every server knows every other, says ok and has its link; return how long.

    One after another, since asking all of them all the time would slow down what is measured; at
    the end all once more.
    """
    begun = time.perf_counter()
    links = [await server.connect() for server in servers]
    try:
        async with asyncio.timeout(seconds):
            well: list[bool] = []
            while not (well and all(well)):
                for link in links:
                    while not await _is_ok(link, len(servers)):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                well = await asyncio.gather(*(_is_ok(link, len(servers)) for link in links))
    finally:
        for link in links:
            link.close()
    return time.perf_counter() - begun


async def _is_ok(link: Any, count: int) -> bool:
    state, info = await link.run_all(
        [commands.cluster_info(), commands.info_replication()], timeout=5
    )
    if isinstance(state, RedisError) or isinstance(info, RedisError):
        return False
    linked = info.is_primary or info.link_up
    return bool(state.is_ok and state.known_nodes == count and linked)


async def _nothing(action: Any, facts: Any) -> None:
    """There are no Kubernetes objects here: labels concern nothing."""
    del action, facts


_NO_LABELS = {LabelRole: Effect(_nothing), LabelPod: Effect(_nothing)}


class Database:
    """Servers that stand for pods, shard by shard, and the operator that manages them."""

    def __init__(
        self, servers: list[Server], *, shards: int, replicas: int, node_timeout_ms: int = 5000
    ) -> None:
        self.servers = servers
        self.wanted = Wanted(
            name="db",
            shards=shards,
            replicas=replicas,
            node_timeout_ms=node_timeout_ms,
            config=(("cluster-node-timeout", str(node_timeout_ms)),),
        )
        self.formed = False
        self.log: list[str] = []
        self._stirred = asyncio.Event()
        self.movers = SlotMovers(on_end=lambda _: self._stirred.set())
        self._links = Links(on_lost=lambda _: self._stirred.set())
        self._count_on: tuple[str, ...] = ()
        self._generation = 0

    def want(self, **changes: Any) -> None:
        """Change what is wanted."""
        self.wanted = replace(self.wanted, **changes)
        self._stirred.set()

    def restarted(self) -> None:
        """Say that the pods are new ones: same names, other uids and addresses."""
        self._generation += 1

    def pods(self) -> list[Pod]:
        size = self.wanted.pods_per_shard
        return [
            Pod(
                f"db-{n // size}-{n % size}",
                f"uid-{n}-{self._generation}",
                n // size,
                n % size,
                server.address.host,
            )
            for n, server in enumerate(self.servers)
        ]

    def _targets(self) -> dict[str, Target]:
        pairs = zip(self.pods(), self.servers, strict=True)
        return {pod.name: Target(pod.uid, server.address) for pod, server in pairs}

    async def read(self, pod: str) -> LivePod | None:
        """Return a pod as an API would: each has the server that stands for it."""
        target = self._targets().get(pod)
        return LivePod(target.uid, target.address.host) if target is not None else None

    async def observe(self) -> Observed:
        """Ask every server."""
        targets = self._targets()
        directives = tuple(name for name, _ in self.wanted.config)
        questions = [
            Question(pod, targets[pod.name], directives, pod.name in self._count_on)
            for pod in self.pods()
        ]
        nodes = await asyncio.gather(*(probe(self._links, q, timeout=2.0) for q in questions))
        size = self.wanted.pods_per_shard
        workloads = tuple(
            Workload(shard, f"db-{shard}", f"w{shard}", size, "")
            for shard in range(self.wanted.shards)
        )
        return Observed(
            nodes=tuple(nodes),
            workloads=workloads,
            formed=self.formed,
            cluster=ClusterFacts(moving=self.movers.moving(_KEY)),
        )

    async def step(self) -> tuple[Plan, tuple[StepOutcome, ...], Observed]:
        """Look, plan and act once."""
        observed = await self.observe()
        advice = plan(self.wanted, observed, time.time())
        self._count_on = advice.count_strays_on
        reached = Reached(self._links, self._targets(), self)
        outcomes = await Executor(
            reached.effects(),
            _NO_LABELS,
            self.movers.of(_KEY, Credentials("", "")).effects(reached),
        ).carry_out(advice)
        self.log.append(f"{advice.rule}: {advice.why} {advice.blocked} {len(advice.steps)} steps")
        self.log += [
            f"  {outcome.action}: {outcome.error}" for outcome in outcomes if outcome.error
        ]
        return advice, outcomes, observed

    async def settle(self, *, seconds: float = 30.0) -> Observed:
        """Go on until there is nothing left to do and every server says ok."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            advice, _, observed = await self.step()
            healthy = all(node.state_ok for node in observed.seen)
            steps = [step for step in advice.steps if type(step).__name__ != "LabelRole"]
            quiet = not steps and not advice.blocked and not observed.cluster.moving
            if quiet and healthy and not observed.unreachable:
                if self.formed:
                    return observed
                self.formed = True  # what was tuned for forming is put back by the next pass
                continue
            self._stirred.clear()
            with suppress(TimeoutError):  # a move ends without an event
                async with asyncio.timeout(1.0 if self.movers.moving(_KEY) else 0.02):
                    await self._stirred.wait()
        raise TimeoutError("does not settle:\n" + "\n".join(self.log[-20:]))

    async def look_after(self) -> None:
        """Do what the operator does all day: look when a link breaks, and every so often."""
        while True:
            advice, _, _ = await self.step()
            busy = bool(advice.steps or advice.blocked)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05 if busy else 1.0):
                    await self._stirred.wait()
            self._stirred.clear()

    def close(self) -> None:
        """Close every connection."""
        self._links.close()
