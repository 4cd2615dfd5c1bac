"""Slots that a dead owner got last, unknown to the replica that was promoted over it."""

from __future__ import annotations

from ..advice import Plan, PlanPhase
from ..at import at
from .actions import InheritSlots
from .election import successor
from .lost import gone_owners
from .situation import Situation

__all__ = ["inherit"]


def inherit(situation: Situation) -> Plan | None:
    """Give the slots that other servers still assign to a dead owner to its promoted replica.

    A server that dies right after it got slots may have announced them to all servers except its
    replica. The replica has their keys, because a migration waits for it before slots change owner,
    but it does not claim them when it takes over. Only when all pods respond and no server claims
    the slots. I3, CL-06
    """
    if situation.unreachable:
        return None
    steps = []
    for claim in gone_owners(situation):
        chosen = successor(situation, claim.id)
        claimed = any(n.is_primary and n.slots & claim.slots for n in situation.seen)
        if chosen is not None and not claimed:
            steps.append(InheritSlots(node=at(chosen), slots=claim.slots, dead=claim.id))
    if not steps:
        return None
    names = " and ".join(step.node.pod for step in steps)
    return Plan(
        rule="inherit",
        why=f"{names} took over from a primary that had just got slots, and holds their keys",
        stages=(tuple(steps),),
        phase=PlanPhase.HEALING,
    )
