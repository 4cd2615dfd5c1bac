"""What no plan may do to the one server, whichever rule plans it."""

from __future__ import annotations

from ..actions import Action, DeletePod, ScaleWorkload
from ..common.follow_source import breaches
from ..failover.actions import FollowSource, Promote
from ..guards import Guards
from ..observed import Seen
from ..one_group import OneGroup
from ..topology import Topology

__all__ = ["GUARDS"]


def _of_step(topology: OneGroup, step: Action) -> list[str]:
    """Return every way in which one step would break an invariant."""
    match step:
        case FollowSource() | Promote():
            return breaches(topology, step)
        case DeletePod(uid=uid):
            node = next((n for n in topology.observed.nodes if n.pod.uid == uid), None)
            if node is None:
                return [f"I2: pod {step.pod} was not observed"]
            if isinstance(node, Seen) and node.saving:
                return [f"I1: {step.pod} is writing its append-only file and would be killed"]
            return _ended(topology, step.pod) if isinstance(node, Seen) and node.keys else []
        case ScaleWorkload(from_pods=before, to_pods=after) if after < before:
            holding = [n for n in topology.seen if n.keys]
            return _ended(topology, holding[0].pod.name) if holding else []
        case _:
            return []


def _of_stage(topology: Topology, stage: tuple[Action, ...]) -> list[str]:
    """One server never has two steps that could conflict."""
    del topology, stage
    return []


def _ended(topology: Topology, pod: str) -> list[str]:
    """Why a server that holds keys may not be ended: its keys would not come back. I1"""
    wanted = topology.wanted
    if wanted.persistent or wanted.restart_may_lose:
        return []
    return [f"I1: {pod} holds keys in memory only and would lose them"]


GUARDS = Guards(step=_of_step, stage=_of_stage)
