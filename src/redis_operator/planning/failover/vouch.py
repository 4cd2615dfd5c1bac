"""Replicas that sentinels may promote: those that were seen in sync."""

from __future__ import annotations

from ..actions import ConfigSet, at
from ..advice import Phase, Plan
from .topology import FailoverTopology

__all__ = ["vouch"]

_USUAL = (("replica-priority", "100"),)


def vouch(topology: FailoverTopology) -> Plan | None:
    """Let sentinels promote servers that have the data. I9

    Every server starts with priority 0: one that restarted empty would otherwise be promoted where
    it is the only one left.
    """
    fit = [
        node
        for node in topology.seen
        if topology.does_its_part(node) and node.replication.priority == 0
    ]
    if not fit:
        return None
    names = ", ".join(node.pod.name for node in fit)
    return Plan(
        rule="vouch",
        why=f"{names} are in sync: sentinels may promote them",
        stages=(tuple(ConfigSet(node=at(node), values=_USUAL) for node in fit),),
        phase=Phase.HEALING if topology.observed.formed else Phase.CREATING,
    )
