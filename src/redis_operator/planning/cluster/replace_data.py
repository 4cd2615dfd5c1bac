"""A server that cannot load its own files while other servers hold its data."""

from __future__ import annotations

from ...redis.slots import ALL_SLOTS, NO_SLOTS
from ..actions import DiscardData
from ..advice import Plan, PlanPhase
from ..at import at
from ..identity import NodeId
from ..observed import Seen, Unreachable
from .situation import Situation

__all__ = ["replace_data"]

_TRIES = 2  # a disk may fail once


def replace_data(situation: Situation) -> Plan | None:
    """Give a server with broken files an empty volume, when no data in them is needed. ST-07

    The files are not needed when every slot has an owner that responds, and the primary of the
    shard serves and holds keys: the server then copies those. Files of a slot owner, or of a server
    that may be one, are never deleted; the status says what a person can do. I1, I2
    """
    broken = [
        node
        for node in situation.unreachable
        if node.pod.unloadable and node.dead and not node.pod.deleting
    ]
    blocked = []
    for node in broken:
        data_holder = _data_holder(situation, node)
        if isinstance(data_holder, str):
            blocked.append(f"{node.pod.name} cannot load its files and keeps them: {data_holder}")
            continue
        claim = next((v for v in situation.observed.volumes if v.pod == node.pod.name), None)
        step = DiscardData(
            pod=node.pod.name,
            uid=node.pod.uid,
            data_holder=at(data_holder),
            claim=claim.name if claim is not None else "",
            claim_uid=claim.uid if claim is not None else "",
        )
        return Plan(
            rule="replace_data",
            why=f"{node.pod.name} cannot load its files ({node.pod.unloadable}); "
            f"{data_holder.pod.name} holds the data, and it copies them again",
            stages=((step,),),
            blocked=tuple(blocked),
            phase=PlanPhase.HEALING,
        )
    return (
        Plan(rule="replace_data", blocked=tuple(blocked), phase=PlanPhase.HEALING)
        if blocked
        else None
    )


def _data_holder(situation: Situation, node: Unreachable) -> Seen | str:
    """The primary that holds the data of the broken server, or why none is known for certain."""
    if node.pod.restarts < _TRIES:
        return "it retries"
    if situation.duplicate_ids:
        return "two pods have one node id"
    covered = NO_SLOTS
    for owner in situation.by_id.values():
        if owner.is_primary:
            covered |= owner.slots
    if covered != ALL_SLOTS:
        return (
            f"slots {ALL_SLOTS - covered} have no owner that responds, it may hold their last copy"
        )
    leader = situation.by_id.get(situation.leaders.get(node.pod.shard, NodeId("")))
    if leader is None or not leader.slots:
        return "its shard has no primary that responds"
    if leader.loading or not leader.state_ok:
        return f"{leader.pod.name} does not serve yet"
    if not leader.keys:
        return f"{leader.pod.name} holds no key, it may have lost what these files hold"
    return leader
