"""Fewer replicas than there are."""

from __future__ import annotations

from ..actions import Action, ScaleWorkload
from ..advice import Phase, Plan
from ..common.saving import unsaved
from ..observed import NodeId, Seen, Workload
from .election import synced
from .hand_over import hand_over
from .settled import unrest
from .situation import Situation

__all__ = ["shrink"]


def shrink(situation: Situation) -> Plan | None:
    """Take away surplus pods, one shard after the other, never the primary or the last good copy.

    A primary whose ordinal leaves hands over first. The nodes that go are forgotten when their
    pods are gone. I6, I8
    """
    keep = situation.wanted.pods_per_shard
    for workload in situation.observed.workloads:
        if workload.shard >= situation.wanted.shards or workload.pods <= keep:
            continue
        reason = unrest(situation) or unsaved(situation, workload.shard)
        if reason:
            blocked = (f"replicas of shard {workload.shard} wait to leave: {reason}",)
            return Plan(rule="shrink", blocked=blocked, phase=Phase.SCALING)
        return _shrink_one(situation, workload, keep)
    return None


def _shrink_one(situation: Situation, workload: Workload, keep: int) -> Plan:
    leader = situation.by_id[situation.leaders[workload.shard]]
    why = f"shard {workload.shard} has {workload.pods} pods and wants {keep}"
    if leader.pod.shard == workload.shard and leader.pod.ordinal >= keep:
        return hand_over(
            situation,
            leader,
            rule="shrink",
            why=why,
            phase=Phase.SCALING,
            among=_staying(situation, leader.id, workload.shard),
        )
    stay = _staying(situation, leader.id, workload.shard)
    if situation.wanted.replicas and not any(synced(r, leader) for r in stay):
        blocked = (f"{why}, but no replica that stays is in sync",)
        return Plan(rule="shrink", blocked=blocked, phase=Phase.SCALING)
    step: Action = ScaleWorkload(
        shard=workload.shard, uid=workload.uid, from_pods=workload.pods, to_pods=keep, discard=True
    )
    return Plan(rule="shrink", why=why, stages=((step,),), phase=Phase.SCALING)


def _staying(situation: Situation, leader: NodeId, shard: int) -> list[Seen]:
    replicas = situation.replicas_of(leader)
    return [r for r in replicas if r.pod.shard == shard and not situation.leaving(r.pod)]
