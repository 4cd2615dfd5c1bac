"""Promote a replica of a dead primary without waiting for timeouts."""

from __future__ import annotations

from ...redis.slots import NO_SLOTS, SlotSet
from ..advice import ACCEPT_LOSS, Plan, PlanPhase
from ..at import at
from ..fence import Fence
from ..identity import NodeId
from ..observed import Evidence, Seen
from .actions import Failover, FailoverMode
from .election import best, can_be_elected
from .situation import Situation

__all__ = ["assist", "fence_of"]

_HEARS_SOON = 0.5
_BY_EVIDENCE = {
    Evidence.REFUSED: Fence.PROCESS_GONE,
    Evidence.TERMINATED: Fence.CONTAINER_ENDED,
    Evidence.NOT_STARTED: Fence.CONTAINER_ENDED,
}


def assist(situation: Situation) -> Plan | None:
    """Promote the best replica of each fenced dead primary, one shard at a time.

    With a majority of slot owners alive, FORCE asks them for votes, so that neither two operators
    nor an operator with an outdated cache can make two primaries. TAKEOVER needs no vote. It is
    used only when every slot owner that does not respond is dead and its data is gone with it, when
    a person gave up the data that it may still hold, or when the owners would refuse every vote
    because the replica never received its primary's last epoch. A server that does not respond is
    never considered dead: the engine's own timeouts deal with it. I2, I7, CL-01, CL-13, CL-14
    """
    gone = [claim.id for claim in situation.claims if claim.id not in situation.by_id]
    gone = [node for node in gone if node not in situation.duplicate_ids]
    if not gone:
        return None
    reasons, ready = [], []
    for node in gone:
        fence = fence_of(situation, node)
        if fence is None:
            reasons.append(_uncertain(situation, node))
            continue
        candidate, reason = best(situation, node)
        if candidate is None:
            reasons.append(reason)
            continue
        ready.append((candidate, node, fence))
    if not ready:
        # This is an outage: the obstacle may disappear at any moment.
        hopeful = any(situation.replicas_of(n) and not _is_silent(situation, n) for n in gone)
        soon = _HEARS_SOON if hopeful else None
        return Plan(
            rule="assist", blocked=tuple(reasons), phase=PlanPhase.HEALING, again_after=soon
        )
    candidate, node, fence = max(ready, key=lambda r: (r[0].replication.offset, r[0].id))
    mode = _mode(situation, gone)
    if mode is None:
        reasons.append(_no_majority(situation, gone))
        return Plan(rule="assist", blocked=tuple(reasons), phase=PlanPhase.HEALING)
    if not can_be_elected(situation, candidate, node):
        mode = FailoverMode.TAKEOVER
        unheard = _unheard_epoch(situation, candidate)
        if unheard:
            reasons.append(unheard)
            return Plan(
                rule="assist",
                blocked=tuple(reasons),
                phase=PlanPhase.HEALING,
                again_after=_HEARS_SOON,
            )
    pod = situation.pod_of(node)
    place = (pod.name, pod.uid) if pod is not None else ("", "")
    step = Failover(
        node=at(candidate),
        primary=node,
        mode=mode,
        fence=fence,
        min_offset=candidate.replication.offset,
        primary_pod=place[0],
        primary_uid=place[1],
        unseen=situation.unseen_pods,
    )
    return Plan(
        rule="assist",
        why=f"{situation.name_of(node)} is dead ({fence.value}); {candidate.pod.name} has its data",
        stages=((step,),),
        blocked=tuple(reasons),
        phase=PlanPhase.HEALING,
        urgent=True,
        # The dead primary may have been one end of a slot migration.
        count_strays_on=(*situation.key_holders, candidate.pod.name),
    )


def fence_of(situation: Situation, node: NodeId) -> Fence | None:
    """Why a slot owner that does not respond serves no client, or None when it might serve some.

    A pod that was not observed may still run: its label may be missing, or the cache may be late.
    It counts as gone only when no voter is linked with the server and the executor finds no such
    pod in the API. K-27
    """
    holder = situation.identities.get(node)
    if holder is not None:
        return _BY_EVIDENCE.get(holder.evidence)
    if any(not unknown.dead for unknown in situation.unidentified):
        return None
    return None if seen_healthy_by(situation, node) else Fence.POD_GONE


def seen_healthy_by(situation: Situation, node: NodeId) -> tuple[str, ...]:
    """Pods of the voters that are linked with a node and do not suspect it."""
    return tuple(
        voter.pod.name
        for voter in situation.voters
        if (view := situation.view(voter, node)) is not None and view.healthy
    )


def _is_silent(situation: Situation, node: NodeId) -> bool:
    """Whether a pod that may be this node neither responds nor refuses: only timeouts help."""
    return fence_of(situation, node) is None and not seen_healthy_by(situation, node)


def _mode(situation: Situation, gone: list[NodeId]) -> FailoverMode | None:
    if situation.has_majority:
        return FailoverMode.FORCE
    fences = [fence_of(situation, node) for node in gone]
    if None in fences:
        return None
    # Without a disk nothing can come back: the data ended with the processes.
    gone_for_good = Fence.POD_GONE not in fences or not situation.possible_holders
    if situation.wanted.volatile and gone_for_good:
        return FailoverMode.TAKEOVER
    accepted = _slots_of(situation, gone) <= situation.wanted.accepted_loss
    return FailoverMode.TAKEOVER if accepted else None


def _slots_of(situation: Situation, owners: list[NodeId]) -> SlotSet:
    slots = NO_SLOTS
    for owner in owners:
        slots |= situation.owned[owner]
    return slots


def _unheard_epoch(situation: Situation, candidate: Seen) -> str | None:
    """Why no server would accept a takeover now: its epoch would not be the highest.

    A server that takes over without votes takes the next epoch that it knows of. Servers send each
    other their epochs every second. I14
    """
    highest = max((peer.config_epoch for peer in situation.views.distinct), default=0)
    if candidate.current_epoch < highest:
        return f"{candidate.pod.name} has not heard of epoch {highest} yet"
    return None


def _uncertain(situation: Situation, node: NodeId) -> str:
    holder = situation.identities.get(node)
    if holder is not None:
        return f"{holder.pod.name} does not respond and may be alive: {holder.error}"
    if linked := seen_healthy_by(situation, node):
        return (
            f"{situation.name_of(node)} owns slots and was not observed in any pod, "
            f"but {linked[0]} is linked with it, so it is not failed over"
        )
    names = ", ".join(s.pod.name for s in situation.unidentified if not s.dead)
    return f"{situation.name_of(node)} owns slots and may be {names}, which does not respond"


def _no_majority(situation: Situation, gone: list[NodeId]) -> str:
    return (
        f"only {len(situation.voters)} of {len(situation.claims)} slot owners respond, "
        f"{situation.quorum} are needed to elect a primary; "
        "the others may come back. If they will not, let replicas take over with what they have, "
        "once every lost primary is known to be dead: annotate the database with "
        f"{ACCEPT_LOSS}={_slots_of(situation, gone)}"
    )
