"""Nodes that are gone permanently."""

from __future__ import annotations

from ...redis.slots import NO_SLOTS, SlotSet
from ..actions import Action
from ..advice import Plan, PlanPhase
from ..at import at
from ..clusters import Peer
from ..identity import NodeId
from .actions import Forget
from .situation import Situation

__all__ = ["forget"]


def forget(situation: Situation) -> Plan | None:
    """Forget dead nodes that own nothing, on every server in one stage, before the ban ends.

    This is certain only when every pod exists and its id is known: an unknown node may be a pod
    that has not come back yet. A node is not forgotten while any server says that it owns a slot
    that no server serves, or while a replica still follows it: an election decides about those
    first. A replica that was down while its primary was replaced takes the dead one for the owner,
    by an epoch that no other server has: it learns the truth only once it forgets that one. I3,
    I11, CL-10, CL-11, CL-32
    """
    if situation.unidentified or situation.possible_owners or situation.missing_shards:
        return None
    served = NO_SLOTS
    for voter in situation.voters:
        served |= voter.slots
    steps: list[Action] = []
    for node, views in situation.others.items():
        if not _is_ghost(situation, node, views, served):
            continue
        believed = NO_SLOTS
        for view in views:
            believed |= view.slots
        knowing = [s for s in situation.by_id.values() if situation.view(s, node) is not None]
        steps += [Forget(node=at(server), id=node, expect_slots=believed) for server in knowing]
    if not steps:
        return None
    return Plan(
        rule="forget",
        why="the cluster still knows nodes whose pods are gone",
        stages=(tuple(steps),),
        phase=PlanPhase.READY,
    )


def _is_ghost(situation: Situation, node: NodeId, views: tuple[Peer, ...], served: SlotSet) -> bool:
    return (
        not any(view.slots - served or view.healthy for view in views)
        and node not in situation.owned
        and not situation.replicas_of(node)
        and not any(_shaking_hands(view) for view in views)
    )


def _shaking_hands(view: Peer) -> bool:
    return any(flag.value == "handshake" for flag in view.flags)
