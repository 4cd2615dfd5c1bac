"""Keys on servers that do not own their slots: they exist, but no client sees them."""

from __future__ import annotations

from collections import defaultdict

from ...redis.slots import NO_SLOTS, SlotSet
from ..actions import Action
from ..advice import Plan, PlanPhase
from ..at import at
from ..clusters import Counted
from ..identity import NodeId
from .actions import RescueKeys
from .situation import Situation

__all__ = ["rescue"]


def rescue(situation: Situation) -> Plan | None:
    """Move stray keys to the owner of their slot, also from a server that owns other slots.

    A server that would give and receive waits a turn, since moves in both directions freeze both
    ends. Rules that act where keys may be left behind ask for a count; the shell counts from time
    to time. Keys for which the owner has another value, from a move that was interrupted, are left:
    it cannot be known which value is newer, and clients see the owner's. Slots in migration wait,
    wherever their stray keys are: their holder imports them for the duration of a rescue, and would
    take them when the owner gives them away. I4, I14
    """
    homes: dict[tuple[NodeId, NodeId], SlotSet] = defaultdict(lambda: NO_SLOTS)
    blocked: list[str] = []
    moving = situation.moving_slots
    for node in situation.by_id.values():
        if not node.is_primary or not isinstance(node.stranded, Counted):
            continue
        known = moving | situation.observed.cluster.duplicate_strays_of(node.id)
        for slot in node.stranded.slots - known:
            owner = situation.owner_of(slot)
            if owner is None or owner not in situation.by_id:
                whose = f"of slot {slot}, which has no owner that responds"
                blocked.append(f"{node.pod.name} holds keys {whose}")
            elif owner != node.id:
                homes[node.id, owner] |= SlotSet([slot])
    steps = _disjoint(situation, homes)
    if steps:
        return Plan(
            rule="rescue",
            why="keys are on servers that do not own their slots",
            stages=(steps,),
            blocked=tuple(blocked),
            phase=PlanPhase.HEALING,
            count_strays_on=situation.key_holders,  # to see whether all keys have arrived
        )
    return Plan(rule="rescue", blocked=tuple(blocked), phase=PlanPhase.HEALING) if blocked else None


def _disjoint(
    situation: Situation, homes: dict[tuple[NodeId, NodeId], SlotSet]
) -> tuple[Action, ...]:
    givers: set[NodeId] = set()
    takers: set[NodeId] = set()
    steps: list[Action] = []
    for (holder, owner), slots in sorted(homes.items(), key=lambda item: item[0]):
        if holder in takers or owner in givers:
            continue
        givers.add(holder)
        takers.add(owner)
        one, two = situation.by_id[holder], situation.by_id[owner]
        steps.append(RescueKeys(holder=at(one), owner=at(two), slots=slots))
    return tuple(steps)
