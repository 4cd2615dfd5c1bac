"""Pods of the sentinels: as many as wanted, replaced one at a time, a majority always there."""

from __future__ import annotations

from ..actions import DeletePod, ScaleWorkload
from ..advice import Phase, Plan
from ..observed import SentinelNode, Unreachable
from .topology import FailoverTopology

__all__ = ["replace_sentinel", "roll_sentinels", "sentinel_pods", "shrink_sentinels"]


def sentinel_pods(topology: FailoverTopology) -> Plan | None:
    """Scale the sentinels up: after waking, and when more are wanted."""
    found, wanted = topology.observed.sentinel_workload, topology.wanted.sentinels
    if found is None or found.deleting or found.pods >= wanted:
        return None
    step = ScaleWorkload(shard=found.shard, uid=found.uid, from_pods=found.pods, to_pods=wanted)
    return Plan(
        rule="sentinel_pods",
        why=f"fewer than {wanted} pods: StatefulSet {found.name}",
        stages=((step,),),
        phase=Phase.SCALING if topology.observed.formed else Phase.CREATING,
    )


def replace_sentinel(topology: FailoverTopology) -> Plan | None:
    """Recreate a sentinel whose clock was set far back, while all others are whole. I8

    It would be of no use until its clock has caught up; one that has just started knows no past.
    """
    stuck = [n for n in topology.watchers if (m := topology.monitored(n)) and m.in_the_past]
    if not stuck or topology.primary is None:
        return None
    first = stuck[0]
    why = f"{first.pod.name} is inactive since its clock was set back"
    reason = topology.others_unsettled((first,))
    if reason:
        blocked = (f"{why}; it is recreated when the others are whole: {reason}",)
        return Plan(rule="replace_sentinel", blocked=blocked, phase=Phase.HEALING, again_after=1.0)
    step = DeletePod(pod=first.pod.name, uid=first.pod.uid, why=why)
    return Plan(
        rule="replace_sentinel",
        why=f"{why}; it is recreated",
        stages=((step,),),
        phase=Phase.HEALING,
    )


def roll_sentinels(topology: FailoverTopology) -> Plan | None:
    """Replace outdated sentinels one by one, before any server is touched. SE-14

    Each only while all others watch the primary: a majority is there at every moment.
    """
    old = [node for node in topology.observed.sentinels if _outdated(topology, node)]
    if not old or topology.leaves_mode:
        return None
    count = f"{len(old)} sentinels are of an old revision"
    if topology.wanted.update_paused:
        held = f"{count}; spec.update.paused is set"
        return Plan(rule="roll_sentinels", blocked=(held,), phase=Phase.UPDATING)
    stuck = [node for node in old if isinstance(node, Unreachable) and node.dead]
    reason = topology.unfinished
    if reason and not stuck:
        return Plan(
            rule="roll_sentinels",
            blocked=(f"{count}; {reason}",),
            phase=Phase.UPDATING,
            again_after=0.5,
            final=True,
        )
    first = stuck[0] if stuck else old[-1]
    step = DeletePod(pod=first.pod.name, uid=first.pod.uid, why=count)
    return Plan(
        rule="roll_sentinels",
        why=f"{count}; {first.pod.name} is recreated",
        stages=((step,),),
        phase=Phase.UPDATING,
    )


def _outdated(topology: FailoverTopology, node: SentinelNode) -> bool:
    found, pod = topology.observed.sentinel_workload, node.pod
    if found is None or not found.revision or pod.deleting:
        return False
    return pod.ordinal < topology.wanted.sentinels and pod.revision != found.revision


def shrink_sentinels(topology: FailoverTopology) -> Plan | None:
    """Remove sentinels that are not wanted any more, the last first, while all others are at rest.

    One that is not wanted and does not respond holds nothing up, as long as those that do are a
    majority of all.
    """
    found, wanted = topology.observed.sentinel_workload, topology.wanted.sentinels
    if found is None or found.deleting or found.pods <= wanted:
        return None
    why = f"{found.pods} sentinels, {wanted} wanted"
    gone = [node for node in topology.observed.sentinels if _gone(node, wanted)]
    reason = topology.others_unsettled(gone)
    last = next((n for n in topology.watchers if n.pod.ordinal == found.pods - 1), None)
    left = len(topology.watchers) - (last is not None)
    if gone and last is not None and 2 * left <= len(topology.observed.sentinels):
        reason = reason or f"{gone[0].pod.name} does not respond, and a majority must"
    if reason:
        return Plan(
            rule="shrink_sentinels",
            blocked=(f"{why}; {reason}",),
            phase=Phase.SCALING,
            again_after=1,
        )
    step = ScaleWorkload(
        shard=found.shard, uid=found.uid, from_pods=found.pods, to_pods=found.pods - 1
    )
    return Plan(rule="shrink_sentinels", why=why, stages=((step,),), phase=Phase.SCALING)


def _gone(node: SentinelNode, wanted: int) -> bool:
    return node.pod.ordinal >= wanted and isinstance(node, Unreachable)
