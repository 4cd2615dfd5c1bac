"""A database that leaves the mode: one server is left in the end, and no sentinel."""

from __future__ import annotations

from ..actions import DeleteWorkload
from ..advice import Phase, Plan
from ..common import shrink as common
from ..common.roll import outdated
from ..observed import Node
from .topology import FailoverTopology

__all__ = ["dismiss_sentinels", "shrink"]


def shrink(topology: FailoverTopology) -> Plan | None:
    """Remove servers that are not wanted any more.

    Where one alone stays, it is recreated for the next mode first, while others have its data.
    """
    if topology.leaves_mode and any(_stays_outdated(topology, n) for n in topology.observed.nodes):
        return None
    return common.shrink(topology)


def _stays_outdated(topology: FailoverTopology, node: Node) -> bool:
    return not topology.leaving(node.pod) and outdated(topology, node.pod)


def dismiss_sentinels(topology: FailoverTopology) -> Plan | None:
    """Delete the sentinels of a database that leaves the mode, once one server is left.

    It leads, and there is nobody whom they could promote over it.
    """
    found, servers = topology.observed.sentinel_workload, topology.observed.workload(0)
    if not topology.leaves_mode or topology.wanted.hibernate or found is None or found.deleting:
        return None
    if servers is None or servers.pods != 1 or topology.primary is None:
        return None
    why = "one server is left, and mode Standalone has no sentinels"
    if len(topology.observed.nodes) > 1:
        reason = f"{len(topology.observed.nodes) - 1} servers are still ending"
        return Plan(rule="dismiss_sentinels", blocked=(reason,), phase=Phase.SCALING)
    step = DeleteWorkload(shard=found.shard, uid=found.uid)
    return Plan(rule="dismiss_sentinels", why=why, stages=((step,),), phase=Phase.SCALING)
