"""Sentinels that do not know each other, though the operator reaches both."""

from __future__ import annotations

from ..advice import Plan, PlanPhase
from ..at import at
from ..observed import SentinelSeen
from .actions import Introduce
from .topology import FailoverTopology, address

__all__ = ["introduce"]


def introduce(topology: FailoverTopology) -> Plan | None:
    """Introduce sentinels to those that do not know them yet. SE-14

    They announce themselves every two seconds; until then a new one cannot vote, and *Ready* waits.
    A sentinel that was reset while all others are healthy blocks nothing, and discovers them
    itself.
    """
    primary = topology.primary
    if primary is None or (topology.observed.formed and topology.is_whole_in_a_moment):
        return None
    here = [node for node in topology.watchers if _watches(topology, node)]
    missing = {
        node.pod.name: tuple(other for other in here if _is_new(topology, node, other))
        for node in here
    }
    if not any(missing.values()):
        return None
    steps = tuple(
        Introduce(
            node=at(node),
            name=topology.wanted.primary_name,
            primary=at(primary),
            others=tuple(at(other) for other in others),
        )
        for node in here
        if (others := missing[node.pod.name])
    )
    messages = [
        f"{name} has not heard of {', '.join(other.pod.name for other in others)}"
        for name, others in missing.items()
        if others
    ]
    return Plan(
        rule="introduce",
        why="; ".join(messages),
        stages=(steps,),
        phase=PlanPhase.HEALING if topology.observed.formed else PlanPhase.CREATING,
        urgent=True,
    )


def _watches(topology: FailoverTopology, node: SentinelSeen) -> bool:
    """Whether a sentinel monitors the primary, stays, and announces itself to the others."""
    found, primary = topology.monitored(node), topology.primary
    if found is None or primary is None or node.pod.deleting or found.in_the_past:
        return False
    return f"{found.ip}:{found.port}" == address(primary)


def _is_new(topology: FailoverTopology, node: SentinelSeen, other: SentinelSeen) -> bool:
    found = topology.monitored(node)
    known = found.sentinels if found is not None else ()
    return node is not other and all(one.id != str(other.id) for one in known)
