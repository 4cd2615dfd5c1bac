"""Primaries where people, drains and zones want them."""

from __future__ import annotations

from collections import Counter

from ..advice import Plan, PlanPhase
from ..observed import Seen
from ..topology import Topology

__all__ = ["SPREAD_SECONDS", "drain", "spread", "switch"]

SPREAD_SECONDS = 60.0


def switch(situation: Topology) -> Plan | None:
    """Make the pod that a person named the primary of its shard; done once it is."""
    request = situation.wanted.switchover
    if request is None:
        return None
    node = next((n for n in situation.seen if n.pod.name == request.pod), None)
    if node is None:
        known = any(n.pod.name == request.pod for n in situation.observed.nodes)
        why = "does not respond" if known else "is not a server of this database"
        return Plan(rule="switch", blocked=(f"{request.pod} was requested as primary and {why}",))
    primary = situation.primary_of(node)
    if primary is None:
        return Plan(
            rule="switch", blocked=(f"{request.pod} does not follow a primary that responds",)
        )
    if primary.id == node.id:
        return None
    return situation.hand_over(
        primary,
        rule="switch",
        why=f"{request.pod} was requested as primary",
        phase=PlanPhase.UPDATING,
        among=[node],
    )


def drain(situation: Topology) -> Plan | None:
    """Switch over from primaries that are being deleted or whose node is drained. CL-19, SE-01

    A primary whose pod is being deleted serves until its replica leads: a replica that will also
    have to move is better than none.
    """
    going = [n for n in situation.serving if n.pod.deleting]
    going += [n for n in situation.serving if n.pod.draining and not n.pod.deleting]
    waiting: Plan | None = None
    for node in going:
        gone = node.pod.deleting
        among = [
            replica
            for replica in situation.followers(node)
            if not replica.pod.deleting and (gone or not replica.pod.draining)
        ]
        if not situation.followers(node) or not (gone or among):
            continue  # no replica has a better place: the primary stays where it is
        why = f"{node.pod.name} is being deleted" if gone else f"{node.pod.node} is being drained"
        advice = situation.hand_over(
            node, rule="drain", why=why, phase=PlanPhase.UPDATING, among=among
        )
        if advice.stages:
            return advice
        waiting = waiting or advice
    return waiting


def spread(situation: Topology) -> Plan | None:
    """Distribute primaries evenly over zones once all is settled, at most one a minute.

    Settled means a minute without an election and without a server that has just started.
    """
    if not situation.wanted.spread_primaries or situation.unsettled():
        return None
    moments = [election.at for election in situation.observed.elections]
    last = max((*moments, *(node.started_at for node in situation.seen)), default=0.0)
    if situation.now - last < SPREAD_SECONDS:
        return None
    zones = Counter({node.pod.zone: 0 for node in situation.seen if _may_lead(node)})
    zones.update(node.pod.zone for node in situation.serving if node.pod.zone)
    for node in situation.serving:
        target = _emptier_zone(situation, node, zones)
        if target is None:
            continue
        advice = situation.hand_over(
            node,
            rule="spread",
            why=f"zone {node.pod.zone} has {zones[node.pod.zone]} primaries, "
            f"{target} has {zones[target]}",
            phase=PlanPhase.UPDATING,
            among=[r for r in situation.followers(node) if r.pod.zone == target and _may_lead(r)],
        )
        return advice if advice.stages else None
    return None


def _may_lead(node: Seen) -> bool:
    """Whether a primary could stay where this server is: its node is not being drained."""
    return bool(node.pod.zone) and not node.pod.draining and not node.pod.deleting


def _emptier_zone(situation: Topology, node: Seen, zones: Counter[str]) -> str | None:
    near = {
        r.pod.zone
        for r in situation.followers(node)
        if r.pod.shard == node.pod.shard and _may_lead(r)
    }
    better = [zone for zone in near if zones[node.pod.zone] - zones[zone] >= 2]
    return min(better, key=lambda zone: (zones[zone], zone), default=None)
