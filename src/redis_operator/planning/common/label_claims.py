"""Labels of the spec on volumes that exist already."""

from __future__ import annotations

from ..actions import LabelClaim
from ..advice import Plan, PlanPhase
from ..topology import Topology

__all__ = ["label_claims"]


def label_claims(situation: Topology) -> Plan | None:
    """Set the labels of `spec.storage.labels` that claims lack; new claims are created with them.

    A label that the spec no longer has stays: a person may have set it.
    """
    wanted = dict(situation.wanted.claim_labels)
    steps = tuple(
        LabelClaim(claim=volume.name, uid=volume.uid, labels=lacks)
        for volume in situation.observed.volumes
        if not volume.deleting
        and (lacks := tuple(sorted(wanted.items() - dict(volume.labels).items())))
    )
    if not steps:
        return None
    names = ", ".join(dict.fromkeys(name for step in steps for name, _ in step.labels))
    why = f"{len(steps)} claims lack labels of spec.storage.labels: {names}"
    return Plan(rule="label_claims", why=why, stages=(steps,), phase=PlanPhase.UPDATING)
