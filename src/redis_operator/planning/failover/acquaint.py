"""Sentinels that do not know a replica: they could not promote it without the operator."""

from __future__ import annotations

from ..advice import Plan, PlanPhase
from ..observed import SentinelSeen
from .topology import FailoverTopology

__all__ = ["acquaint"]

_ASKED_MS = 500  # a sentinel that begins to monitor asks the primary as soon as it is connected
_SOON_SECONDS = 0.1


def acquaint(topology: FailoverTopology) -> Plan | None:
    """Have sentinels ask the primary for its replicas now. SE-02, SE-06

    By themselves they ask every ten seconds. If the primary stops responding before that, no
    sentinel can replace it, because a dead primary cannot be asked any more. There is no command
    that makes a sentinel ask at once except to monitor again; one sentinel after the other does so,
    while all are healthy, so that the others keep what they know. Before a database was complete
    for the first time there is nothing to keep.
    """
    primary = topology.primary
    if primary is None or topology.election or topology.sentinels_unsettled():
        return None
    behind = [node for node in topology.watchers if topology.unheard_by(node)]
    if not behind:
        return None
    formed = topology.observed.formed
    phase = PlanPhase.HEALING if formed else PlanPhase.CREATING
    asked = [node for node in behind if _has_asked(topology, node)]
    if not asked:
        return Plan(rule="acquaint", phase=phase, again_after=_SOON_SECONDS)
    chosen = asked[:1] if formed else asked
    names = ", ".join(node.pod.name for node in chosen)
    return Plan(
        rule="acquaint",
        why=f"{names} must discover all replicas of {primary.pod.name} at once",
        stages=(tuple(topology.watch_step(node, primary, afresh=True) for node in chosen),),
        phase=phase,
        urgent=True,
    )


def _has_asked(topology: FailoverTopology, node: SentinelSeen) -> bool:
    """Whether a sentinel has had the time to ask, and now asks only at its own interval."""
    found = topology.monitored(node)
    return found is not None and found.known_ms >= _ASKED_MS
