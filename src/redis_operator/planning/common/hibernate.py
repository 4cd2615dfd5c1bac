"""Run no pods, and keep everything else."""

from __future__ import annotations

from ..actions import ScaleWorkload
from ..advice import ACCEPT_LOSS, Plan, PlanPhase
from ..topology import Topology
from .saving import unsaved

__all__ = ["hibernate"]


def hibernate(situation: Topology) -> Plan | None:
    """Scale every shard to zero, all at once, once no slot is in migration.

    Every server saves its data when it ends, and its identity stays beside the data. Waking up
    means that all pods come back with new addresses. Without storage this would lose all data. I5
    """
    wanted = situation.wanted
    if not wanted.hibernate:
        return None
    refused = _limitation(situation)
    if refused:
        return Plan(rule="hibernate", blocked=(refused,), final=False)
    steps = tuple(
        ScaleWorkload(shard=w.shard, uid=w.uid, from_pods=w.pods, to_pods=0)
        for w in situation.workloads
        if w.pods
    )
    if steps:
        return Plan(
            rule="hibernate",
            why="spec.hibernate is set: data, secrets and services stay, pods end",
            stages=(steps,),
            phase=PlanPhase.HIBERNATED,
            final=True,
        )
    left = len(situation.observed.nodes) + len(situation.observed.sentinels)
    waiting = (f"{left} pods are still ending",) if left else ()
    return Plan(rule="hibernate", blocked=waiting, phase=PlanPhase.HIBERNATED, final=True)


def _limitation(situation: Topology) -> str | None:
    if not any(workload.pods for workload in situation.workloads):
        return None
    if not situation.wanted.persistent and not situation.wanted.restart_may_lose:
        return (
            "spec.hibernate would lose all data: the database has no storage; "
            "add spec.storage, or accept it once with the annotation "
            f"{ACCEPT_LOSS}=restart"
        )
    if situation.unfinished_moves:
        return f"hibernation waits: {situation.unfinished_moves[0]}"
    saving = unsaved(situation)
    return f"hibernation waits: {saving}" if saving else None
