"""Enough pods, always first: more copies never hurt."""

from __future__ import annotations

from ..actions import ScaleWorkload
from ..advice import Phase, Plan
from ..topology import Topology

__all__ = ["pods"]


def pods(situation: Topology) -> Plan | None:
    """Scale up what has too few pods: after waking, and when replicas are added.

    A leaving shard that was put to sleep wakes too: what it still owns has to be moved first.
    """
    want = situation.wanted.pods_per_shard
    few = [
        w
        for w in situation.observed.workloads
        if (w.shard < situation.wanted.shards or not w.pods) and w.pods < want and not w.deleting
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
        phase=Phase.SCALING if situation.observed.formed else Phase.CREATING,
    )
