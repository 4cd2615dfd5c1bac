"""One simulated database: its pods, workloads and volumes around simulated servers.

Plays Kubernetes for the planner: workloads make pods, deleted pods come back with another address
and, when they have storage, with their data. Plays the operator too: look, plan, do.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from kubecontroller.client.meta import Manifest
from redis_operator.api.quantity import parse_quantity
from redis_operator.manifests.names import ROLE_LABEL
from redis_operator.operator.execute import StepOutcome
from redis_operator.planning.actions import Action
from redis_operator.planning.advice import Plan, Wanted
from redis_operator.planning.counting import StrayCount
from redis_operator.planning.observed import Observed, Pod, PodPhase, Seen, Volume, Workload
from redis_operator.planning.plan import plan
from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS, even_shares

from .operating import SimulatedOperator
from .state import Record, Server
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
    count_strays_on: frozenset[str] = frozenset()
    keep_claims: bool = False
    version: str = "8.1.4"  # of Valkey: its slots are moved key by key
    seen: Observed = field(default_factory=Observed)
    formed: bool = False
    revision: str = "1"
    frozen: bool = False  # no new pods: as when nodes are full
    broken: set[str] = field(default_factory=set)  # pods whose files cannot be loaded
    killed_for_memory: dict[str, float] = field(default_factory=dict)  # pods, and when
    later: list[tuple[float, Wanted | None]] = field(default_factory=list)
    _places: dict[tuple[int, int], _Slot] = field(default_factory=dict)
    _uids: int = 0
    _operator: SimulatedOperator | None = None

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
        if self.wanted.persistent:
            self._ensure_volume(name)
        if name in self.world.servers:
            server = self.world.servers[name]
            server.ip = self.world.new_address()
            if not server.persistent:
                self.world.wipe(name)
        else:
            server = self.world.add(
                name, database=self.wanted.name, persistent=self.wanted.persistent
            )
            server.version = self.version
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

    def _ensure_volume(self, pod: str) -> None:
        claim = f"data-{pod}"
        if claim not in self.volumes:
            size = self.wanted.volume_size or 1
            self.volumes[claim] = Volume(claim, pod, self._uid(), size, size, expandable=True)

    def remove_pod(
        self, shard: int, ordinal: int, *, comes_back_after: float | None = None
    ) -> None:
        """End a pod; its workload will make another one."""
        place = self._places[shard, ordinal]
        if place.pod is not None:
            self.world.kill(place.pod.name)
            self.killed_for_memory.pop(place.pod.name, None)
            self.world.servers[place.pod.name].ip = ""
            claim = f"data-{place.pod.name}"
            if claim in self.volumes and self.volumes[claim].deleting:
                self._delete_volume(claim)
        place.pod = None
        wait = self.boot_seconds if comes_back_after is None else comes_back_after
        place.due = self.world.now + wait

    def restart(self, shard: int, ordinal: int) -> None:
        """The container ends and starts again in its pod: same address, same disk."""
        server = self.server(shard, ordinal)
        self.world.kill(server.name)
        self.world.start(server.name)

    # What the API changed

    def set_pod(self, pod: Pod) -> None:
        """Keep a changed pod in its place."""
        self._places[pod.shard, pod.ordinal].pod = pod

    def pod_changed(self, name: str, found: Manifest | None) -> None:
        """A pod was labelled or deleted."""
        pod = next(pod for pod in self.pods if pod.name == name)
        if found is None:
            self.remove_pod(pod.shard, pod.ordinal)
            return
        role = found["metadata"].get("labels", {}).get(ROLE_LABEL, "")
        self.set_pod(replace(pod, role_label=role))

    def set_changed(self, name: str, found: Manifest | None) -> None:
        """A StatefulSet was scaled or deleted."""
        shard = next(shard for shard, w in self.workloads.items() if w.name == name)
        if found is None:
            del self.workloads[shard]
            return
        self.workloads[shard] = replace(self.workloads[shard], pods=found["spec"]["replicas"])

    def claim_changed(self, name: str, found: Manifest | None) -> None:
        """A claim was given a size, or deleted: then it stays as long as its pod."""
        volume = self.volumes[name]
        if found is None:
            self.volumes[name] = replace(volume, deleting=True)
            if volume.pod not in self.pod_names:
                self._delete_volume(name)
            return
        size = int(parse_quantity(found["spec"]["resources"]["requests"]["storage"]) or 0)
        self.volumes[name] = replace(volume, requested=size, capacity=size)

    def _delete_volume(self, name: str) -> None:
        server = self.volumes.pop(name).pod
        self.broken.discard(server)
        if server in self.world.servers:
            self.world.wipe(server)

    def corrupt(self, shard: int, ordinal: int) -> None:
        """Break the files of a server: it ends, and cannot start again before they are gone."""
        server = self.server(shard, ordinal)
        self.broken.add(server.name)
        self.world.kill(server.name)

    # The operator

    @property
    def operator(self) -> SimulatedOperator:
        """The operator that manages it, started when it is first needed."""
        if self._operator is None:
            self._operator = SimulatedOperator(self)
        return self._operator

    @property
    def census(self) -> StrayCount:
        """What the operator remembers of its last count of stray keys."""
        return self.operator.census

    @census.setter
    def census(self, census: StrayCount) -> None:
        self.operator.census = census

    def observe(self) -> Observed:
        """Probe everything once."""
        seen = self.operator.observe(self.count_strays_on)
        if not self.formed and _whole(seen):
            self.formed = True
            seen = replace(seen, formed=True)
        self.seen = seen
        return seen

    def as_seen(self, pod: Pod) -> Pod:
        """A pod as its node reports it."""
        seen = replace(
            pod,
            ready=self.world.servers[pod.name].answers(self.world.now),
            killed_for_memory_at=self.killed_for_memory.get(pod.name, 0.0),
        )
        if pod.name not in self.broken:
            return seen
        return replace(seen, restarts=3, unloadable="Bad file format reading the append only file")

    def plan(self) -> Plan:
        """What to do now."""
        seen = self.observe()
        advice = plan(self.wanted, seen, self.world.now)
        self.count_strays_on = frozenset(advice.count_strays_on)
        return advice

    def carry_out(self, advice: Plan, *, effects: int | None = None) -> tuple[StepOutcome, ...]:
        """Do a plan as the operator does; after so many effects the operator dies.

        What it had not done by then has no outcome.
        """
        self.operator.effects_left = effects
        return self.operator.carry_out(advice, self.seen)

    def execute(self, action: Action, *, effects: int | None = None) -> str:
        """Do one action to its end, moves of slots included; return why it was not done."""
        before = self.operator.process
        outcomes = self.carry_out(Plan(rule="test", stages=((action,),)), effects=effects)
        if self.operator.process is before:
            self.operator.wait_for_moves()
        if self.operator.process is not before:
            return "the operator died"
        return outcomes[0].error

    def advance(self, seconds: float) -> None:
        """Let time pass for servers and workloads."""
        end = self.world.now + seconds
        while self.world.now < end - 1e-9:
            self.run_controllers()
            self.operator.pass_time(min(0.5, end - self.world.now))
        self.run_controllers()

    def reconcile(self, *, patience: int = 60, pause: float = 0.5) -> Plan:
        """Plan and do until nothing is left to be done; the last plan."""
        advice = self.plan()
        for _ in range(patience):
            self.carry_out(advice)
            self.advance(pause)
            advice = self.plan()
            if advice.settled and not advice.count_strays_on and not self.operator.is_moving:
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
