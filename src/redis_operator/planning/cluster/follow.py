"""Make every pod that is not its shard's primary a replica of it."""

from __future__ import annotations

from ..actions import Action
from ..advice import Plan, PlanPhase
from ..at import at
from ..clusters import Counted
from ..identity import NodeId
from ..observed import Seen
from .actions import Replicate
from .situation import Situation

__all__ = ["follow", "why_not"]


def follow(situation: Situation) -> Plan | None:
    """Turn idle servers into replicas of their shard's primary; move replicas of other shards back.

    Idle servers change all at once: they hold nothing. A replica of another shard is a copy that
    this shard may need, so those change one at a time, while both primaries respond. I1, CL-15,
    CL-17
    """
    idle: list[Action] = []
    strays: list[Action] = []
    blocked: list[str] = []
    for node in situation.by_id.values():
        leader = situation.by_id.get(situation.leaders.get(node.pod.shard, NodeId("")))
        if leader is None or node.id == leader.id or node.id in situation.owned:
            continue
        if node.replica_of == leader.id or situation.leaving(node.pod):
            continue
        reason = why_not(situation, node, leader)
        if reason:
            blocked.append(reason)
        elif node.is_primary:
            idle.append(_replicate(node, leader))
        else:
            strays.append(_replicate(node, leader))
    steps = tuple(idle or strays[:1])
    if steps:
        return Plan(
            rule="follow",
            why="shards are missing replicas"
            if idle
            else "a replica copies another shard's primary",
            stages=(steps,),
            blocked=tuple(blocked),
            phase=PlanPhase.HEALING if situation.observed.formed else PlanPhase.CREATING,
            again_after=0.05,
        )
    if not blocked:
        return None
    return Plan(
        rule="follow",
        blocked=tuple(blocked),
        phase=PlanPhase.HEALING,
        count_strays_on=situation.to_count if any(not n.slots for n in situation.uncounted) else (),
    )


def why_not(situation: Situation, node: Seen, leader: Seen) -> str | None:
    """Why a server may not drop its data and copy its shard's primary, or None. I1"""
    name = node.pod.name
    if node.slots:
        return f"{name} still claims slots {node.slots} and must first hear who owns them"
    if node.loading:
        return f"{name} is still loading its data"
    if not leader.is_primary:
        return f"{leader.pod.name} is not a primary"
    if situation.view(node, leader.id) is None:
        return f"{name} does not know {leader.pod.name} yet"
    if node.is_primary:
        return _own_keys(situation, node) if node.keys else None
    return _stray_limitation(situation, node)


def _own_keys(situation: Situation, node: Seen) -> str:
    """Describe the keys a server would drop; where clients see other values, a person decides."""
    name, stray = node.pod.name, node.stranded
    known = situation.observed.cluster.duplicate_strays_of(node.id)
    if isinstance(stray, Counted) and stray.keys == node.keys and not stray.slots - known:
        return (
            f"{name} has other values of {node.keys} keys than the owners of slots {stray.slots}, "
            f"since a move was interrupted; clients see the owners'. FLUSHALL on {name} drops its "
            "values, and it becomes a replica again"
        )
    return f"{name} holds {node.keys} keys that no other server is known to have"


def _stray_limitation(situation: Situation, node: Seen) -> str | None:
    """Why a replica's data is not known to be at its own primary, or at the owner of its slots."""
    assert node.replica_of is not None
    name = node.pod.name
    if node.replica_of in situation.by_id:
        return None
    if node.replica_of in situation.owned and situation.is_copy(node):
        return f"{name} may be the last copy of {situation.name_of(node.replica_of)}"
    if node.replica_of in situation.identities:
        return f"{name} follows {situation.name_of(node.replica_of)}, which does not respond"
    return None


def _replicate(node: Seen, leader: Seen) -> Replicate:
    return Replicate(node=at(node), primary=at(leader), expect_primary=node.replica_of)
