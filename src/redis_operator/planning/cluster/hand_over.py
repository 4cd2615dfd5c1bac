"""The planned switchover that several rules ask for: no acknowledged write is lost."""

from __future__ import annotations

from collections.abc import Iterable

from ..advice import Plan, PlanPhase
from ..at import at
from ..fence import Fence
from ..observed import Seen
from .actions import Failover, FailoverMode
from .election import limitation, ranked, unsynced
from .situation import Situation

__all__ = ["hand_over"]


def hand_over(
    situation: Situation,
    primary: Seen,
    *,
    rule: str,
    why: str,
    phase: PlanPhase,
    among: Iterable[Seen],
) -> Plan:
    """Promote the best of the given replicas, or say why none can be promoted. I5, I6

    The primary pauses its writes, the replica reaches its offset, a majority votes. The reply OK
    does not mean success: the next observation shows which server is primary. CL-22
    """
    allowed = {replica.id for replica in among}
    reasons = list(situation.unfinished_moves[:1])
    if primary.id not in situation.owned:
        reasons.append(f"{primary.pod.name} owns no slots: there is nothing to take over")
    if not situation.has_majority:
        reasons.append("no majority of slot owners responds")
    for replica in ranked(situation, primary.id):
        if reasons or replica.id not in allowed:
            continue
        reason = (
            unsynced(replica, primary)
            or _of_another(situation, replica, primary)
            or limitation(situation, replica, primary.id)
        )
        if reason:
            reasons.append(reason)
            continue
        step = Failover(
            node=at(replica),
            primary=primary.id,
            mode=FailoverMode.PLAIN,
            fence=Fence.HANDSHAKE,
            primary_pod=primary.pod.name,
        )
        return Plan(
            rule=rule,
            why=f"{why}; {replica.pod.name} takes over from {primary.pod.name}",
            stages=((step,),),
            phase=phase,
        )
    messages = reasons or [f"{primary.pod.name} has no replica that could take over"]
    return Plan(
        rule=rule,
        blocked=tuple(f"{why}; {reason}" for reason in messages),
        phase=phase,
        again_after=1.0,
    )


def _of_another(situation: Situation, replica: Seen, primary: Seen) -> str | None:
    """Say whose data a replica holds, if not its primary's: it began to follow that one late."""
    for other in situation.voters:
        if other.id != primary.id and other.replication.id == replica.replication.id:
            return f"{replica.pod.name} still holds the data of {other.pod.name}"
    return None
