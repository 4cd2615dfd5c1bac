"""Nothing can be done, and the database is not settled: say what it waits for."""

from __future__ import annotations

from ..advice import Plan, PlanPhase
from ..observed import Workload
from ..topology import Topology

__all__ = ["unobserved", "wait"]


def unobserved(workload: Workload | None) -> str | None:
    """Why it is not known whether the pods of a workload are outdated, or None."""
    if workload is None or workload.current or workload.deleting:
        return None
    return f"StatefulSet {workload.name} was changed and its controller has yet to act"


def wait(situation: Topology) -> Plan | None:
    """Name what keeps the database from being settled when no rule can help. I14"""
    reason = situation.unsettled()
    if reason is None:
        return _unobserved(situation)
    phase = PlanPhase.HEALING if situation.observed.formed else PlanPhase.CREATING
    return Plan(rule="wait", blocked=(reason,), phase=phase)


def _unobserved(situation: Topology) -> Plan | None:
    """Name a workload whose last change is not observed yet: its pods may be outdated."""
    observed = situation.observed
    for workload in (*observed.workloads, observed.sentinel_workload):
        reason = unobserved(workload)
        if reason is not None:
            phase = PlanPhase.UPDATING if observed.formed else PlanPhase.CREATING
            return Plan(rule="wait", blocked=(reason,), phase=phase)
    return None
