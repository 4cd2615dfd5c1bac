"""Enough pods, always first: additional copies do no harm."""

from __future__ import annotations

from ..actions import ScaleWorkload
from ..advice import Plan, PlanPhase
from ..topology import Topology

__all__ = ["pods"]


def pods(situation: Topology) -> Plan | None:
    """Scale up workloads with too few pods: after hibernation, and when replicas are added.

    A leaving shard that was hibernated is scaled up too: the slots that it owns must be moved
    first. One without pods stays so while the others have yet to end for a hibernation.
    """
    want = situation.wanted.pods_per_shard
    few = [
        w
        for w in situation.observed.workloads
        if (w.shard < situation.wanted.shards or not w.pods) and w.pods < want and not w.deleting
        if w.pods or not situation.wanted.hibernate
    ]
    if not few:
        return None
    steps = tuple(
        ScaleWorkload(shard=w.shard, uid=w.uid, from_pods=w.pods, to_pods=want) for w in few
    )
    names = ", ".join(w.name for w in few)
    return Plan(
        rule="pods",
        why=f"fewer than {want} pods: StatefulSet {names}",
        stages=(steps,),
        phase=PlanPhase.SCALING if situation.observed.formed else PlanPhase.CREATING,
    )
