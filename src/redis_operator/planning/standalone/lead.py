"""The one server started as a replica of no server, as those of mode Failover do."""

from __future__ import annotations

from ...redis.slots import ALL_SLOTS
from ..advice import Loss, Plan, PlanPhase
from ..at import at
from ..failover.actions import Promote
from ..fence import Fence
from ..one_group import OneGroup
from .topology import follows_none

__all__ = ["lead"]

_WITHOUT_FILES = "127.0.0.1:2"


def lead(topology: OneGroup) -> Plan | None:
    """Make it a primary: it left mode Failover, and restarted before it had the new scripts.

    Or it follows an external server, and a person gave up the data that has not arrived.

    A server that lost its files is held, as at any other start.
    """
    for node in topology.seen:
        link = node.replication
        released = topology.is_copy or topology.wanted.source_given_up
        if node.is_primary or node.loading or not (released or follows_none(node)):
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
            why=f"{node.pod.name} follows no server and is the only one"
            if follows_none(node)
            else f"{node.pod.name} is the only server, and need not follow {link.follows} any more",
            stages=((step,),),
            losses=losses,
            phase=PlanPhase.HEALING,
        )
    return None
