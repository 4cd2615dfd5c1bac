"""Slot owners that are gone with every copy of their data."""

from __future__ import annotations

from ..actions import Action, Forget, at
from ..advice import Loss, Phase, Plan
from ..observed import NodeId
from ..situation import Claim, Situation

__all__ = ["gone_owners", "lost"]


def lost(situation: Situation) -> Plan | None:
    """Report slots whose owner left no copy; forget the owner only when a person accepted that."""
    gone = gone_owners(situation)
    if not gone:
        return None
    losses = tuple(
        Loss(slots=claim.slots, why=f"{situation.name_of(claim.id)} and all its copies are gone")
        for claim in gone
    )
    if not situation.wanted.accept_data_loss:
        return Plan(rule="lost", losses=losses, phase=Phase.HEALING)
    outdated = tuple(
        f"{node.pod.name} has not heard yet that slots {more} of {situation.name_of(claim.id)} "
        "have another owner"
        for claim in gone
        for node in situation.by_id.values()
        if (view := situation.view(node, claim.id)) is not None
        and (more := view.slots - claim.slots)
    )
    if outdated:
        return Plan(rule="lost", losses=losses, blocked=outdated, phase=Phase.HEALING)
    steps: tuple[Action, ...] = tuple(
        Forget(node=at(node), id=claim.id, expect_slots=claim.slots)
        for claim in gone
        for node in situation.by_id.values()
        if situation.view(node, claim.id) is not None
    )
    return Plan(
        rule="lost",
        why="the loss was accepted: owners that will not come back are forgotten",
        stages=(steps,),
        losses=losses,
        phase=Phase.HEALING,
    )


def gone_owners(situation: Situation) -> list[Claim]:
    """Slot owners that no pod is, and that nobody follows any more.

    Sure only when every pod exists, answers, and says who it is. Until then the data may come
    back with a pod. I3, CL-21
    """
    if situation.strangers or situation.missing_pods or situation.twins:
        return []
    return [
        claim
        for claim in situation.claims
        if situation.pod_of(claim.id) is None
        and not situation.replicas_of(claim.id)
        and not _lives_elsewhere(situation, claim.id)
    ]


def _lives_elsewhere(situation: Situation, node: NodeId) -> bool:
    """Linked and healthy, only not in a pod of ours: not lost, but foreign."""
    return any(view.healthy for view in situation.others.get(node, ()))
