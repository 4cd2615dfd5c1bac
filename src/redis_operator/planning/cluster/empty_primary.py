"""A primary came back without its data while a replica still has it."""

from __future__ import annotations

from ..advice import Plan, PlanPhase
from ..at import at
from ..fence import Fence
from ..observed import Seen
from .actions import Failover, FailoverMode
from .situation import Situation

__all__ = ["empty_primary"]


def empty_primary(situation: Situation) -> Plan | None:
    """Promote the replica that still holds the data, before it syncs with the empty primary.

    The boot script prevents this (I9); this rule is the second safeguard. A primary that was
    emptied by its clients has the same replication history as its replicas and is left alone. So
    is one whose new replica still has the data of another shard.
    """
    for node in situation.voters:
        if node.keys or node.loading:
            continue
        others = {n.replication.id for n in situation.voters if n.id != node.id}
        holders = [
            replica
            for replica in situation.replicas_of(node.id)
            if _still_full(replica, node) and replica.replication.id not in others
        ]
        if not holders:
            continue
        if not situation.has_majority:
            return Plan(
                rule="empty_primary",
                blocked=(f"{node.pod.name} restarted empty and no majority can elect a replica",),
                phase=PlanPhase.HEALING,
            )
        top = max(holders, key=lambda r: (r.replication.offset, r.keys, r.id))
        step = Failover(
            node=at(top),
            primary=node.id,
            mode=FailoverMode.FORCE,
            fence=Fence.EMPTY_AND_PAUSED,
            min_offset=top.replication.offset,
            primary_pod=node.pod.name,
        )
        return Plan(
            rule="empty_primary",
            why=f"{node.pod.name} restarted empty; {top.pod.name} still holds {top.keys} keys",
            stages=((step,),),
            phase=PlanPhase.HEALING,
            urgent=True,
        )
    return None


def _still_full(replica: Seen, primary: Seen) -> bool:
    """Whether a replica has keys from another history than the primary's current one."""
    return (
        replica.keys > 0
        and not replica.replication.link_up
        and not replica.loading
        and replica.replication.id not in (primary.replication.id, primary.replication.id2)
    )
