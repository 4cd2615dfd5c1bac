"""What every mode can say of a database: its servers in groups, each with a leader and followers.

Rules that modes share (roll, scale-in, drain, switchover, configure, resize, hibernate, labels,
status) ask these questions and never how a mode answers them. A group is what has one primary: a
shard of a Cluster, all servers of a Failover, the one server of a Standalone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from ..redis.slots import SlotSet
from .advice import Phase, Plan, Wanted
from .copies import Copy
from .identity import Role, ServerId
from .observed import Node, Observed, Pod, Seen, Unreachable, Workload

__all__ = ["Topology"]


class Topology(ABC):
    """One moment of one database, with what follows from it. Immutable by convention."""

    def __init__(self, wanted: Wanted, observed: Observed, now: float) -> None:
        self.wanted = wanted
        self.observed = observed
        self.now = now
        self.seen = observed.seen
        self.unreachable = observed.unreachable

    # Pods

    @cached_property
    def by_id(self) -> dict[ServerId, Seen]:
        """The servers that answered, by id."""
        return {node.id: node for node in self.seen}

    @cached_property
    def missing_pods(self) -> tuple[str, ...]:
        """Pods that workloads shall have and that do not exist (yet)."""
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
        """The group's pods, as they were seen or not."""
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
        """Whether data are there more than once: a pod that is recreated gets them back."""
        return bool(self.wanted.replicas)

    def groups(self) -> range:
        """The numbers of the groups that are wanted."""
        return range(self.wanted.shards)

    def group_name(self, group: int) -> str:
        """What the status calls a group."""
        return f"shard-{group}"

    # Roles

    @abstractmethod
    def leader(self, group: int) -> Seen | None:
        """The primary that a group's pods follow, if it answers."""

    @abstractmethod
    def followers(self, leader: Seen) -> tuple[Seen, ...]:
        """Its replicas that answered."""

    @property
    def serving(self) -> tuple[Seen, ...]:
        """The primaries that clients are served by."""
        return tuple(node for group in self.groups() if (node := self.leader(group)) is not None)

    def primary_of(self, node: Seen) -> Seen | None:
        """The primary of a server's data, itself where it is one; None: none that responds."""
        return self.leader(node.pod.shard)

    @abstractmethod
    def unsynced(self, replica: Seen, primary: Seen) -> str | None:
        """Why a replica could not replace its primary without a loss, or None."""

    @abstractmethod
    def hand_over(
        self, leader: Seen, *, rule: str, why: str, phase: Phase, among: list[Seen]
    ) -> Plan:
        """Promote the best of some followers in its place, losing nothing; or say why not now."""

    @abstractmethod
    def role_of(self, node: Seen) -> Role | None:
        """The role that Services shall find it by; None: the one that it is labelled with."""

    def role_of_unreachable(self, node: Unreachable) -> Role | None:
        """The role of a server that does not respond; None: the one that it is labelled with."""
        del node
        return None

    @abstractmethod
    def holds_data(self, node: Seen) -> bool:
        """Whether clients are served from what it holds."""

    @abstractmethod
    def claims_data(self, node: Seen) -> bool:
        """Whether it says itself that clients are served from what it holds."""

    def is_missed(self, node: Unreachable) -> bool:
        """Whether others still count on a server that does not answer."""
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
        """Whether upkeep is all that keeps it from being at rest, and ends by itself."""
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
        """Reasons why data are on their way between servers: nothing disruptive may start. I5"""
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
        """How far the copy of an external server is; None: this is none."""
        return None

    def upstream(self, group: int) -> Seen | None:
        """The server that the others of a group copy, whether it leads or not."""
        return self.leader(group)

    def history(self, group: int, before: tuple[str, str]) -> tuple[str, str]:
        """The id and the replication id of a group's data; `before` is what the status tells."""
        leader = self.leader(group)
        return (leader.id, leader.replication.id) if leader is not None else before

    @property
    def lasting_groups(self) -> frozenset[int]:
        """Groups that the status tells of even while they have no pod."""
        return frozenset()

    def slots_of(self, group: int) -> str:
        """The slots that a group owns, where there are slots."""
        del group
        return ""

    @property
    def slots_told(self) -> str:
        """How many slots of all are served, where there are slots."""
        return ""
