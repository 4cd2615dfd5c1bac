"""A second primary that accepted writes of its own: they are kept before it follows the primary.

The engine has no command that writes a snapshot under another name, and a server that follows drops
its files. So it is restarted: it saves its data, and its next start moves the files aside. It is
marked by a setting that has no effect on a primary; the script in its pod checks for it, and asks
the sentinels whether they name another server. Both must be so.
"""

from __future__ import annotations

from ..actions import ConfigSet, DeletePod
from ..advice import Plan, PlanPhase
from ..at import at
from ..identity import Role
from ..observed import Seen
from .follow import limitation
from .tails import tail
from .topology import FailoverTopology

__all__ = ["MARK", "set_aside"]

MARK = "7777"
"""The `replica-priority` of a primary whose files are moved aside at its next start."""


def set_aside(topology: FailoverTopology) -> Plan | None:
    """Keep the writes of a primary that the sentinels do not name, if it has a volume. SE-11, I1

    Its replicas follow the other primary first. One such server after the other: each restarts.
    """
    primary = topology.primary
    if primary is None or not topology.wanted.persistent or topology.election:
        return None
    for node in topology.primaries:
        writes = tail(node, primary)
        if node.id == primary.id or node.pod.deleting or not writes or limitation(node, primary):
            continue
        why = f"{node.pod.name} accepted {writes} beside the primary {primary.pod.name}"
        followers = topology.followers(node)
        if followers:
            steps = tuple(topology.follow_step(other, primary) for other in followers)
            return Plan(rule="set_aside", why=why, stages=(steps,), phase=PlanPhase.HEALING)
        if node.saving:
            waits = f"{why}; it is restarted once its append-only file is written"
            return Plan(
                rule="set_aside", blocked=(waits,), phase=PlanPhase.HEALING, again_after=1.0
            )
        return _restart(node, f"{why}; it is restarted and keeps its files aside")
    return None


def _restart(node: Seen, why: str) -> Plan:
    mark = ConfigSet(node=at(node), values=(("replica-priority", MARK),))
    step = DeletePod(
        pod=node.pod.name,
        uid=node.pod.uid,
        why=why,
        expect_id=node.id,
        expect_role=Role.PRIMARY,
    )
    return Plan(rule="set_aside", why=why, stages=((mark,), (step,)), phase=PlanPhase.HEALING)
