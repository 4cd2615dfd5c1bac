"""The answers of mode Cluster to the questions of shared rules."""

from __future__ import annotations

from functools import cached_property

from ...redis.slots import ALL_SLOTS, NO_SLOTS, SlotSet
from ..advice import Plan, PlanPhase
from ..identity import NodeId, Role
from ..observed import Seen, Unreachable
from .election import unsynced
from .hand_over import hand_over
from .settled import unsettled, unsettled_shard
from .situation import Situation

__all__ = ["ClusterTopology"]


class ClusterTopology(Situation):
    """Shards as groups: the owner of slots leads, and serves."""

    def leader(self, group: int) -> Seen | None:
        """The primary that a shard's pods must follow, if it responds."""
        return self.by_id.get(self.leaders.get(group, NodeId("")))

    def followers(self, leader: Seen) -> tuple[Seen, ...]:
        """Seen replicas that say they follow it."""
        return self.replicas_of(leader.id)

    @property
    def serving(self) -> tuple[Seen, ...]:
        """Primaries that own slots."""
        return self.voters

    def primary_of(self, node: Seen) -> Seen | None:
        """The server itself, or the primary that it says it follows, in whatever shard that is."""
        if node.is_primary:
            return node
        return self.by_id.get(node.replica_of) if node.replica_of is not None else None

    def unsynced(self, replica: Seen, primary: Seen) -> str | None:
        """Why a replica could not replace its live primary, or None. ST-05"""
        return unsynced(replica, primary)

    def hand_over(
        self, leader: Seen, *, rule: str, why: str, phase: PlanPhase, among: list[Seen]
    ) -> Plan:
        """Promote the best of some replicas with `CLUSTER FAILOVER`. I5, I6"""
        return hand_over(self, leader, rule=rule, why=why, phase=phase, among=among)

    def role_of(self, node: Seen) -> Role | None:
        """The role label: slot owners are primaries; an empty primary keeps its label. K-18

        Of two servers that claim the same slots only the one with the higher epoch is called
        primary.
        """
        role = Role.PRIMARY if node.id in self.owned else Role.REPLICA
        if node.is_primary and role is Role.REPLICA and node.pod.role_label == "":
            return None
        return role

    def holds_data(self, node: Seen) -> bool:
        """Whether it owns slots, judged by the highest epoch."""
        return node.id in self.owned

    def claims_data(self, node: Seen) -> bool:
        """Whether it says that it owns slots."""
        return bool(node.slots)

    def is_missed(self, node: Unreachable) -> bool:
        """Whether other servers say that it owns slots."""
        return node.last_id in self.owned

    def does_its_part(self, node: Seen) -> bool:
        """Whether it serves slots, or follows with its link up."""
        follows = node.replica_of is not None and node.replication.link_up
        return node.state_ok and (bool(node.slots) or follows)

    def unsettled(self) -> str | None:
        """Why no planned change may start now, or None. I5, I6, I8, I14"""
        return unsettled(self)

    def group_unsettled(self, group: int) -> str | None:
        """Why one shard's pods are not all in place and in sync, or None."""
        return unsettled_shard(self, group)

    @cached_property
    def covered(self) -> SlotSet:
        """The slots that are served."""
        served = NO_SLOTS
        for node in self.seen:
            if node.is_primary and node.state_ok:
                served |= node.slots
        return served

    @property
    def unserved(self) -> str:
        """Which slots are not served."""
        missing = ALL_SLOTS - self.covered
        return f"slots {missing} are not served" if missing else ""

    @property
    def is_outage(self) -> bool:
        """Whether a slot has no owner that responds."""
        return not self.all_owned

    @property
    def leaders_answer(self) -> bool:
        """Whether every slot owner responds."""
        return self.owned.keys() <= self.by_id.keys()

    def serves(self, slots: SlotSet) -> bool:
        """Whether primaries own these slots."""
        owned = NO_SLOTS
        for node in self.seen:
            if node.is_primary:
                owned |= node.slots
        return slots <= owned

    @property
    def unfinished(self) -> str | None:
        """A slot migration that is not finished, or epochs that are not settled. I5, I14"""
        return next(iter(self.unfinished_moves), None) or self.unsettled_epochs

    @property
    def forming(self) -> str | None:
        """Why the short timeouts stay: a new, empty database is being formed."""
        if any(node.keys for node in self.seen):
            return None
        for node in self.seen:
            linked = node.replication.link_up and not node.replication.syncing
            if not node.is_primary and not linked:
                return f"{node.pod.name} has no replication link yet"
        unserving = [n.pod.name for n in self.voters if not n.state_ok]
        return f"{unserving[0]} does not serve yet" if unserving else None

    @property
    def is_scaling(self) -> bool:
        """Whether a shard is leaving, or one has no slots yet."""
        leaving = any(w.shard >= self.wanted.shards for w in self.observed.workloads)
        return leaving or any(self.leaders.get(group) not in self.owned for group in self.groups())

    def history(self, group: int, before: tuple[str, str]) -> tuple[str, str]:
        """The history of a shard's data; that of a dead owner until its last slots are settled."""
        node = NodeId(before[0])
        if node in self.owned and node not in self.by_id:
            return before
        leader = self.leader(group)
        return (leader.id, leader.replication.id) if leader is not None else ("", "")

    def slots_of(self, group: int) -> str:
        """The slots that a shard's leader owns."""
        leader = self.leaders.get(group)
        return str(self.owned.get(leader, NO_SLOTS)) if leader is not None else ""

    @property
    def slots_summary(self) -> str:
        """How many of all slots are served, as text."""
        return f"{len(self.covered)}/{len(ALL_SLOTS)}"
