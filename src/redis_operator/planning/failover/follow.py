"""Servers that do not follow the primary: those that just started, and surplus primaries."""

from __future__ import annotations

from ..advice import Plan, PlanPhase
from ..observed import Seen
from .election import holds, same_history
from .tails import tail
from .topology import FailoverTopology, address

__all__ = ["follow", "limitation"]


def follow(topology: FailoverTopology) -> Plan | None:
    """Have every server follow the primary directly: no chains, no second primary. SE-07, SE-09

    While a sentinel fails over, it does this itself.
    """
    primary = topology.primary
    if primary is None:
        return None
    apart = [
        node
        for node in topology.seen
        if node.id != primary.id
        and not node.loading
        and not node.pod.deleting
        and node.replication.follows != address(primary)
    ]
    if not apart:
        return None
    phase = PlanPhase.HEALING if topology.observed.formed else PlanPhase.CREATING
    if topology.election:
        return Plan(rule="follow", blocked=(topology.election,), phase=phase, again_after=0.2)
    limits = {
        node.id: limitation(node, primary) or _kept_first(topology, node, primary) for node in apart
    }
    reasons = tuple(filter(None, limits.values()))
    steps = tuple(topology.follow_step(node, primary) for node in apart if not limits[node.id])
    names = ", ".join(node.pod.name for node in apart)
    dropped = [f"{n.pod.name} drops {lost}" for n in apart if (lost := tail(n, primary))]
    return Plan(
        rule="follow",
        why="; ".join([f"{names} must follow {primary.pod.name}", *dropped]),
        stages=(steps,) if steps else (),
        blocked=reasons,
        phase=phase,
        routine=all(_has_just_started(node) for node in apart),
    )


def _has_just_started(node: Seen) -> bool:
    """Whether a server has not followed a primary since it started: it is part of a change."""
    return not node.is_primary and node.replication.unlinked


def _kept_first(topology: FailoverTopology, node: Seen, primary: Seen) -> str | None:
    """Why a second primary waits: the rule `set_aside` keeps its writes first, or None. I1

    Its restart may be refused for now, and then this rule is asked.
    """
    lost = tail(node, primary) if topology.wanted.persistent else ""
    if not lost:
        return None
    return f"{node.pod.name} accepted {lost} and follows {primary.pod.name} once they are kept"


def limitation(node: Seen, primary: Seen) -> str | None:
    """Why a server may not drop its data for that of the primary, or None. I1"""
    if not holds(node) or same_history(node, primary):
        return None
    if not holds(primary):
        return (
            f"{node.pod.name} holds {node.keys} keys and {primary.pod.name} none: it does not "
            "follow an empty primary; make it the primary with the annotation "
            "redisoperator.dev/switch-primary-to, or delete its data"
        )
    return None
