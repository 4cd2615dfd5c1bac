"""Keep the role labels, which Services select by, in line with the roles."""

from __future__ import annotations

from ..actions import Action, LabelPod, LabelRole
from ..identity import Role
from ..observed import Node
from ..topology import Topology

__all__ = ["label"]


def label(situation: Topology) -> tuple[Action, ...]:
    """Label every server with the role that its mode gives it.

    Part of every plan: a label never waits for a repair, and repairs nothing itself. A pod that
    lost the labels by which it is found gets them back. K-18, K-27
    """
    if situation.wanted.paused:
        return ()
    steps: list[Action] = [
        LabelPod(pod=found.pod, uid=found.uid, labels=found.lacks)
        for found in situation.observed.unlabelled
    ]
    roles: list[tuple[Node, Role | None]] = [
        *((node, situation.role_of(node)) for node in situation.by_id.values()),
        *((node, situation.role_of_unreachable(node)) for node in situation.unreachable),
    ]
    for node, role in roles:
        if role is None:
            continue
        if node.pod.role_label != role.value and not node.pod.deleting:
            steps.append(LabelRole(pod=node.pod.name, uid=node.pod.uid, role=role))
    return tuple(steps)
