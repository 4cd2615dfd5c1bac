"""What no plan may contain, checked again after the rules have made it.

Written from docs/invariants.md alone, without the reasoning of the rules: a mistake in a rule is
caught here, becomes a plain sentence, and nothing is done. I9, I10, I13 and I14 are kept by the
boot script, the executor, the tests and the status; they cannot be checked on one plan.
"""

from __future__ import annotations

from collections import Counter

from ...redis.slots import NO_SLOTS
from ..actions import Action, DeletePod, DiscardData, ScaleWorkload
from ..clusters import Counted
from ..fence import Fence
from ..gates import can_copy
from ..guards import Guards
from ..identity import NodeId
from ..observed import Seen
from .actions import (
    AssignSlots,
    Failover,
    FailoverMode,
    Forget,
    InheritSlots,
    Meet,
    MoveSlots,
    RaiseEpoch,
    Replicate,
    RescueKeys,
    ResetEmptyNode,
    UnassignSlots,
)
from .election import can_be_elected, limitation, outdated, unsynced
from .settle import imported_elsewhere
from .situation import Situation

__all__ = ["GUARDS"]


def _of_step(situation: Situation, step: Action) -> list[str]:  # noqa: C901, PLR0911, PLR0912 - one a kind
    """Every way in which one step would break an invariant of mode Cluster."""
    match step:
        case Replicate():
            return _replicate(situation, step)
        case ResetEmptyNode():
            return _reset(situation, step)
        case RaiseEpoch():
            return _raise_epoch(situation, step)
        case AssignSlots():
            return _assign(situation, step)
        case UnassignSlots():
            return _unassign(situation, step)
        case InheritSlots():
            return _inherit(situation, step)
        case Forget():
            return _forget(situation, step)
        case Failover():
            return _failover(situation, step)
        case Meet():
            return _meet(situation, step)
        case RescueKeys():
            return _rescue(situation, step)
        case MoveSlots():
            return _move(situation, step)
        case DeletePod():
            return _delete_pod(situation, step)
        case DiscardData():
            return _discard(situation, step)
        case ScaleWorkload():
            return _scale(situation, step)
        case _:
            return []


def _replicate(situation: Situation, step: Replicate) -> list[str]:
    node = situation.by_id.get(step.node.id)
    if node is None:
        return [f"I2: {step.node.pod} was not observed and would drop its data"]
    if node.slots or node.id in situation.owned:
        return [f"I1: {node.pod.name} owns slots and would drop its data"]
    if node.is_primary and node.keys:
        return [f"I1: {node.pod.name} holds {node.keys} keys and would drop them"]
    last = node.replica_of in situation.owned and node.replica_of not in situation.by_id
    if last and situation.is_copy(node):
        return [f"I1: {node.pod.name} may be the last copy of {node.replica_of}"]
    return []


def _reset(situation: Situation, step: ResetEmptyNode) -> list[str]:
    same = [n for n in situation.seen if n.id == step.node.id]
    node = next((n for n in same if n.pod.uid == step.node.uid), None)
    if node is None or node.keys:
        return [f"I1: {step.node.pod} is not known to be empty and would lose its identity"]
    if len(same) == 1 and node.id in situation.owned:
        return [f"I3: {node.pod.name} is the owner of slots and would lose its identity"]
    return []


def _raise_epoch(situation: Situation, step: RaiseEpoch) -> list[str]:
    if step.slots - situation.owned.get(step.node.id, NO_SLOTS):
        return [f"I3: {step.node.pod} does not own all of slots {step.slots} and would take them"]
    if situation.unfinished_moves:
        return [f"I5: {situation.unfinished_moves[0]}"]
    return []


def _assign(situation: Situation, step: AssignSlots) -> list[str]:
    found = []
    if step.slots - situation.unclaimed:
        found.append(f"I3: slots {step.slots - situation.unclaimed} have an owner already")
    if situation.possible_holders:
        found.append(f"I3: slots are assigned though {situation.possible_holders[0]}")
    for node in situation.seen:
        if node.id == step.node.id or not node.is_primary or not node.keys:
            continue
        if not isinstance(node.stranded, Counted):
            found.append(f"I3: keys on {node.pod.name} were not counted")
        elif node.stranded.slots & step.slots and not _holds(situation, step):
            found.append(f"I3: {node.pod.name} holds keys of slots {step.slots}")
    return found


def _unassign(situation: Situation, step: UnassignSlots) -> list[str]:
    if step.slots - situation.unclaimed:
        return [f"I3: slots {step.slots - situation.unclaimed} have an owner"]
    if step.owner not in situation.by_id:
        return [f"I2: {step.owner} was not observed and may own slots {step.slots}"]
    return []


def _inherit(situation: Situation, step: InheritSlots) -> list[str]:
    found = []
    claimed = [n.pod.name for n in situation.seen if n.is_primary and n.slots & step.slots]
    if claimed:
        found.append(f"I3: {claimed[0]} owns some of slots {step.slots}")
    if situation.unreachable or situation.missing_pods or situation.replicas_of(step.dead):
        found.append(f"I3: a pod that may have the data of {step.dead} is passed over")
    if step.slots - situation.owned.get(step.dead, NO_SLOTS):
        found.append(f"I3: {step.dead} did not own all of slots {step.slots}")
    node = situation.by_id.get(step.node.id)
    history = dict(situation.observed.cluster.histories).get(step.dead, "")
    elected = any(
        e.node == step.node.id and e.over == step.dead for e in situation.observed.elections
    )
    if node is None or not (elected or history == node.replication.id2 != ""):
        found.append(f"I1: {step.node.pod} is not known to hold the data of {step.dead}")
    return found


def _holds(situation: Situation, step: AssignSlots) -> bool:
    """Whether the receiver itself has keys of every one of these slots."""
    node = situation.by_id.get(step.node.id)
    return (
        node is not None
        and isinstance(node.stranded, Counted)
        and (step.slots <= node.stranded.slots)
    )


def _forget(situation: Situation, step: Forget) -> list[str]:
    found = []
    stayers = [n for n in situation.seen if n.slots or not situation.leaving(n.pod)]
    views = [view for node in stayers if (view := situation.view(node, step.id)) is not None]
    served = NO_SLOTS
    for node in situation.voters:
        served |= node.slots
    if not situation.wanted.gives_up(step.expect_slots - served):
        found.append(f"I3: the loss of slots {step.expect_slots - served} was not accepted")
    if any(view.slots - step.expect_slots for view in views):
        found.append(f"I3: {step.id} owns slots and would be forgotten")
    if step.id in situation.by_id and not situation.leaving(situation.by_id[step.id].pod):
        found.append(f"I3: {step.id} is {situation.name_of(step.id)}, which stays")
    if step.id in situation.identities or situation.possible_owners:
        found.append(f"I2: {step.id} may be a pod that does not respond")
    return found


def _failover(situation: Situation, step: Failover) -> list[str]:
    node = situation.by_id.get(step.node.id)
    if node is None or node.replica_of != step.primary:
        return [f"I2: {step.node.pod} is not seen as a replica of {step.primary}"]
    ahead = [
        other.pod.name
        for other in situation.replicas_of(step.primary)
        if other.replication.id == node.replication.id
        and other.replication.offset > node.replication.offset
    ]
    found = []
    if any(
        other.replication.id == node.replication.id and other.id != step.primary
        for other in situation.voters
    ):
        found.append(f"I1: {node.pod.name} holds another primary's data")
    if ahead and step.mode is not FailoverMode.PLAIN:
        found.append(f"I6: {ahead[0]} has more data than {node.pod.name}")
    if step.mode is FailoverMode.PLAIN:
        return found + _planned(situation, node, step)
    return found + _unplanned(situation, step)


def _planned(situation: Situation, node: Seen, step: Failover) -> list[str]:
    primary = situation.by_id.get(step.primary)
    if primary is None:
        return [f"I6: {step.primary} does not respond, so its writes cannot be paused"]
    if situation.unfinished_moves:
        return [f"I5: {situation.unfinished_moves[0]}"]
    reason = unsynced(node, primary) or limitation(situation, node, step.primary)
    if reason is None and not situation.has_majority:
        reason = "no majority can vote"
    return [f"I6: {reason}"] if reason else []


def _unplanned(situation: Situation, step: Failover) -> list[str]:
    primary = situation.by_id.get(step.primary)
    found = []
    if step.fence is Fence.EMPTY_AND_PAUSED:
        if primary is None or primary.keys:
            found.append(f"I7: {step.primary} is not known to be empty")
    elif primary is not None:
        found.append(f"I7: {primary.pod.name} responds and is not fenced")
    else:
        holder = situation.identities.get(step.primary)
        suspects = [holder] if holder is not None else list(situation.unidentified)
        alive = [n.pod.name for n in suspects if not n.dead]
        if alive:
            found.append(f"I7: {alive[0]} may be the primary and alive")
        linked = [
            voter.pod.name
            for voter in situation.voters
            if (view := situation.view(voter, step.primary)) is not None and view.healthy
        ]
        if holder is None and linked:
            found.append(f"I7: {linked[0]} is linked with {step.primary}, which may be alive")
    replica = situation.by_id.get(step.node.id)
    if replica is not None and step.fence is not Fence.EMPTY_AND_PAUSED:
        older = outdated(situation, replica, step.primary)
        found += [f"I6: {older}"] if older else []
    electable = replica is None or can_be_elected(situation, replica, step.primary)
    if step.mode is FailoverMode.TAKEOVER and situation.has_majority and electable:
        found.append("I7: a majority can vote, so no replica takes over without a vote")
    return found


def _meet(situation: Situation, step: Meet) -> list[str]:
    for place in (step.node, step.peer):
        node = situation.by_id.get(place.id)
        if node is None or node.pod.uid != place.uid or node.pod.ip != place.ip:
            return [f"I11: {place.pod} is not known to be node {place.id}"]
    return []


def _move(situation: Situation, step: MoveSlots) -> list[str]:
    ends = [situation.by_id.get(step.source.id), situation.by_id.get(step.target.id)]
    if any(end is None or not end.is_primary for end in ends):
        return ["I2: slots would move between servers that are not both seen as primaries"]
    one, two = (end for end in ends if end is not None)
    if step.slots - (one.slots | two.slots):
        return [f"I3: {one.pod.name} does not own all of slots {step.slots}"]
    if situation.unsettled_epochs:
        return [f"I14: {situation.unsettled_epochs}"]
    elsewhere = step.slots & imported_elsewhere(situation, (step.source.id, step.target.id))
    if elsewhere:
        return [f"I4: a third server imports slots {elsewhere} too, and would take them"]
    if not can_copy((one.engine, one.version), (two.engine, two.version)):
        return [f"I12: {two.pod.name} cannot read what {one.pod.name} would send"]
    return []


def _rescue(situation: Situation, step: RescueKeys) -> list[str]:
    moving = step.slots & situation.moving_slots
    if moving:
        return [f"I4: {step.holder.pod} would take slots {moving}, which move, from their owner"]
    return []


def _delete_pod(situation: Situation, step: DeletePod) -> list[str]:
    node = next((n for n in situation.observed.nodes if n.pod.uid == step.uid), None)
    if node is None:
        return [f"I2: pod {step.pod} was not observed"]
    found = [f"I5: {reason}" for reason in situation.unfinished_moves[:1] if isinstance(node, Seen)]
    if isinstance(node, Seen) and node.id in situation.owned and situation.replicas_of(node.id):
        found.append(f"I8: {node.pod.name} owns slots and has replicas: promote one first")
    staying = [n for n in situation.pods_of(node.pod.shard) if not situation.leaving(n.pod)]
    siblings = [n for n in staying if n.pod.uid != step.uid]
    down = [n.pod.name for n in siblings if not isinstance(n, Seen) or not n.pod.ready]
    if down and isinstance(node, Seen) and node.pod.ready:
        found.append(f"I8: {down[0]} of the same shard is down already")
    return found


def _discard(situation: Situation, step: DiscardData) -> list[str]:
    node = next((n for n in situation.observed.nodes if n.pod.uid == step.uid), None)
    if node is None or isinstance(node, Seen) or not node.dead:
        return [f"I2: {step.pod} may be alive and would lose its data"]
    if any(owner not in situation.by_id for owner in situation.owned):
        return [f"I1: {step.pod} may be a slot owner and would lose its data"]
    holder = situation.by_id.get(step.data_holder.id)
    if holder is None or not holder.slots or not holder.keys:
        return [f"I1: {step.data_holder.pod} is not known to hold the data of {step.pod}"]
    if holder.id != situation.leaders.get(node.pod.shard):
        return [f"I1: {holder.pod.name} is not the primary of the shard of {step.pod}"]
    return []


def _scale(situation: Situation, step: ScaleWorkload) -> list[str]:
    if step.to_pods >= step.from_pods or situation.wanted.hibernate:
        return []
    owners = situation.owners_by_shard.get(step.shard, ())
    pods = [situation.pod_of(owner) for owner in owners]
    if any(pod is not None and pod.ordinal >= step.to_pods for pod in pods):
        return [f"I8: shard {step.shard} would lose the pod of its primary"]
    return []


def _of_stage(situation: Situation, stage: tuple[Action, ...]) -> list[str]:
    """Every way in which steps of mode Cluster done at once would break an invariant."""
    found = []
    pairs = [
        (step.source.id, step.target.id)
        if isinstance(step, MoveSlots)
        else (step.holder.id, step.owner.id)
        for step in stage
        if isinstance(step, MoveSlots | RescueKeys)
    ]
    both = {giver for giver, _ in pairs} & {taker for _, taker in pairs}
    if both:
        found.append(f"I4: {situation.name_of(min(both))} would give and take slots at once")
    deleted = [step for step in stage if isinstance(step, DeletePod)]
    shards = Counter(
        n.pod.shard for n in situation.observed.nodes for d in deleted if d.uid == n.pod.uid
    )
    found += [f"I8: {n} pods of shard {s} would end at once" for s, n in shards.items() if n > 1]
    found += _forgetting(situation, stage)
    assigned = NO_SLOTS
    for step in stage:
        if isinstance(step, AssignSlots):
            if assigned & step.slots:
                found.append(f"I3: slots {assigned & step.slots} would get two owners")
            assigned |= step.slots
    return found


def _forgetting(situation: Situation, stage: tuple[Action, ...]) -> list[str]:
    """A node that is forgotten is forgotten by every server that knows it, in one stage."""
    forgetting: dict[NodeId, set[str]] = {}
    for step in stage:
        if isinstance(step, Forget):
            forgetting.setdefault(step.id, set()).add(step.node.id)
    found = []
    for node, forgetters in forgetting.items():
        know = {s.id for s in situation.by_id.values() if situation.view(s, node) is not None}
        unaware = {i for i in know - forgetters if not situation.leaving(situation.by_id[i].pod)}
        if unaware:
            found.append(f"I11: {situation.name_of(min(unaware))} would still know {node}")
    return found


GUARDS = Guards(step=_of_step, stage=_of_stage)
