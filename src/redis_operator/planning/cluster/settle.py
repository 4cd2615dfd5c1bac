"""Slots that an unfinished migration left open."""

from __future__ import annotations

from collections import defaultdict

from ...redis.slots import NO_SLOTS, SlotSet
from ..actions import Action
from ..advice import Plan, PlanPhase
from ..at import at
from ..clusters import Counted, OpenSlot, SlotState
from ..identity import NodeId
from ..observed import Seen
from .actions import CancelJob, CloseSlots, MoveSlots
from .situation import Situation

__all__ = ["imported_elsewhere", "settle"]

_Finish = dict[tuple[NodeId, NodeId], SlotSet]
_Close = dict[NodeId, SlotSet]


def settle(situation: Situation) -> Plan | None:
    """Finish migrations whose two ends are alive and agree; close slots that have no other end.

    Finishing is always safe, and a slot that should be elsewhere is moved again later. A slot is
    not closed on a server that holds keys of it without owning it: the rule `rescue` moves them to
    the owner first. A replica that has an open slot which its primary does not have would continue
    that migration when promoted: the primary passes the command that closes the slot on to it. I4,
    I5
    """
    finish: _Finish = defaultdict(lambda: NO_SLOTS)
    close: _Close = defaultdict(lambda: NO_SLOTS)
    blocked: dict[str, None] = {}
    for node in situation.by_id.values():
        if node.is_primary:
            _judge_all(situation, node, finish, close, blocked)
        elif (leader := situation.by_id.get(node.replica_of or NodeId(""))) is not None:
            close[leader.id] |= _left_at_replica(situation, node, leader)
    for ends, slots in finish.items():
        finish[ends] = slots - imported_elsewhere(situation, ends)  # these are closed first
    if finish and situation.unsettled_epochs:
        blocked[f"slots stay open: {situation.unsettled_epochs}"] = None
        finish.clear()
    steps = _steps(situation, finish, close)
    if not steps and not blocked:
        return None
    return Plan(
        rule="settle",
        why="slots were left open by an unfinished migration" if steps else "",
        stages=(steps,) if steps else (),
        blocked=tuple(blocked),
        phase=PlanPhase.HEALING,
        # After a close or a finish every server may hold keys that were left behind.
        count_strays_on=situation.key_holders if steps else situation.to_count,
    )


def _judge_all(
    situation: Situation, node: Seen, finish: _Finish, close: _Close, blocked: dict[str, None]
) -> None:
    """Sort the open slots of a primary into those to finish, to close, and reasons to wait."""
    for open_slot in node.open_slots:
        if _in_hand(situation, node, open_slot):
            continue
        match _judge(situation, node, open_slot):
            case (source, target):
                finish[source, target] |= SlotSet([open_slot.slot])
            case "close":
                close[node.id] |= SlotSet([open_slot.slot])
            case str(reason):
                blocked[reason] = None


def _in_hand(situation: Situation, node: Seen, open_slot: OpenSlot) -> bool:
    """Whether this process is migrating the slot right now."""
    return any(
        open_slot.slot in move.slots and node.id in (move.source, move.target)
        for move in situation.observed.cluster.moving
    )


def imported_elsewhere(situation: Situation, ends: tuple[NodeId, NodeId]) -> SlotSet:
    """Slots that servers of other shards import, which Valkey 8 would give to them in the end.

    A replica knows what its primary imports, and continues with it when it is promoted.
    """
    return SlotSet(
        open_slot.slot
        for node in situation.seen
        if node.id not in ends and node.replica_of not in ends
        for open_slot in node.open_slots
        if open_slot.state is SlotState.IMPORTING
    )


def _left_at_replica(situation: Situation, replica: Seen, leader: Seen) -> SlotSet:
    """Slots that are open at a replica and not at its primary, and that are not being migrated.

    From Valkey 8 on a primary first sends SETSLOT to its replicas, and refuses with NOREPLICAS
    when one of them does not respond in time: that one opens the slot later, its primary does not.
    """
    if not leader.is_primary:
        return NO_SLOTS
    left = SlotSet(o.slot for o in replica.open_slots)
    return left - SlotSet(o.slot for o in leader.open_slots) - situation.moving_slots


def _judge(situation: Situation, node: Seen, open_slot: OpenSlot) -> tuple[NodeId, NodeId] | str:
    """The move to finish, "close", or the reason to wait."""
    owner = situation.owner_of(open_slot.slot)
    if open_slot.state is SlotState.MIGRATING:
        return _judge_source(situation, node, open_slot, owner)
    return _judge_target(situation, node, open_slot, owner)


def _judge_source(
    situation: Situation, node: Seen, open_slot: OpenSlot, owner: NodeId | None
) -> tuple[NodeId, NodeId] | str:
    if owner != node.id and open_slot.slot in node.slots:
        # It would serve the slot without its keys, and drop later writes with it. I1
        return f"{node.pod.name} has not heard yet that slot {open_slot.slot} has another owner"
    if owner != node.id:
        return "close"
    target = situation.by_id.get(open_slot.peer)
    if target is None:
        if open_slot.peer in situation.identities:
            return f"slot {open_slot.slot} waits for {situation.name_of(open_slot.peer)}"
        return "close"
    if not target.is_primary or target.loading:
        return "close"
    ends = OpenSlot(slot=open_slot.slot, state=SlotState.IMPORTING, peer=node.id)
    if ends in target.open_slots or _holds(target, open_slot.slot):
        return node.id, target.id
    return "close"


def _judge_target(
    situation: Situation, node: Seen, open_slot: OpenSlot, owner: NodeId | None
) -> tuple[NodeId, NodeId] | str:
    if owner == node.id:
        return "close"
    source = situation.by_id.get(open_slot.peer)
    ends = OpenSlot(slot=open_slot.slot, state=SlotState.MIGRATING, peer=node.id)
    if source is not None and source.is_primary and ends in source.open_slots:
        return (source.id, node.id) if owner == source.id else "close"
    if open_slot.peer in situation.identities and owner == open_slot.peer:
        return f"slot {open_slot.slot} waits for {situation.name_of(open_slot.peer)}"
    if node.keys and not isinstance(node.stranded, Counted):
        return f"keys of slot {open_slot.slot} on {node.pod.name} are not counted yet"
    left = open_slot.slot in situation.observed.cluster.duplicate_strays_of(
        node.id
    )  # its owner has them as well
    if _holds(node, open_slot.slot) and not left:
        return (
            f"slot {open_slot.slot} of {node.pod.name} is closed when its keys are on their owner"
        )
    return "close"


def _holds(node: Seen, slot: int) -> bool:
    """Whether it has, or may have, keys of a slot that it does not own."""
    if not isinstance(node.stranded, Counted):
        return bool(node.keys)
    return slot in node.stranded.slots


def _steps(
    situation: Situation,
    finish: _Finish,
    close: _Close,
) -> tuple[Action, ...]:
    steps: list[Action] = [
        CloseSlots(node=at(situation.by_id[node]), slots=slots)
        for node, slots in close.items()
        if slots
    ]
    givers: set[NodeId] = set()
    takers: set[NodeId] = set()
    for (source, target), slots in finish.items():
        if not slots:
            continue
        # Moves in both directions between servers freeze both: the others wait a turn. I4
        if source in takers or target in givers:
            continue
        givers.add(source)
        takers.add(target)
        one, two = situation.by_id[source], situation.by_id[target]
        steps.append(MoveSlots(source=at(one), target=at(two), slots=slots))
    steps += _cancelled(situation)
    return tuple(steps)


def _cancelled(situation: Situation) -> list[Action]:
    """Jobs whose target is not a member any more: the slots stay where they are."""
    return [
        CancelJob(node=at(node), job=job.id)
        for node in situation.by_id.values()
        for job in node.jobs
        if node.id == job.source
        and job.target not in situation.by_id
        and job.target not in situation.identities
    ]
