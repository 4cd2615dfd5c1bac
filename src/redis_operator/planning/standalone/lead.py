"""The one server started as a replica of no server, as those of mode Failover do."""

from __future__ import annotations

from ...redis.slots import ALL_SLOTS
from ..advice import Loss, Plan, PlanPhase
from ..at import at
from ..failover.actions import Promote
from ..fence import Fence
from ..one_group import OneGroup

__all__ = ["lead"]

_NO_PRIMARY = "127.0.0.1:"
_WITHOUT_FILES = "127.0.0.1:2"


def lead(topology: OneGroup) -> Plan | None:
    """Make it a primary: it left mode Failover, and restarted before it had the new scripts.

    Or it was a copy of an external server, and a person gave up the data that has not arrived.

    A server that lost its files is held, as at any other start.
    """
    for node in topology.seen:
        link = node.replication
        waits = topology.is_copy or link.follows.startswith(_NO_PRIMARY)
        if node.is_primary or node.loading or not waits:
            continue
        losses: tuple[Loss, ...] = ()
        if link.follows == _WITHOUT_FILES and topology.observed.formed and not node.keys:
            accepted = topology.wanted.volatile or topology.wanted.gives_up(ALL_SLOTS)
            losses = (Loss(why=f"{node.pod.name} found no files", accepted=accepted),)
            if not accepted:
                return Plan(rule="lead", losses=losses, phase=PlanPhase.HEALING, final=True)
        step = Promote(
            node=at(node),
            follows=link.follows,
            fence=Fence.NEVER_LED,
            replication_id=link.id,
            min_offset=link.offset,
        )
        return Plan(
            rule="lead",
            why=f"{node.pod.name} follows no server and is the only one",
            stages=((step,),),
            losses=losses,
            phase=PlanPhase.HEALING,
        )
    return None
