"""Replicas that sentinels may promote: those that were seen in sync."""

from __future__ import annotations

from ..actions import ConfigSet
from ..advice import Plan, PlanPhase
from ..at import at
from .set_aside import MARK
from .topology import FailoverTopology

__all__ = ["vouch"]

_USUAL = (("replica-priority", "100"),)
_UNFIT = (0, int(MARK))
_SOON_SECONDS = 0.5


def vouch(topology: FailoverTopology) -> Plan | None:
    """Let sentinels promote servers that have the data. I9

    Every server starts with priority 0: otherwise a server that restarted empty would be promoted
    if it is the only one left. A sentinel that considers the primary dead would promote a replica
    at once, over a primary that accepts writes. It may do so for ten seconds after the primary was
    chosen, since it learns only from INFO that a server which started as a replica leads.
    """
    fit = [
        node
        for node in topology.seen
        if topology.does_its_part(node) and node.replication.priority in _UNFIT
    ]
    if not fit:
        return None
    phase = PlanPhase.HEALING if topology.observed.formed else PlanPhase.CREATING
    doubt = _doubt(topology)
    if doubt:
        return Plan(rule="vouch", blocked=(doubt,), phase=phase, again_after=_SOON_SECONDS)
    names = ", ".join(node.pod.name for node in fit)
    return Plan(
        rule="vouch",
        why=f"in sync with the primary, so that sentinels may promote them: {names}",
        stages=(tuple(ConfigSet(node=at(node), values=_USUAL) for node in fit),),
        phase=phase,
    )


def _doubt(topology: FailoverTopology) -> str:
    """Name a sentinel that considers a reachable primary down, or an empty string."""
    for node in topology.watchers:
        found = topology.monitored(node)
        if found is None or not found.up or found.failing_over or found.role_reported != "master":
            return f"{node.pod.name} does not see yet that the primary is up"
    return ""
