"""Role labels follow the roles, so that Services do."""

from __future__ import annotations

from ..actions import Action, LabelPod, LabelRole
from ..observed import Role
from ..situation import Situation

__all__ = ["label"]


def label(situation: Situation) -> tuple[Action, ...]:
    """Label primaries that own slots and replicas; an empty primary is neither and keeps its own.

    Rides along with every plan: a label never waits for a repair, and repairs nothing itself. Of
    two who claim the same slots only the one with the higher epoch is called primary. A pod that
    lost the labels by which it is found gets them back. K-18, K-27
    """
    if situation.wanted.paused:
        return ()
    steps: list[Action] = [
        LabelPod(pod=found.pod, uid=found.uid, labels=found.lacks)
        for found in situation.observed.unlabelled
    ]
    for node in situation.by_id.values():
        role = Role.PRIMARY if node.id in situation.owned else Role.REPLICA
        if node.is_primary and role is Role.REPLICA and node.pod.role_label == "":
            continue
        if node.pod.role_label != role.value and not node.pod.deleting:
            steps.append(LabelRole(pod=node.pod.name, uid=node.pod.uid, role=role))
    return tuple(steps)
