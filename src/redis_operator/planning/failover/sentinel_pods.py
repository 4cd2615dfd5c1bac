"""Pods of the sentinels: the wanted number, replaced one at a time, always with a majority."""

from __future__ import annotations

from ..actions import DeletePod, ScaleWorkload
from ..advice import Plan, PlanPhase
from ..common.roll import is_stuck, outdated
from ..common.wait import unobserved
from ..observed import SentinelNode, Unreachable
from ..reporting.degradations import memory_kill
from .topology import FailoverTopology

__all__ = ["replace_sentinel", "roll_sentinels", "sentinel_pods", "shrink_sentinels"]


def sentinel_pods(topology: FailoverTopology) -> Plan | None:
    """Scale the sentinels up: after hibernation, and when more are wanted."""
    found, wanted = topology.observed.sentinel_workload, topology.wanted.sentinels
    if found is None or found.deleting or found.pods >= wanted:
        return None
    step = ScaleWorkload(shard=found.shard, uid=found.uid, from_pods=found.pods, to_pods=wanted)
    return Plan(
        rule="sentinel_pods",
        why=f"fewer than {wanted} pods: StatefulSet {found.name}",
        stages=((step,),),
        phase=PlanPhase.SCALING if topology.observed.formed else PlanPhase.CREATING,
    )


def replace_sentinel(topology: FailoverTopology) -> Plan | None:
    """Recreate sentinels whose clocks were set far back, one by one, while all others are healthy.

    Such a sentinel would not act until its clock has caught up; one that has just started has no
    past. Those that do not act are no part of any majority, so they do not wait for each other. I8
    """
    stuck = [n for n in topology.watchers if (m := topology.monitored(n)) and m.in_the_past]
    if not stuck or topology.primary is None:
        return None
    staying = [node for node in stuck if not node.pod.deleting]
    first = staying[0] if staying else stuck[0]
    why = f"{first.pod.name} is inactive since its clock was set back"
    reason = topology.others_unsettled(staying)
    if reason:
        blocked = (f"{why}; it is recreated when the others are whole: {reason}",)
        return Plan(
            rule="replace_sentinel", blocked=blocked, phase=PlanPhase.HEALING, again_after=1.0
        )
    step = DeletePod(pod=first.pod.name, uid=first.pod.uid, why=why)
    return Plan(
        rule="replace_sentinel",
        why=f"{why}; it is recreated",
        stages=((step,),),
        phase=PlanPhase.HEALING,
    )


def roll_sentinels(topology: FailoverTopology) -> Plan | None:
    """Replace outdated sentinels one by one, before any server is restarted. SE-14

    Each is replaced only while all others monitor the primary, so that there is always a majority,
    and while no server is being recreated: one disruption at a time. The roll stops at the first
    new sentinel that is killed for memory. An outdated server that does not run holds nothing up
    and is replaced meanwhile: the new revision may be what it needs.
    """
    if topology.leaves_mode:
        return None
    old = [node for node in topology.observed.sentinels if _outdated(topology, node)]
    servers = [node for node in topology.observed.nodes if outdated(topology, node.pod)]
    unknown = unobserved(topology.observed.sentinel_workload)
    if topology.wanted.update_paused:
        held = f"{_count(old)}; spec.update.paused is set"
        return (
            Plan(rule="roll_sentinels", blocked=(held,), phase=PlanPhase.UPDATING) if old else None
        )
    final = not any(is_stuck(topology, node) for node in servers)
    if unknown and servers:
        # 1. One edit changes both templates. 2. The controller acts on the servers first.
        # 3. No sentinel is outdated yet, and a server would be restarted beside the first sentinel.
        return Plan(
            rule="roll_sentinels", blocked=(unknown,), phase=PlanPhase.UPDATING, final=final
        )
    if not old:
        return None
    stuck = [node for node in old if isinstance(node, Unreachable) and node.dead]
    reason = topology.recreated_server or topology.unfinished or _killed(topology)
    if reason and not stuck:
        return Plan(
            rule="roll_sentinels",
            blocked=(f"{_count(old)}; {reason}",),
            phase=PlanPhase.UPDATING,
            again_after=0.5,
            final=final,
        )
    first = stuck[0] if stuck else old[-1]
    step = DeletePod(pod=first.pod.name, uid=first.pod.uid, why=_count(old))
    return Plan(
        rule="roll_sentinels",
        why=f"{_count(old)}; {first.pod.name} is recreated",
        stages=((step,),),
        blocked=topology.overdue_servers,
        phase=PlanPhase.UPDATING,
    )


def _count(old: list[SentinelNode]) -> str:
    return f"{len(old)} sentinels are of an old revision"


def _killed(topology: FailoverTopology) -> str | None:
    """Name a new sentinel that was killed for memory: it responds only between two kills."""
    new = (node.pod for node in topology.observed.sentinels if not _outdated(topology, node))
    return next(filter(None, (memory_kill(pod, topology.now) for pod in new)), None)


def _outdated(topology: FailoverTopology, node: SentinelNode) -> bool:
    found, pod = topology.observed.sentinel_workload, node.pod
    if found is None or not found.revision or pod.deleting:
        return False
    return pod.ordinal < topology.wanted.sentinels and pod.revision != found.revision


def shrink_sentinels(topology: FailoverTopology) -> Plan | None:
    """Remove sentinels that are not wanted any more, last first, while all others are settled.

    A sentinel that is not wanted and does not respond blocks nothing, as long as those that respond
    are a majority of all.
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
            phase=PlanPhase.SCALING,
            again_after=1,
        )
    step = ScaleWorkload(
        shard=found.shard, uid=found.uid, from_pods=found.pods, to_pods=found.pods - 1
    )
    return Plan(rule="shrink_sentinels", why=why, stages=((step,),), phase=PlanPhase.SCALING)


def _gone(node: SentinelNode, wanted: int) -> bool:
    return node.pod.ordinal >= wanted and isinstance(node, Unreachable)
