"""Move slots to where the spec wants them: added shards, leaving shards, misplaced ranges."""

from __future__ import annotations

from itertools import chain

from ...redis.slots import (
    NO_SLOTS,
    SLOTS,
    SlotMove,
    SlotSet,
    SlotShare,
    even_shares,
    fewest_moves,
    slot_targets,
)
from ...redis.weights import SlotWeights
from ..actions import Action
from ..advice import Plan, PlanPhase
from ..at import at
from ..clusters import Moving, NotCounted, NotWeighed, Weighed
from ..gates import can_copy
from ..identity import NodeId
from ..observed import Seen
from .actions import MoveSlots, StopMoving
from .settled import unsettled
from .situation import Situation

__all__ = ["rebalance"]


def rebalance(situation: Situation) -> Plan | None:
    """Move the fewest slots that give every shard its share; leaving shards end with none.

    The targets follow from the current owners, so a change that is taken back half-way is simply
    reversed. No server gives and receives at the same time. All pairs are one stage; a mover that
    can serve only one pair at a time takes them in turn. I4, I5, I12, CL-06, CL-07, CL-15
    """
    moves = _moves(situation)
    if situation.observed.cluster.moving:
        return _under_way(situation, moves)
    if not moves:
        return None
    reason = _limitation(situation, moves)
    if reason:
        return _waiting(reason)
    if _unweighed(situation):
        return _waiting("keys are being counted", count_strays_on=situation.key_holders)
    weights = _weights(situation)
    if weights is not None:
        moves = _moves(situation, weights)
        reason = _too_big(situation, moves, weights)
        if reason:
            return _waiting(reason)
    steps = tuple(
        MoveSlots(
            source=at(situation.by_id[NodeId(move.source)]),
            target=at(situation.by_id[NodeId(move.target)]),
            slots=move.slots,
        )
        for move in moves
    )
    total = sum(len(move.slots) for move in moves)
    return Plan(
        rule="rebalance",
        why=f"{total} slots move so that {situation.wanted.shards} shards have even shares",
        stages=(steps,),
        phase=PlanPhase.SCALING,
    )


def _waiting(reason: str, *, count_strays_on: tuple[str, ...] = ()) -> Plan:
    blocked = (f"slots wait to move: {reason}",)
    return Plan(
        rule="rebalance", blocked=blocked, phase=PlanPhase.SCALING, count_strays_on=count_strays_on
    )


def _unweighed(situation: Situation) -> bool:
    """Whether slots can be weighed and were not. A server that cannot is not asked again."""
    return any(
        node.keys and isinstance(node.weighed, NotWeighed) and isinstance(node.stranded, NotCounted)
        for node in situation.voters
    )


def _weights(situation: Situation) -> SlotWeights | None:
    """The weight of each slot, or None unless all servers report the same measure of it."""
    found = [node.weighed for node in situation.voters if node.keys]
    measured = [weighed for weighed in found if isinstance(weighed, Weighed)]
    if (
        not measured
        or len(measured) < len(found)
        or len({weighed.unit for weighed in measured}) > 1
    ):
        return None
    return SlotWeights(chain.from_iterable(weighed.by_slot for weighed in measured))


def _moves(situation: Situation, weights: SlotWeights | None = None) -> tuple[SlotMove, ...]:
    """Moves from the current owners to the targets; only leaders of wanted shards keep slots.

    A shard's target depends on its number alone, not on the current owners: however often the way
    there is interrupted, the end is the same. Weights only choose which slots move.
    """
    leaders = [situation.leaders.get(shard) for shard in range(situation.wanted.shards)]
    if None in leaders:
        return ()
    owned: dict[str, SlotSet] = {node: NO_SLOTS for node in leaders if node is not None}
    owned.update(situation.owned.items())
    targets = {str(node): count for node, count in zip(leaders, _targets(situation), strict=True)}
    if weights is None:
        return fewest_moves(owned, targets)
    return fewest_moves(owned, targets, lambda cut: _by_weight(cut, targets, weights))


def _by_weight(cut: SlotShare, targets: dict[str, int], weights: SlotWeights) -> SlotSet:
    """The slots of a cut that bring both ends nearest to their share of the total weight."""

    def due(node: str) -> float:
        return weights.total * targets.get(node, 0) / SLOTS

    count = len(cut.usual)
    spare = (weights.of(cut.owned) - due(cut.source)) * count / cut.left_to_give
    lack = (due(cut.target) - weights.of(cut.gained)) * count / cut.left_to_get
    wanted = max(0.0, (spare + lack) / 2)
    return weights.best_cut(cut.owned, cut.usual, near=cut.gained, wanted=wanted)


def _targets(situation: Situation) -> list[int]:
    """How many slots each wanted shard must have."""
    count = situation.wanted.shards
    weights = dict(situation.wanted.weights)
    if not weights:
        return [len(share) for share in even_shares(count)]
    names = {f"{shard:04}": weights.get(shard, 1.0) for shard in range(count)}
    return list(slot_targets(dict.fromkeys(names, 0), names).values())


def _limitation(situation: Situation, moves: tuple[SlotMove, ...]) -> str | None:
    reason = unsettled(situation)
    if reason:
        return reason
    if situation.wanted.backup:
        return f"RedisBackup {situation.wanted.backup} is being read, for an hour at most"
    for move in moves:
        source = situation.by_id.get(NodeId(move.source))
        target = situation.by_id.get(NodeId(move.target))
        if source is None or target is None or not (source.is_primary and target.is_primary):
            return f"{move.source} and {move.target} are not both primaries that respond"
        if not target.state_ok:
            return f"{target.pod.name} does not serve yet"  # it would refuse every key
        if not can_copy((source.engine, source.version), (target.engine, target.version)):
            return (
                f"{source.pod.name} runs {source.engine} {source.version}, "
                f"which {target.pod.name} ({target.engine} {target.version}) cannot read"
            )
    return _too_big(situation, moves, None)


def _too_big(
    situation: Situation, moves: tuple[SlotMove, ...], weights: SlotWeights | None
) -> str | None:
    """Why a receiver would run out of memory, with the numbers, or None; nothing is moved then."""
    incoming: dict[str, int] = {}
    for move in moves:
        source = situation.by_id[NodeId(move.source)]
        part, whole = len(move.slots), len(source.slots)
        if weights is not None and weights.of(source.slots):
            part, whole = weights.of(move.slots), weights.of(source.slots)
        more = round(source.used_memory * part / max(1, whole))
        incoming[move.target] = incoming.get(move.target, 0) + more
    for node, more in incoming.items():
        target: Seen = situation.by_id[NodeId(node)]
        if target.max_memory and target.used_memory + more > target.max_memory:
            return (
                f"{target.pod.name} uses {target.used_memory} bytes and would get about {more}, "
                f"but maxmemory is {target.max_memory}: keep the shards or give them more memory"
            )
    return None


def _under_way(situation: Situation, moves: tuple[SlotMove, ...]) -> Plan:
    """Keep moves that are still wanted or that only finish open slots; stop the others."""
    givers = {move.source for move in moves}
    takers = {move.target for move in moves}
    stops: list[Action] = []
    notes: list[str] = []
    for move in situation.observed.cluster.moving:
        turned = move.source in takers or move.target in givers
        if turned and not _only_finishes(situation, move):
            stops.append(StopMoving(source=move.source, target=move.target))
        else:
            notes.append(
                f"{len(move.slots)} slots are being migrated from "
                f"{situation.name_of(move.source)} to {situation.name_of(move.target)}"
            )
    return Plan(
        rule="rebalance",
        why="the plan for slots that are being migrated has changed" if stops else "",
        stages=(tuple(stops),) if stops else (),
        blocked=tuple(notes),
        phase=PlanPhase.SCALING,
    )


def _only_finishes(situation: Situation, move: Moving) -> bool:
    """Whether every slot of a move is open or has arrived: stopping would leave them open. I5"""
    left = move.slots - situation.owned.get(move.target, NO_SLOTS)
    ends = {move.source, move.target}
    opened = SlotSet(
        open_slot.slot
        for end in ends & situation.by_id.keys()
        for open_slot in situation.by_id[end].open_slots
        if open_slot.peer in ends
    )
    return not left - opened
