"""Slot owners that are gone with every copy of their data."""

from __future__ import annotations

from ...redis.slots import NO_SLOTS, SlotSet
from ..actions import Action
from ..advice import Loss, Plan, PlanPhase
from ..at import at
from ..clusters import Peer
from ..identity import NodeId
from ..observed import Seen
from .actions import Forget, Replicate, ResetEmptyNode
from .situation import Claim, Situation

__all__ = ["gone_owners", "lost"]


def lost(situation: Situation) -> Plan | None:
    """Report slots whose owner left no copy; give them up where the spec or a person allows it.

    Empty replicas of such an owner are detached first, since a server does not forget the node that
    it follows. Then all servers forget the owner, and the rule `cover` assigns the slots, which no
    server claims any more. I3, CL-21, CL-31, CL-32, CL-36
    """
    gone = _lost_owners(situation)
    if not gone:
        return None
    accepted = {node: slots for node, slots in gone.items() if situation.wanted.gives_up(slots)}
    losses = tuple(
        Loss(
            slots=slots,
            why=f"{situation.name_of(node)} owned them and every copy of its data is gone",
            accepted=node in accepted,
        )
        for node, slots in gone.items()
    )
    if not accepted:
        return Plan(rule="lost", losses=losses, phase=PlanPhase.HEALING)
    return Plan(
        rule="lost",
        why=f"slots {_union(accepted)} lost every copy of their data and are started empty",
        stages=_give_up(situation, accepted),
        losses=losses,
        phase=PlanPhase.HEALING,
        again_after=0.05,
    )


def gone_owners(situation: Situation) -> list[Claim]:
    """Slot owners, according to a majority, that have no pod and whose data has no copy left.

    This is certain only when every pod exists, responds, and says its id. Until then the data may
    come back with a pod. I3, CL-21
    """
    if situation.possible_owners or situation.duplicate_ids:
        return []
    return [
        claim
        for claim in situation.claims
        if situation.pod_of(claim.id) is None
        and not situation.copies_of(claim.id)
        and not _lives_elsewhere(situation.others.get(claim.id, ()))
    ]


def _lost_owners(situation: Situation) -> dict[NodeId, SlotSet]:
    """Nodes that some server still takes for an owner and that no pod is, with the lost slots.

    When all servers restarted there is no majority that could say which node owned which slots. The
    view of one server is enough here, since all servers respond and none claims the slots itself.
    """
    if situation.possible_owners or situation.possible_holders:
        return {}
    served = NO_SLOTS
    for node in situation.seen:
        if node.is_primary:
            served |= node.slots
    found: dict[NodeId, SlotSet] = {}
    for owner, views in situation.others.items():
        slots = NO_SLOTS
        for view in views:
            slots |= view.slots
        if slots - served and not situation.copies_of(owner) and not _lives_elsewhere(views):
            found[owner] = slots - served
    return found


def _lives_elsewhere(views: tuple[Peer, ...]) -> bool:
    """Whether a node is linked and healthy, but not a pod of this database: foreign, not lost."""
    return any(view.healthy for view in views)


def _union(owners: dict[NodeId, SlotSet]) -> SlotSet:
    slots = NO_SLOTS
    for owned in owners.values():
        slots |= owned
    return slots


def _give_up(
    situation: Situation, accepted: dict[NodeId, SlotSet]
) -> tuple[tuple[Action, ...], ...]:
    detached = tuple(
        _detach(situation, replica)
        for owner in accepted
        for replica in situation.replicas_of(owner)
        if replica.id in situation.by_id
    )
    if any(isinstance(step, ResetEmptyNode) for step in detached):
        return (detached,)  # those get new ids: the old ones are forgotten in the next plan
    forgotten = tuple(
        Forget(node=at(node), id=owner, expect_slots=_slots_believed_of(situation, owner))
        for owner in accepted
        for node in situation.by_id.values()
        if situation.view(node, owner) is not None
    )
    return tuple(stage for stage in (detached, forgotten) if stage)


def _detach(situation: Situation, replica: Seen) -> Action:
    leader = situation.by_id.get(situation.leaders.get(replica.pod.shard, NodeId("")))
    known = leader is not None and situation.view(replica, leader.id) is not None
    if leader is None or not leader.is_primary or not known:
        return ResetEmptyNode(node=at(replica))
    return Replicate(node=at(replica), primary=at(leader), expect_primary=replica.replica_of)


def _slots_believed_of(situation: Situation, owner: NodeId) -> SlotSet:
    """All slots that any server takes for this owner's, without those that a server serves."""
    slots = NO_SLOTS
    for view in situation.others.get(owner, ()):
        slots |= view.slots
    return slots
