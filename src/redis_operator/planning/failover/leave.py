"""A database that leaves this mode: one server and no sentinel remain in the end."""

from __future__ import annotations

from ..actions import DeleteWorkload
from ..advice import Plan, PlanPhase
from ..common import shrink as common
from ..common.roll import outdated
from .topology import FailoverTopology

__all__ = ["dismiss_sentinels", "shrink", "stays_outdated"]


def shrink(topology: FailoverTopology) -> Plan | None:
    """Remove servers that are not wanted any more.

    If a single server stays, it is recreated for the next mode first, while others have its data.
    """
    if topology.leaves_mode and stays_outdated(topology):
        return None
    return common.shrink(topology)


def stays_outdated(topology: FailoverTopology) -> bool:
    """Whether a pod that stays has to be recreated, or may have to be.

    This is known only once the StatefulSet controller has observed the last change.
    """
    unobserved = any(not found.current for found in topology.observed.workloads)
    stay = (n.pod for n in topology.observed.nodes if not topology.leaving(n.pod))
    return unobserved or any(outdated(topology, pod) for pod in stay)


def dismiss_sentinels(topology: FailoverTopology) -> Plan | None:
    """Delete the sentinels of a database that leaves the mode, once one server is left.

    That server leads, and there is no other server that they could promote over it.
    """
    found, servers = topology.observed.sentinel_workload, topology.observed.workload(0)
    if not topology.leaves_mode or topology.wanted.hibernate or found is None or found.deleting:
        return None
    if servers is None or servers.pods != 1 or not servers.current or topology.primary is None:
        return None
    why = "one server is left, and mode Standalone has no sentinels"
    if len(topology.observed.nodes) > 1:
        reason = f"{len(topology.observed.nodes) - 1} servers are still ending"
        return Plan(rule="dismiss_sentinels", blocked=(reason,), phase=PlanPhase.SCALING)
    step = DeleteWorkload(shard=found.shard, uid=found.uid)
    return Plan(rule="dismiss_sentinels", why=why, stages=((step,),), phase=PlanPhase.SCALING)
