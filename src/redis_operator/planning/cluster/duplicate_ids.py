"""Two pods with one node id."""

from __future__ import annotations

from collections.abc import Sequence

from ..advice import Plan, PlanPhase
from ..at import at
from ..identity import NodeId
from ..observed import Seen
from .actions import ResetEmptyNode
from .situation import Situation

__all__ = ["duplicate_ids"]


def duplicate_ids(situation: Situation) -> Plan | None:
    """Reset the empty one of two pods with the same node id; if both hold data, change neither.

    A cloned volume brings its node id along, and the address of that id then flaps between two
    pods. Only a pod without a single key may be reset, and only if the other one is not leaving.
    The rest of the database is repaired without them. I1, I3, I11, CL-25
    """
    if not situation.duplicate_ids:
        return None
    steps, blocked = [], []
    for node in sorted(situation.duplicate_ids):
        pair = [seen for seen in situation.seen if seen.id == node]
        resettable = _resettable(situation, node, pair)
        names = " and ".join(seen.pod.name for seen in pair)
        if resettable is None:
            blocked.append(
                f"{names} both report node id {node[:8]} and hold data: remove the cloned volume"
            )
        else:
            steps.append(ResetEmptyNode(node=at(resettable)))
    if steps:
        return Plan(
            rule="duplicate_ids",
            why="an empty pod has the identity of another one",
            stages=(tuple(steps),),
            blocked=tuple(blocked),
            phase=PlanPhase.HEALING,
        )
    return Plan(rule="duplicate_ids", blocked=tuple(blocked), phase=PlanPhase.HEALING)


def _resettable(situation: Situation, node: NodeId, pair: Sequence[Seen]) -> Seen | None:
    """The pod that may be reset: empty, while the other one holds keys or is where peers see it."""
    empty = [seen for seen in pair if not seen.keys and not seen.loading]
    if len(empty) < len(pair):
        return empty[0] if empty else None
    known = {
        view.ip
        for seen in situation.by_id.values()
        if (view := situation.view(seen, node)) is not None
    }
    away = [seen for seen in pair if seen.pod.ip not in known]
    return away[0] if away and len(away) < len(pair) else pair[-1]
