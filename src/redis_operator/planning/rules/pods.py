"""Enough pods, always first: more copies never hurt."""

from __future__ import annotations

from ..actions import ScaleWorkload
from ..advice import Phase, Plan
from ..situation import Situation

__all__ = ["pods"]


def pods(situation: Situation) -> Plan | None:
    """Scale up what has too few pods: after waking, and when replicas are added.

    A leaving shard that was put to sleep wakes too: what it still owns has to be moved first.
    """
    want = situation.wanted.pods_per_shard
    steps = tuple(
        ScaleWorkload(shard=w.shard, uid=w.uid, from_pods=w.pods, to_pods=want)
        for w in situation.observed.workloads
        if (w.shard < situation.wanted.shards or not w.pods) and w.pods < want and not w.deleting
    )
    if not steps:
        return None
    shards = ", ".join(str(step.shard) for step in steps)
    return Plan(
        rule="pods",
        why=f"shards {shards} have fewer than {want} pods",
        stages=(steps,),
        phase=Phase.SCALING if situation.observed.formed else Phase.CREATING,
    )
