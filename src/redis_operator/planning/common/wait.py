"""Nothing to be done, and yet not all is well: say what is waited for."""

from __future__ import annotations

from ..advice import Phase, Plan
from ..topology import Topology

__all__ = ["wait"]


def wait(situation: Topology) -> Plan | None:
    """Name what keeps the database from being at rest when no rule can help it. I14"""
    reason = situation.unsettled()
    if reason is None:
        return _unobserved(situation)
    phase = Phase.HEALING if situation.observed.formed else Phase.CREATING
    return Plan(rule="wait", blocked=(reason,), phase=phase)


def _unobserved(situation: Topology) -> Plan | None:
    """Name a workload whose last change is not observed yet: its pods may be outdated."""
    for workload in situation.observed.workloads:
        if not workload.current and not workload.deleting:
            reason = f"StatefulSet {workload.name} was changed and its controller has yet to act"
            phase = Phase.UPDATING if situation.observed.formed else Phase.CREATING
            return Plan(rule="wait", blocked=(reason,), phase=phase)
    return None
