"""Shards that the spec does not want any more."""

from __future__ import annotations

from ..actions import Action, DeleteWorkload
from ..advice import Plan, PlanPhase
from ..at import at
from ..common.saving import unsaved
from ..observed import Seen
from .actions import Forget
from .situation import Situation

__all__ = ["leave"]


def leave(situation: Situation) -> Plan | None:
    """Forget the drained nodes on all servers, then delete their pods.

    A leaving shard is judged by the answers of its servers, not by names: the slots and keys of its
    pods are moved first, and every server that stays follows one that stays. The nodes are
    forgotten first and by all servers at once, so that no server takes the end of the pods for a
    failure. I3, I11, K-05, CL-07
    """
    shards = [w for w in situation.observed.workloads if w.shard >= situation.wanted.shards]
    for workload in sorted(shards, key=lambda w: -w.shard):
        reasons = _limitations(situation, workload.shard)
        if reasons:
            messages = tuple(f"shard {workload.shard} cannot be removed yet: {r}" for r in reasons)
            holding = any(n.pod.shard == workload.shard for n in situation.uncounted)
            return Plan(
                rule="leave",
                blocked=messages,
                phase=PlanPhase.SCALING,
                count_strays_on=situation.to_count if holding else (),
            )
        stages = [_forget_all(situation, workload.shard)]
        stages.append((DeleteWorkload(shard=workload.shard, uid=workload.uid),))
        return Plan(
            rule="leave",
            why=f"shard {workload.shard} owns no slots and is not in the spec",
            stages=tuple(stage for stage in stages if stage),
            phase=PlanPhase.SCALING,
        )
    return None


def _limitations(situation: Situation, shard: int) -> list[str]:
    reasons: list[str] = []
    if situation.unidentified or situation.possible_owners:
        reasons.append("a pod does not respond and may hold its data")
    reasons += situation.unfinished_moves[:1]
    saving = unsaved(situation, shard)
    if saving:
        reasons.append(saving)
    for node in situation.pods_of(shard):
        if not isinstance(node, Seen):
            reasons.append(f"{node.pod.name} does not respond: {node.pod.waiting or node.error}")
        elif node.id in situation.owned or node.slots:
            reasons.append(f"{node.pod.name} owns slots")
        elif node.is_primary and node.keys:
            reasons.append(f"{node.pod.name} holds {node.keys} keys")
        else:
            reasons += [
                f"{follower.pod.name} still follows {node.pod.name}"
                for follower in situation.replicas_of(node.id)
                if not situation.leaving(follower.pod)
            ]
    return reasons


def _forget_all(situation: Situation, shard: int) -> tuple[Action, ...]:
    removed = [n.id for n in situation.by_id.values() if n.pod.shard == shard]
    staying = [n for n in situation.by_id.values() if n.pod.shard != shard]
    return tuple(
        Forget(node=at(node), id=gone)
        for gone in removed
        for node in staying
        if situation.view(node, gone) is not None
    )
