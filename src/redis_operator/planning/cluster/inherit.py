"""Slots that a dead owner got last, and that its successor never heard of."""

from __future__ import annotations

from ..advice import Phase, Plan
from ..at import at
from .actions import InheritSlots
from .election import successor
from .lost import gone_owners
from .situation import Situation

__all__ = ["inherit"]


def inherit(situation: Situation) -> Plan | None:
    """Give what a dead owner still has in the others' books to the replica promoted over it.

    A server that dies right after it got slots may have told everybody but its replica. The
    replica has their keys, because it is waited for before slots change hands, and does not claim
    them when it takes over. Only when all pods respond and no server claims the slots. I3, CL-06
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
        phase=Phase.HEALING,
    )
