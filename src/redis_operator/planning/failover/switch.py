"""The primary where people and drains want it, and no primary where a place is to go."""

from __future__ import annotations

from ..actions import ScaleWorkload
from ..advice import Phase, Plan
from .topology import FailoverTopology

__all__ = ["drain", "shrink", "switch"]


def switch(topology: FailoverTopology) -> Plan | None:
    """Make the pod a person named the primary; done once it is."""
    request, primary = topology.wanted.switchover, topology.primary
    if request is None or primary is None:
        return None
    node = next((n for n in topology.seen if n.pod.name == request.pod), None)
    if node is None:
        reason = f"{request.pod} shall be primary and does not respond"
        return Plan(rule="switch", blocked=(reason,))
    if node.id == primary.id:
        return None
    return topology.hand_over(
        primary,
        rule="switch",
        why=f"{request.pod} was asked to be primary",
        phase=Phase.UPDATING,
        among=[node],
    )


def drain(topology: FailoverTopology) -> Plan | None:
    """Hand over from a primary that is told to go, or whose machine is emptied. SE-01

    It serves on until a replica leads: a replica that has to go as well is better than none.
    """
    primary = topology.primary
    if primary is None or not (primary.pod.deleting or primary.pod.draining):
        return None
    gone = primary.pod.deleting
    among = [
        node
        for node in topology.followers(primary)
        if not node.pod.deleting and (gone or not node.pod.draining)
    ]
    if not among:
        return None
    pod = primary.pod
    why = f"{pod.name} is being deleted" if gone else f"{pod.node} is being drained"
    return topology.hand_over(primary, rule="drain", why=why, phase=Phase.UPDATING, among=among)


def shrink(topology: FailoverTopology) -> Plan | None:
    """Remove servers that are not wanted any more, after a handover where one leads. SE-17"""
    found, primary = topology.observed.workload(0), topology.primary
    wanted = topology.wanted.pods_per_shard
    if found is None or found.deleting or found.pods <= wanted or topology.wanted.hibernate:
        return None
    why = f"{found.pods} servers, {wanted} wanted"
    if primary is None:
        return Plan(rule="shrink", blocked=(f"{why}; no primary",), phase=Phase.SCALING)
    if topology.leaving(primary.pod):
        among = [n for n in topology.followers(primary) if not topology.leaving(n.pod)]
        return topology.hand_over(primary, rule="shrink", why=why, phase=Phase.SCALING, among=among)
    step = ScaleWorkload(shard=0, uid=found.uid, from_pods=found.pods, to_pods=wanted, discard=True)
    return Plan(rule="shrink", why=why, stages=((step,),), phase=Phase.SCALING)
