"""The answers of mode Standalone to shared rules: one group, one server, no replicas."""

from __future__ import annotations

from ..actions import Action
from ..advice import ACCEPT_LOSS, Plan, PlanPhase
from ..copies import is_linked
from ..identity import Role
from ..observed import Seen, Unreachable
from ..one_group import OneGroup

__all__ = ["StandaloneTopology", "follows_none"]


def follows_none(node: Seen) -> bool:
    """Whether it was started as a replica of no server, as those of mode Failover are."""
    return node.replication.follows.startswith("127.0.0.1:")


class StandaloneTopology(OneGroup):
    """One server, which has no replica and is its own group."""

    def leader(self, group: int) -> Seen | None:
        """The one server, if it responds; none while it follows an external server."""
        return None if self.is_copy else self.upstream(group)

    def upstream(self, group: int) -> Seen | None:
        """The one server, if it responds."""
        return next((node for node in self.seen if node.pod.shard == group), None)

    def followers(self, leader: Seen) -> tuple[Seen, ...]:
        """An empty tuple: there are no replicas."""
        del leader
        return ()

    def unsynced(self, replica: Seen, primary: Seen) -> str | None:
        """Why no other server has its data."""
        return f"{replica.pod.name} is not a replica of {primary.pod.name}"

    def hand_over(
        self, leader: Seen, *, rule: str, why: str, phase: PlanPhase, among: list[Seen]
    ) -> Plan:
        """Say that there is no other server."""
        del among
        reason = f"{why}; mode Standalone has no server that could replace {leader.pod.name}"
        return Plan(rule=rule, blocked=(reason,), phase=phase)

    def role_of(self, node: Seen) -> Role | None:
        """The one server is the primary, as soon as it says so."""
        if self.is_copy:
            return self.role_of_copy(node)
        return Role.PRIMARY if node.is_primary else None

    def holds_data(self, node: Seen) -> bool:
        """Always True: the one server has all data."""
        return not self.leaving(node.pod)

    def claims_data(self, node: Seen) -> bool:
        """Always True: the one server has all data."""
        return self.holds_data(node)

    def does_its_part(self, node: Seen) -> bool:
        """Whether it accepts commands."""
        return is_linked(node) if self.is_copy else node.is_primary and not node.loading

    def after_promotion(self, chosen: Seen, others: list[Seen]) -> tuple[Action, ...]:
        """No steps: its label follows by itself."""
        del chosen, others
        return ()

    def unsettled(self) -> str | None:
        """Why the server may not be changed now, or None."""
        return self.absent or next(filter(None, map(self.group_unsettled, self.groups())), None)

    def group_unsettled(self, group: int) -> str | None:
        """Why the server is not up, or None."""
        for node in self.pods_of(group):
            name = node.pod.name
            if isinstance(node, Unreachable):
                return f"{name} does not respond: {node.pod.waiting or node.error}"
            if node.pod.deleting:
                return f"{name} is being deleted"
            if node.loading:
                return f"{name} is still loading its data"
            if not node.is_primary:
                return self._why_replica(node)
            if not node.pod.ready:
                return f"{name} is not ready"
        return None

    def _why_replica(self, node: Seen) -> str:
        """Why it accepts no writes; neither `default` nor `admin` may run REPLICAOF."""
        if follows_none(node):
            return f"{node.pod.name} follows no server and is not a primary yet"
        return (
            f"{node.pod.name} is a replica of {node.replication.follows or 'another server'}, "
            "which is not part of this database, and accepts no writes. To make it a primary with "
            f"the data that it has: kubectl annotate redis {self.wanted.name} --overwrite "
            f"{ACCEPT_LOSS}=source"
        )

    @property
    def unserved(self) -> str:
        """Why commands are not accepted."""
        if self.copy is not None:
            return self.copy.message
        if any(self.does_its_part(node) for node in self.seen):
            return ""
        return self.unsettled() or "no server accepts commands"
