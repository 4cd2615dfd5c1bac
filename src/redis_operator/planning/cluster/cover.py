"""Assign slots without an owner in a database that was complete before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ...redis.slots import NO_SLOTS, SlotSet, even_shares
from ..advice import Loss, Plan, PlanPhase
from ..at import at
from ..clusters import Counted
from ..identity import NodeId
from ..observed import Seen
from .actions import AssignSlots, UnassignSlots
from .situation import Situation

__all__ = ["cover"]

_GONE = "every copy of their data is gone: no server owns them or holds a key of theirs"


def cover(situation: Situation) -> Plan | None:
    """Assign unowned slots to the servers that hold their keys; report those whose keys are gone.

    If one server holds the keys, it owns the slots again. If several do, the one with the most keys
    gets them, and the rule `rescue` moves the keys of the others there. Slots for which no server
    has a key were lost with their owner, or were empty: it cannot be known which, so they are
    reported as lost, and are assigned to empty servers when the spec or a person allows it. I3,
    CL-03, CL-21, CL-30
    """
    missing = situation.unclaimed - _on_their_way(situation)
    if not missing:
        return None
    unsure = _unsure(situation)
    if unsure:
        return Plan(
            rule="cover",
            blocked=(f"slots {missing} have no owner", *unsure),
            count_strays_on=situation.to_count,
            phase=PlanPhase.HEALING,
            final=True,
        )
    steps = _to_their_holders(situation, missing)
    if steps:
        why = "slots without an owner go back to the server that has their keys"
        return _first(situation, steps) or Plan(
            rule="cover", why=why, stages=(steps,), phase=PlanPhase.HEALING
        )
    if not situation.observed.formed:
        return None
    wanted = situation.wanted
    given_up = missing if wanted.start_empty else missing & wanted.accepted_loss
    if given_up:
        return _start_empty(situation, missing, given_up)
    return Plan(rule="cover", losses=(Loss(slots=missing, why=_GONE),), phase=PlanPhase.HEALING)


def _on_their_way(situation: Situation) -> SlotSet:
    """Slots that this process is migrating: for a moment no server may report one as its own.

    Servers are asked one by one. Assigning the slots then would take them from the server that has
    just received them. I3, I5
    """
    slots = NO_SLOTS
    for move in situation.observed.cluster.moving:
        slots |= move.slots
    return slots


def _unsure(situation: Situation) -> list[str]:
    uncounted = [f"keys on {n.pod.name} are not counted yet" for n in situation.uncounted]
    return [*situation.possible_holders, *uncounted]


def _first(situation: Situation, steps: Iterable[AssignSlots]) -> Plan | None:
    """The step before: servers that take another one for the owner would refuse these slots."""
    mistaken = tuple(
        UnassignSlots(node=step.node, slots=believed, owner=peer.id)
        for step in steps
        for peer in situation.by_id[step.node.id].peers
        if (believed := peer.slots & step.slots)
    )
    if not mistaken:
        return None
    pods = ", ".join(sorted({step.node.pod for step in mistaken}))
    why = f"{pods} must learn that the owner of some slots has given them up"
    return Plan(rule="cover", why=why, stages=(mistaken,), phase=PlanPhase.HEALING)


def _to_their_holders(situation: Situation, missing: SlotSet) -> tuple[AssignSlots, ...]:
    most: dict[int, tuple[int, NodeId]] = {}
    for node in situation.by_id.values():
        if not node.is_primary or not isinstance(node.stranded, Counted):
            continue
        for slot, keys in node.stranded.by_slot:
            if slot in missing:
                most[slot] = max(most.get(slot, (0, node.id)), (keys, node.id))
    shares: dict[NodeId, list[int]] = defaultdict(list)
    for slot, (_, holder) in most.items():
        shares[holder].append(slot)
    return tuple(_assign(situation.by_id[node], SlotSet(s)) for node, s in sorted(shares.items()))


def _start_empty(situation: Situation, missing: SlotSet, given_up: SlotSet) -> Plan:
    """Assign the slots of each shard to its leader."""
    steps: list[AssignSlots] = []
    left = given_up
    for shard, share in enumerate(even_shares(situation.wanted.shards)):
        leader = situation.by_id.get(situation.leaders.get(shard, NodeId("")))
        if leader is not None and leader.is_primary and share & left:
            steps.append(_assign(leader, share & left))
            left -= share
    losses = tuple(
        Loss(slots=slots, why=_GONE, accepted=accepted)
        for slots, accepted in ((given_up, True), (missing - given_up, False))
        if slots
    )
    if not steps:
        return Plan(
            rule="cover",
            blocked=(f"slots {missing} have no owner and no shard has a server to take them",),
            losses=losses,
            phase=PlanPhase.HEALING,
        )
    return _first(situation, steps) or Plan(
        rule="cover",
        why=f"slots {given_up} lost every copy of their data and are assigned to empty servers",
        stages=(tuple(steps),),
        losses=losses,
        phase=PlanPhase.HEALING,
    )


def _assign(node: Seen, slots: SlotSet) -> AssignSlots:
    return AssignSlots(node=at(node), slots=slots or NO_SLOTS, expect_keys=node.keys)
