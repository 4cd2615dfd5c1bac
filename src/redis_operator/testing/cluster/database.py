"""One simulated database: its pods, workloads and volumes around simulated servers.

Plays Kubernetes for the planner: workloads make pods, deleted pods come back with another address
and, when they have storage, with their data. Plays the operator too: look, plan, do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import assert_never

from msgspec.structs import replace

from ...api.quantity import parse_quantity
from ...planning.actions import (
    Action,
    DeletePod,
    DeleteWorkload,
    DiscardData,
    GrowVolume,
    LabelRole,
    ResizePod,
    ScaleWorkload,
)
from ...planning.advice import Plan, Wanted
from ...planning.counting import Census, after_look
from ...planning.observed import (
    Election,
    NodeId,
    Observed,
    Pod,
    PodPhase,
    Seen,
    Volume,
    Workload,
)
from ...planning.plan import plan
from ...redis.slots import ALL_SLOTS, NO_SLOTS, even_shares
from .act import MovedOnError, act
from .look import look
from .state import Record, Server
from .verbs import RefusalError
from .world import SimulatedCluster

__all__ = ["SimulatedDatabase"]


@dataclass
class _Slot:
    """A pod's place: the pod that is there now, and when a new one will be."""

    pod: Pod | None = None
    due: float = 0.0


@dataclass
class SimulatedDatabase:
    """A database of a simulated cluster, with everything the planner may touch."""

    world: SimulatedCluster
    wanted: Wanted
    boot_seconds: float = 0.5
    image_works: bool = True
    workloads: dict[int, Workload] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    elections: list[Election] = field(default_factory=list)
    last_ids: dict[str, NodeId] = field(default_factory=dict)
    count_on: frozenset[str] = frozenset()
    census: Census = field(default_factory=Census)
    formed: bool = False
    revision: str = "1"
    frozen: bool = False  # nobody makes pods: as when nodes are full
    broken: set[str] = field(default_factory=set)  # pods whose files cannot be loaded
    later: list[tuple[float, Wanted | None]] = field(default_factory=list)
    _places: dict[tuple[int, int], _Slot] = field(default_factory=dict)
    _uids: int = 0

    # Kubernetes

    def apply_spec(self, wanted: Wanted, *, revision: str | None = None) -> None:
        """What the shell does before planning: workloads for all wanted shards, new templates."""
        self.wanted = wanted
        self.revision = revision or self.revision
        for shard in range(wanted.shards):
            known = self.workloads.get(shard)
            if known is None:
                pods = 0 if wanted.hibernate else wanted.pods_per_shard
                self.workloads[shard] = Workload(
                    shard=shard,
                    name=f"{wanted.name}-{shard}",
                    uid=self._uid(),
                    pods=pods,
                    revision=self.revision,
                )
        for shard, workload in self.workloads.items():
            self.workloads[shard] = replace(workload, revision=self.revision)

    def repair_after(self, seconds: float) -> None:
        """The image works again from then on, under a new revision."""
        self.later.append((self.world.now + seconds, None))

    def forget_request_after(self, seconds: float) -> None:
        """A request for a switchover is taken back when it was not done by then."""
        self.later.append((self.world.now + seconds, self.wanted))

    def _do_later(self) -> None:
        due = [entry for entry in self.later if entry[0] <= self.world.now]
        self.later = [entry for entry in self.later if entry[0] > self.world.now]
        for _, request in due:
            if request is None:
                self.image_works = True
                self.apply_spec(self.wanted, revision=str(int(self.revision) + 1))
            elif self.wanted.switchover == request.switchover:
                self.apply_spec(replace(self.wanted, switchover=None))

    def _uid(self) -> str:
        self._uids += 1
        return f"{self.wanted.name}-uid-{self._uids}"

    @property
    def pods(self) -> tuple[Pod, ...]:
        """Pods that exist, by shard and ordinal."""
        return tuple(p.pod for _, p in sorted(self._places.items()) if p.pod is not None)

    @property
    def pod_names(self) -> set[str]:
        """Names of pods that exist."""
        return {pod.name for pod in self.pods}

    def server(self, shard: int, ordinal: int) -> Server:
        """The server (its process and its disk) of a place."""
        return self.world.servers[f"{self.wanted.name}-{shard}-{ordinal}"]

    @property
    def servers(self) -> tuple[Server, ...]:
        """The servers of pods that exist."""
        names = self.pod_names
        return tuple(s for name, s in self.world.servers.items() if name in names)

    def run_controllers(self) -> None:
        """Make and remove pods as the workloads say."""
        self._do_later()
        for shard, ordinal in list(self._places):
            workload = self.workloads.get(shard)
            if workload is None or ordinal >= workload.pods:
                self.remove_pod(shard, ordinal)
                del self._places[shard, ordinal]
        for workload in self.workloads.values():
            for ordinal in range(workload.pods):
                self._ensure(workload, ordinal)

    def _ensure(self, workload: Workload, ordinal: int) -> None:
        place = self._places.setdefault((workload.shard, ordinal), _Slot(due=self.world.now))
        if place.pod is not None or self.frozen or self.world.now < place.due:
            return
        name = f"{workload.name}-{ordinal}"
        if name in self.world.servers:
            server = self.world.servers[name]
            server.ip = self.world.new_address()
            if not server.persistent:
                self.world.wipe(name)
        else:
            server = self.world.add(
                name, database=self.wanted.name, persistent=self.wanted.persistent
            )
        if self.image_works and name not in self.broken:
            self.world.start(name, address=server.ip)
        else:
            server.alive = False
        place.pod = Pod(
            name=name,
            uid=self._uid(),
            shard=workload.shard,
            ordinal=ordinal,
            ip=server.ip,
            revision=workload.revision,
            node=f"node-{(workload.shard + ordinal) % 3}",
            zone=f"zone-{(workload.shard + ordinal) % 3}",
            since=self.world.now,
            phase=PodPhase.RUNNING if self.image_works else PodPhase.PENDING,
            ready=self.image_works,
            waiting="" if self.image_works else "ImagePullBackOff: no such image",
            restarted_at=workload.restarted_at,
        )

    def remove_pod(
        self, shard: int, ordinal: int, *, comes_back_after: float | None = None
    ) -> None:
        """End a pod; its workload will make another one."""
        place = self._places[shard, ordinal]
        if place.pod is not None:
            self.world.kill(place.pod.name)
            self.world.servers[place.pod.name].ip = ""
        place.pod = None
        wait = self.boot_seconds if comes_back_after is None else comes_back_after
        place.due = self.world.now + wait

    def restart(self, shard: int, ordinal: int) -> None:
        """The container ends and starts again in its pod: same address, same disk."""
        server = self.server(shard, ordinal)
        self.world.kill(server.name)
        self.world.start(server.name)

    def apply(
        self,
        action: LabelRole | DeletePod | ScaleWorkload | DeleteWorkload | GrowVolume | ResizePod,
    ) -> Iterator[None]:
        """Do what concerns the API, with its preconditions."""
        match action:
            case LabelRole(pod=name, uid=uid, role=role):
                place = self._place(name, uid)
                assert place.pod is not None
                place.pod = replace(place.pod, role_label=role.value)
            case DeletePod(pod=name, uid=uid):
                pod = self._place(name, uid).pod
                assert pod is not None
                self.remove_pod(pod.shard, pod.ordinal)
            case ScaleWorkload(shard=shard, uid=uid, from_pods=before, to_pods=after):
                workload = self._workload(shard, uid)
                if workload.pods != before:
                    raise MovedOnError(f"shard {shard} has {workload.pods} pods by now")
                self.workloads[shard] = replace(workload, pods=after)
            case DeleteWorkload(shard=shard, uid=uid):
                self._workload(shard, uid)
                del self.workloads[shard]
            case GrowVolume(claim=claim, size=size):
                self.volumes[claim] = replace(self.volumes[claim], requested=size, capacity=size)
            case ResizePod(pod=name, uid=uid, resources=resources):
                place = self._place(name, uid)
                assert place.pod is not None
                limit = int(parse_quantity(dict(resources).get("limits.memory", 0)) or 0)
                place.pod = replace(place.pod, resources=resources, memory_limit=limit)
            case _:
                assert_never(action)
        yield

    def discard(self, action: DiscardData) -> Iterator[None]:
        """Delete a pod and what it has on disk."""
        pod = self._place(action.pod, action.uid).pod
        assert pod is not None
        self.broken.discard(pod.name)
        self.world.wipe(pod.name)
        yield
        self.remove_pod(pod.shard, pod.ordinal)
        yield

    def corrupt(self, shard: int, ordinal: int) -> None:
        """Break the files of a server: it ends, and cannot start again before they are gone."""
        server = self.server(shard, ordinal)
        self.broken.add(server.name)
        self.world.kill(server.name)

    def _place(self, name: str, uid: str) -> _Slot:
        for place in self._places.values():
            if place.pod is not None and place.pod.name == name and place.pod.uid == uid:
                return place
        raise MovedOnError(f"pod {name} is another one by now")

    def _workload(self, shard: int, uid: str) -> Workload:
        workload = self.workloads.get(shard)
        if workload is None or workload.uid != uid:
            raise MovedOnError(f"the workload of shard {shard} is another one by now")
        return workload

    # The operator

    def observe(self) -> Observed:
        """Look at everything, and remember who was where."""
        servers = self.world.servers
        seen = look(
            self.world,
            [(self._as_seen(p), servers[p.name]) for p in self.pods],
            workloads=[self.workloads[shard] for shard in sorted(self.workloads)],
            volumes=list(self.volumes.values()),
            elections=self.elections,
            last_ids=self.last_ids,
            count_on=self.count_on,
            counted_at=self.census.at,
            formed=self.formed,
        )
        for node in seen.seen:
            self.last_ids[node.pod.uid] = node.id
        if not self.formed and _whole(seen):
            self.formed = True
            seen = replace(seen, formed=True)
        return seen

    def _as_seen(self, pod: Pod) -> Pod:
        """A pod as its node tells of it."""
        seen = replace(pod, ready=self.world.servers[pod.name].alive)
        if pod.name not in self.broken:
            return seen
        return replace(seen, restarts=3, unloadable="Bad file format reading the append only file")

    def plan(self) -> Plan:
        """What to do now."""
        seen = self.observe()
        self.census = after_look(self.census, seen, self.world.now)
        advice = plan(self.wanted, seen, self.world.now)
        self.count_on = frozenset(advice.count_on)
        return advice

    def execute(self, action: Action) -> Iterator[str]:
        """Do an action, one command at a time; the last item is why it ended, "" when done."""
        try:
            for _ in act(self, action):
                yield "more"
        except (MovedOnError, RefusalError) as reason:
            yield str(reason)
            return
        yield ""

    def advance(self, seconds: float) -> None:
        """Let time pass for servers and workloads."""
        end = self.world.now + seconds
        while self.world.now < end - 1e-9:
            self.run_controllers()
            self.world.advance(min(0.5, end - self.world.now))
        self.run_controllers()

    def reconcile(self, *, patience: int = 60, pause: float = 0.5) -> Plan:
        """Plan and do until nothing is left to be done; the last plan."""
        advice = self.plan()
        for _ in range(patience):
            for stage in advice.stages:
                outcomes = [list(self.execute(action))[-1] for action in stage]
                if any(outcomes):
                    break
            self.advance(pause)
            advice = self.plan()
            if advice.settled and not advice.count_on:
                break
        return advice

    # Ready-made

    @classmethod
    def formed_already(
        cls, world: SimulatedCluster, wanted: Wanted, *, boot_seconds: float = 0.5
    ) -> SimulatedDatabase:
        """A whole database, without the minutes it takes to make one."""
        database = cls(world=world, wanted=wanted, boot_seconds=boot_seconds)
        database.apply_spec(wanted)
        database.run_controllers()
        shares = even_shares(wanted.shards)
        for server in database.servers:
            for other in database.servers:
                server.table[other.id] = Record(id=other.id, ip=other.ip)
        for shard in range(wanted.shards):
            primary = database.server(shard, 0)
            for server in database.servers:
                server.table[primary.id].slots = shares[shard].bits
                server.table[primary.id].epoch = shard + 1
                server.current_epoch = wanted.shards
                for ordinal in range(1, wanted.pods_per_shard):
                    follower = database.server(shard, ordinal)
                    server.table[follower.id].replica_of = primary.id
            primary.offset = 100
        for server in database.servers:
            server.fail_since = world.now - 10
        for name, value in wanted.config:
            for server in database.servers:
                server.config[name] = value
        database.formed = True
        world.advance(1.0)
        return database


def _whole(observed: Observed) -> bool:
    owned = NO_SLOTS
    for node in observed.nodes:
        if not isinstance(node, Seen):
            return False
        owned |= node.slots
    return owned == ALL_SLOTS
