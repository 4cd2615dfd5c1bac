"""Two primaries in the pods of one shard, and no primary in those of another."""

from __future__ import annotations

from ..advice import Plan, PlanPhase
from .hand_over import hand_over
from .settled import unsettled
from .situation import Situation

__all__ = ["relocate_primary"]


def relocate_primary(situation: Situation) -> Plan | None:
    """Switch over to a replica in the shard without a primary: restores anti-affinity. CL-17

    The rule `follow` has made that shard's pods replicas of the surplus primary of another shard.
    """
    for shard, leader in situation.leaders.items():
        node = situation.by_id.get(leader)
        if node is None or node.pod.shard == shard or leader not in situation.owned:
            continue
        reason = unsettled(situation)
        if reason:
            return Plan(
                rule="relocate_primary",
                blocked=(f"the primary of shard {shard} is in {node.pod.name}; {reason}",),
                phase=PlanPhase.HEALING,
            )
        return hand_over(
            situation,
            node,
            rule="relocate_primary",
            why=f"the primary of shard {shard} is in another shard's pod, {node.pod.name}",
            phase=PlanPhase.HEALING,
            among=[r for r in situation.replicas_of(leader) if r.pod.shard == shard],
        )
    return None
