"""The questions that every mode can answer: groups of servers, each with a leader and replicas.

Rules that modes share (roll, scale-in, drain, switchover, configure, resize, hibernate, labels,
status) ask these questions and never depend on how a mode answers them. A group has one primary: a
shard of a Cluster, all servers of a Failover, the one server of a Standalone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from ..redis.slots import SlotSet
from .advice import Plan, PlanPhase, Wanted
from .copies import Copy
from .identity import Role, ServerId
from .observed import Node, Observed, Pod, Seen, Unreachable, Workload

__all__ = ["Topology"]


class Topology(ABC):
    """The state of one database at one moment, with conclusions. Immutable by convention."""

    def __init__(self, wanted: Wanted, observed: Observed, now: float) -> None:
        self.wanted = wanted
        self.observed = observed
        self.now = now
        self.seen = observed.seen
        self.unreachable = observed.unreachable

    # Pods

    @cached_property
    def by_id(self) -> dict[ServerId, Seen]:
        """The servers that responded, by id."""
        return {node.id: node for node in self.seen}

    @cached_property
    def missing_pods(self) -> tuple[str, ...]:
        """Pods that workloads should have and that do not exist (yet)."""
        present = {(node.pod.shard, node.pod.ordinal) for node in self.observed.nodes}
        return tuple(
            f"{workload.name}-{ordinal}"
            for workload in self.observed.workloads
            for ordinal in range(workload.pods)
            if (workload.shard, ordinal) not in present
        )

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Every StatefulSet of the database."""
        return self.observed.workloads

    def pods_of(self, shard: int) -> tuple[Node, ...]:
        """The group's pods, whether seen or unreachable."""
        return self._by_shard.get(shard, ())

    @cached_property
    def _by_shard(self) -> dict[int, tuple[Node, ...]]:
        found: dict[int, list[Node]] = {}
        for node in self.observed.nodes:
            found.setdefault(node.pod.shard, []).append(node)
        return {shard: tuple(nodes) for shard, nodes in found.items()}

    def workload(self, shard: int) -> Workload | None:
        """The StatefulSet of a group, or None when there is none yet."""
        return self._workloads.get(shard)

    @cached_property
    def _workloads(self) -> dict[int, Workload]:
        return {workload.shard: workload for workload in self.observed.workloads}

    def leaving(self, pod: Pod) -> bool:
        """Whether the spec has no place for this pod."""
        return pod.shard >= self.wanted.shards or pod.ordinal >= self.wanted.pods_per_shard

    @property
    def has_copies(self) -> bool:
        """Whether there is more than one copy of the data: a recreated pod gets it back."""
        return bool(self.wanted.replicas)

    def groups(self) -> range:
        """The numbers of the groups that are wanted."""
        return range(self.wanted.shards)

    def group_name(self, group: int) -> str:
        """The name of a group in the status."""
        return f"shard-{group}"

    # Roles

    @abstractmethod
    def leader(self, group: int) -> Seen | None:
        """The primary that a group's pods follow, if it responds."""

    @abstractmethod
    def followers(self, leader: Seen) -> tuple[Seen, ...]:
        """Its replicas that responded."""

    @property
    def serving(self) -> tuple[Seen, ...]:
        """The primaries that serve clients."""
        return tuple(node for group in self.groups() if (node := self.leader(group)) is not None)

    def primary_of(self, node: Seen) -> Seen | None:
        """The primary of a server's data, itself if it is one; None: none that responds."""
        return self.leader(node.pod.shard)

    @abstractmethod
    def unsynced(self, replica: Seen, primary: Seen) -> str | None:
        """Why a replica could not replace its primary without a loss, or None."""

    @abstractmethod
    def hand_over(
        self, leader: Seen, *, rule: str, why: str, phase: PlanPhase, among: list[Seen]
    ) -> Plan:
        """Promote the best of some replicas instead, without a loss; or say why not now."""

    @abstractmethod
    def role_of(self, node: Seen) -> Role | None:
        """The role label that Services select by; None: it keeps its label."""

    def role_of_unreachable(self, node: Unreachable) -> Role | None:
        """The role label of a server that does not respond; None: it keeps its label."""
        del node
        return None

    @abstractmethod
    def holds_data(self, node: Seen) -> bool:
        """Whether clients are served from its data."""

    @abstractmethod
    def claims_data(self, node: Seen) -> bool:
        """Whether it says itself that clients are served from its data."""

    def is_missed(self, node: Unreachable) -> bool:
        """Whether others still depend on a server that does not respond."""
        del node
        return False

    @abstractmethod
    def does_its_part(self, node: Seen) -> bool:
        """Whether it is a primary that serves, or a replica whose link is up."""

    # State

    @abstractmethod
    def unsettled(self) -> str | None:
        """Why no planned change may start now, or None."""

    @abstractmethod
    def group_unsettled(self, group: int) -> str | None:
        """Why the pods of one group are not all in place and in sync, or None."""

    @property
    @abstractmethod
    def unserved(self) -> str:
        """What clients cannot reach, in words; empty: everything is served."""

    @property
    def is_outage(self) -> bool:
        """Whether something is not served that no change explains."""
        return bool(self.unserved)

    @property
    def is_whole_in_a_moment(self) -> bool:
        """Whether only upkeep keeps it from being settled, and ends by itself."""
        return False

    @property
    def leaders_answer(self) -> bool:
        """Whether every server that serves clients responds, apart from a planned restart."""
        return True

    @abstractmethod
    def serves(self, slots: SlotSet) -> bool:
        """Whether these slots are served again; a mode without slots serves all or nothing."""

    @cached_property
    def unfinished_moves(self) -> tuple[str, ...]:
        """Reasons why data is in transit between servers: no disruptive change may start. I5"""
        return ()

    @property
    def unfinished(self) -> str | None:
        """What is in progress between servers, and must end before any of them is restarted."""
        return None

    @property
    def forming(self) -> str | None:
        """What a new, empty database waits for before its settings become those of the spec."""
        return None

    @property
    def is_scaling(self) -> bool:
        """Whether groups are being added or removed."""
        return False

    # For the status

    @property
    def copy(self) -> Copy | None:
        """The progress of the copy of an external server; None: this is not a copy."""
        return None

    def upstream(self, group: int) -> Seen | None:
        """The server that the others of a group copy, whether it leads or not."""
        return self.leader(group)

    def history(self, group: int, before: tuple[str, str]) -> tuple[str, str]:
        """The id and the replication id of a group's data; `before` is from the status."""
        leader = self.leader(group)
        return (leader.id, leader.replication.id) if leader is not None else before

    @property
    def lasting_groups(self) -> frozenset[int]:
        """Groups that the status reports even while they have no pod."""
        return frozenset()

    def slots_of(self, group: int) -> str:
        """The slots that a group owns, where there are slots."""
        del group
        return ""

    @property
    def slots_summary(self) -> str:
        """How many of all slots are served as text, if there are slots."""
        return ""
