"""One observation of one database: objects from the caches, all servers asked at once.

Nothing is decided here. A server that does not respond costs its own timeout and no other's: an
observation is bounded by one timeout however many servers are unreachable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from msgspec import Struct

from kubecontroller import Key
from kubecontroller.client.objects import Pod
from redis_operator.api.redis import Mode
from redis_operator.manifests.layout import Layout
from redis_operator.manifests.layouts import LAYOUTS
from redis_operator.operator.metrics.servers import LastLooks
from redis_operator.operator.objects.absent import Absences
from redis_operator.operator.objects.look import (
    has_ended,
    lacking_labels,
    pod_seen,
    volume_seen,
    workload_seen,
)
from redis_operator.operator.objects.resizing import Resizing
from redis_operator.operator.servers.dialects import DIALECTS
from redis_operator.operator.servers.links import Links, Target
from redis_operator.operator.servers.probe import Question, probe, probe_sentinel
from redis_operator.operator.world import World
from redis_operator.planning.clusters import ClusterFacts
from redis_operator.planning.identity import NodeId
from redis_operator.planning.observed import (
    Attempt,
    Election,
    Evidence,
    Led,
    Node,
    Observed,
    Seen,
    SentinelNode,
    SentinelSeen,
    Unlabelled,
    Unreachable,
)
from redis_operator.planning.observed import Pod as SeenPod
from redis_operator.redis.connection import Address, Credentials

__all__ = ["LastPrimary", "Memory", "Observer", "Request", "elections"]

_AT_ONCE = 64


class LastPrimary(Struct, frozen=True):
    """The primary of a shard when its status was last written, and since when it led."""

    shard: int
    pod: str
    since: float = 0.0


class Memory(Struct, frozen=True):
    """What earlier observations showed and no single observation can show again."""

    formed: bool = False
    elections: tuple[Election, ...] = ()
    last_primaries: tuple[LastPrimary, ...] = ()  # used while this process has seen no election
    cluster: ClusterFacts = ClusterFacts(counted_at=0.0)
    resize_refused: frozenset[str] = frozenset()
    resyncs: tuple[tuple[NodeId, int], ...] = ()
    attempts: tuple[Attempt, ...] = ()
    recorded: tuple[tuple[int, str], ...] = ()
    led: tuple[Led, ...] = ()
    copied: str = ""


class Request(Struct, frozen=True):
    """What to observe, and with which credentials."""

    key: Key
    credentials: Credentials
    mode: Mode = Mode.CLUSTER
    directives: tuple[str, ...] = ()
    count_strays_on: tuple[str, ...] = ()
    memory: Memory = Memory()

    @property
    def layout(self) -> Layout:
        """The layout of the database's objects."""
        return LAYOUTS[self.mode]


class Observer:
    """Observes databases through the caches and over the links."""

    def __init__(
        self,
        world: World,
        links: Links,
        *,
        absences: Absences,
        resizing: Resizing,
        looks: LastLooks,
        timeout: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._absences = absences
        self._resizing = resizing
        self._looks = looks
        self._world = world
        self._links = links
        self._timeout = timeout
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._pods: dict[Key, frozenset[str]] = {}

    def targets(self, request: Request) -> dict[str, Target]:
        """Return how to reach the server of each pod that has an address."""
        return {
            pod.metadata.name: _target(request, pod)
            for pod in self._world.pods_of(request.key)
            if pod.status.pod_ip
        }

    async def observe(self, request: Request) -> Observed:
        """Observe once."""
        name, layout = request.key[1], request.layout
        nodes = self._world.node_map()
        found = [
            (pod, seen)
            for pod in self._world.pods_of(request.key)
            if (seen := pod_seen(layout, name, pod, nodes)) is not None
        ]
        found.sort(key=lambda pair: (pair[1].shard, pair[1].ordinal))
        self._drop_old_links(request.key, frozenset(pod.metadata.uid for pod, _ in found))
        answers = await asyncio.gather(*(self._ask(request, pod, seen) for pod, seen in found))
        workloads = [workload_seen(layout, name, w) for w in self._world.workloads_of(request.key)]
        explained, unlabelled = await self._absences.explain(
            request.key,
            layout,
            sorted((w for w in workloads if w), key=lambda w: w.shard),
            (seen.name for _, seen in found),
        )
        classes = self._world.class_map()
        volumes = [
            volume_seen(layout, name, c, classes) for c in self._world.claims_of(request.key)
        ]
        servers, sentinels = _apart(layout, answers)
        servers = DIALECTS[request.mode].related(servers)
        observed = Observed(
            nodes=servers,
            workloads=tuple(w for w in explained if not layout.is_sentinel(w.shard)),
            sentinels=sentinels,
            sentinel_workload=next((w for w in explained if layout.is_sentinel(w.shard)), None),
            unlabelled=(*_partly_labelled(layout, name, (pod for pod, _ in found)), *unlabelled),
            volumes=tuple(v for v in volumes if v),
            elections=elections(request.memory, servers, self._clock()),
            cluster=request.memory.cluster,
            can_resize=await self._resizing.is_possible((seen for _, seen in found), explained),
            resize_refused=request.memory.resize_refused,
            resyncs=request.memory.resyncs,
            attempts=request.memory.attempts,
            recorded=request.memory.recorded,
            led=request.memory.led,
            copied=request.memory.copied,
            formed=request.memory.formed,
        )
        self._looks.keep(request.key, observed, at=self._clock())
        return observed

    def forget(self, key: Key) -> None:
        """Drop everything about a database that is gone."""
        self._drop_old_links(key, frozenset())
        self._pods.pop(key, None)
        self._absences.forget(key)
        self._looks.forget(key)

    def _drop_old_links(self, key: Key, uids: frozenset[str]) -> None:
        self._links.keep_only(uids, of=self._pods.get(key, frozenset()))
        self._pods[key] = uids

    async def _ask(self, request: Request, pod: Pod, seen: SeenPod) -> Node | SentinelSeen:
        if not seen.ip:
            last = self._links.last_id(seen.uid)
            return Unreachable(
                pod=seen,
                error=seen.waiting or "it has no address yet",
                since=seen.since,
                evidence=Evidence.NOT_STARTED,
                last_id=NodeId(last) if last is not None else None,
            )
        question = Question(
            pod=seen,
            target=_target(request, pod),
            directives=request.directives,
            count_strays=seen.name in request.count_strays_on,
            ended=has_ended(pod),
            mode=request.mode,
        )
        ask = probe_sentinel if request.layout.is_sentinel(seen.shard) else probe
        async with self._gate:
            return await ask(self._links, question, timeout=self._timeout, clock=self._clock)


def _apart(
    layout: Layout, answers: Iterable[Node | SentinelSeen]
) -> tuple[tuple[Node, ...], tuple[SentinelNode, ...]]:
    """Separate servers and sentinels, by the group of their pods."""
    servers: list[Node] = []
    sentinels: list[SentinelNode] = []
    for answer in answers:
        if isinstance(answer, Seen) or not layout.is_sentinel(answer.pod.shard):
            assert not isinstance(answer, SentinelSeen)
            servers.append(answer)
        else:
            sentinels.append(answer)
    return tuple(servers), tuple(sentinels)


def elections(memory: Memory, nodes: Iterable[Node], now: float) -> tuple[Election, ...]:
    """Return what is known of promotions, also of those before this process began.

    A server that leads now and did not when the status was written was promoted between two passes;
    as it is unknown when, that counts as just now.
    """
    before = {last.shard: last for last in memory.last_primaries}
    recalled = [
        Election(node=node.id, at=last.since if node.pod.name == last.pod else now)
        for node in nodes
        if isinstance(node, Seen) and node.is_primary and node.slots
        if (last := before.get(node.pod.shard)) is not None
    ]
    return (*memory.elections, *(election for election in recalled if election.at))


def _partly_labelled(layout: Layout, database: str, pods: Iterable[Pod]) -> Iterable[Unlabelled]:
    """Pods that are still in the cache and lost another label than the one it selects by."""
    for pod in pods:
        if lacks := lacking_labels(layout, database, pod):
            yield Unlabelled(pod.metadata.name, pod.metadata.uid, lacks)


def _target(request: Request, pod: Pod) -> Target:
    place = request.layout.place_of(request.key[1], pod.metadata.name, pod.metadata.labels)
    port = request.layout.port(place.shard if place is not None else 0)
    address = Address(pod.status.pod_ip, port)
    return Target(pod.metadata.uid, address, request.credentials)
