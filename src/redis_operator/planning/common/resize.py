"""Pods whose resources alone changed: they are resized in place."""

from __future__ import annotations

from ..actions import ResizePod
from ..advice import Plan, PlanPhase
from ..observed import Node, Pod, Seen
from ..sizes import lowered_too_far
from ..topology import Topology

__all__ = ["differs_in_size_alone", "resizable", "resize"]

_INFEASIBLE = "Infeasible"


def resize(situation: Topology) -> Plan | None:
    """Resize pods without a restart if the cluster supports it, replicas first, one at a time.

    Memory is added before maxmemory goes up, and removed after it went down. A pod that cannot be
    resized in place, or whose resize the API server refuses, is rolled like any other.
    """
    if situation.wanted.update_paused:
        return None
    differing = [n for n in situation.observed.nodes if resizable(situation, n.pod)]
    waiting = [n.pod for n in situation.observed.nodes if n.pod.resizing and not _stuck(n.pod)]
    if waiting:
        message = f"{waiting[0].name} is being resized: {waiting[0].resizing}"
        return Plan(rule="resize", blocked=(message,), phase=PlanPhase.UPDATING, again_after=1.0)
    if not differing:
        return None
    reason = lowered_too_far(situation.wanted, situation.observed)
    if reason:
        return Plan(rule="resize", blocked=(reason,), phase=PlanPhase.UPDATING)
    first = min(differing, key=_order)
    workload = situation.workload(first.pod.shard)
    assert workload is not None
    count = f"{len(differing)} pods have other resources than the spec"
    step = ResizePod(pod=first.pod.name, uid=first.pod.uid, resources=workload.resources)
    return Plan(
        rule="resize",
        why=f"{count}; {first.pod.name} gets them while it runs",
        stages=((step,),),
        phase=PlanPhase.UPDATING,
    )


def differs_in_size_alone(situation: Topology, pod: Pod) -> bool:
    """Whether the workload would create this pod the same way except for its resources."""
    workload = situation.workload(pod.shard)
    return workload is not None and bool(pod.shape) and pod.shape == workload.shape


def resizable(situation: Topology, pod: Pod) -> bool:
    """Whether a pod can get the workload's resources without being recreated.

    A resource that is added or removed would change more than a size; the API refuses it.
    """
    workload = situation.workload(pod.shard)
    if workload is None or not differs_in_size_alone(situation, pod) or _stuck(pod):
        return False
    if not situation.observed.can_resize or pod.uid in situation.observed.resize_refused:
        return False
    if pod.deleting or situation.leaving(pod) or pod.resources == workload.resources:
        return False
    return [name for name, _ in pod.resources] == [name for name, _ in workload.resources]


def _stuck(pod: Pod) -> bool:
    """Whether its node will never have room for it: another node may."""
    return pod.resizing.startswith(_INFEASIBLE)


def _order(node: Node) -> tuple[bool, int, int]:
    return (isinstance(node, Seen) and node.is_primary, node.pod.shard, -node.pod.ordinal)
