"""Sentinels that have not heard of a replica: it could not be promoted without the operator."""

from __future__ import annotations

from ..advice import Phase, Plan
from ..observed import SentinelSeen
from .topology import FailoverTopology

__all__ = ["acquaint"]

_ASKED_MS = 500  # who begins to monitor asks the primary as soon as it is connected
_SOON_SECONDS = 0.1


def acquaint(topology: FailoverTopology) -> Plan | None:
    """Have sentinels ask the primary for its replicas now. SE-02, SE-06

    By themselves they do every ten seconds. A primary that dies silently before that is replaced
    by none of them: who is dead cannot be asked any more. No command has a sentinel ask at once but
    to begin again; one after the other does, while all are whole, so that the others know all that
    they knew. Before a database was whole once there is nothing to keep.
    """
    primary = topology.primary
    if primary is None or topology.election or topology.sentinels_unsettled():
        return None
    behind = [node for node in topology.watchers if topology.unheard_by(node)]
    if not behind:
        return None
    formed = topology.observed.formed
    phase = Phase.HEALING if formed else Phase.CREATING
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
    """Whether a sentinel has had the time to ask, and asks again in its own time only."""
    found = topology.monitored(node)
    return found is not None and found.known_ms >= _ASKED_MS
