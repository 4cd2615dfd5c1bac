"""Remove surplus replicas."""

from __future__ import annotations

from ..actions import ScaleWorkload
from ..advice import Plan, PlanPhase
from ..observed import Workload
from ..topology import Topology
from .saving import unsaved

__all__ = ["shrink"]


def shrink(situation: Topology) -> Plan | None:
    """Remove surplus pods, one group after the other, never the primary or the last good copy.

    A primary whose ordinal is removed is switched over first. I6, I8, SE-17
    """
    keep = situation.wanted.pods_per_shard
    for workload in situation.observed.workloads:
        wanted = workload.shard in situation.groups() and not workload.deleting
        if wanted and workload.pods > keep:
            return _shrink_one(situation, workload, keep)
    return None


def _shrink_one(situation: Topology, workload: Workload, keep: int) -> Plan:
    why = f"{workload.name} has {workload.pods} pods and needs {keep}"
    leader = situation.leader(workload.shard)
    reason = situation.unsettled() or unsaved(situation, workload.shard)
    if reason or leader is None:
        return _blocked(why, reason or "no primary responds")
    stay = [
        replica
        for replica in situation.followers(leader)
        if replica.pod.shard == workload.shard and not situation.leaving(replica.pod)
    ]
    if leader.pod.shard == workload.shard and situation.leaving(leader.pod):
        return situation.hand_over(
            leader, rule="shrink", why=why, phase=PlanPhase.SCALING, among=stay
        )
    if situation.wanted.replicas and all(situation.unsynced(r, leader) for r in stay):
        return _blocked(why, "no replica that stays is in sync")
    step = ScaleWorkload(
        shard=workload.shard, uid=workload.uid, from_pods=workload.pods, to_pods=keep, discard=True
    )
    return Plan(rule="shrink", why=why, stages=((step,),), phase=PlanPhase.SCALING)


def _blocked(why: str, reason: str) -> Plan:
    return Plan(rule="shrink", blocked=(f"{why}; {reason}",), phase=PlanPhase.SCALING)
