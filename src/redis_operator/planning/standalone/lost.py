"""The data of the one server is gone: report it, and hold or start empty as the spec says."""

from __future__ import annotations

from ...redis.slots import ALL_SLOTS
from ..actions import DeletePod
from ..advice import Loss, Plan, PlanPhase
from ..observed import Seen, Unreachable
from ..topology import Topology

__all__ = ["lost"]

_SOON_SECONDS = 0.5  # long enough that the status with the loss is written before the next pass


def lost(topology: Topology) -> Plan | None:
    """Report a server that came back without its data.

    In memory alone, the data of a process ends with it: another run id is a loss, whatever ended
    the process. On a volume, a server that finds its files gone does not start (`boot.sh`) until a
    person or the spec gives them up; then its pod is recreated and starts empty.
    """
    for node in topology.observed.nodes:
        if isinstance(node, Unreachable) and node.pod.data_missing:
            return _missing(topology, node)
        if isinstance(node, Seen) and _restarted_empty(topology, node):
            why = f"{node.pod.name} was restarted and keeps its data in memory only"
            return Plan(
                rule="lost",
                losses=(Loss(why=why, accepted=True),),
                phase=PlanPhase.HEALING,
                again_after=_SOON_SECONDS,
            )
    return None


def _restarted_empty(topology: Topology, node: Seen) -> bool:
    """Whether another process served when the status was last written, and nothing is on disk."""
    before = dict(topology.observed.recorded).get(node.pod.shard, "")
    return topology.wanted.volatile and bool(before) and before != node.id


def _missing(topology: Topology, node: Unreachable) -> Plan:
    accepted = topology.wanted.gives_up(ALL_SLOTS)
    why = f"the volume of {node.pod.name} does not hold the files that it had"
    losses = (Loss(why=why, accepted=accepted),)
    if not accepted or not node.dead:
        return Plan(rule="lost", losses=losses, phase=PlanPhase.HEALING)
    step = DeletePod(pod=node.pod.name, uid=node.pod.uid, why=why)
    return Plan(
        rule="lost",
        why=f"{why}; the loss is accepted: {node.pod.name} is recreated and starts empty",
        stages=((step,),),
        losses=losses,
        phase=PlanPhase.HEALING,
    )
