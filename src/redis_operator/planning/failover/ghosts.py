"""Servers and sentinels that are gone and that sentinels still count."""

from __future__ import annotations

from ..advice import Plan, PlanPhase
from ..at import at
from ..observed import SentinelSeen
from .actions import ResetSentinel
from .topology import PORT, FailoverTopology

__all__ = ["forget_replicas", "forget_sentinels"]


def forget_sentinels(topology: FailoverTopology) -> Plan | None:
    """Have sentinels forget those that are gone, one after the other, while all are healthy. I8

    A sentinel that is gone counts for the majority until it is forgotten. A sentinel that was reset
    must rediscover the others and all replicas before the next one is reset.
    """
    if topology.primary is None or topology.unsettled() is not None:
        return None
    for node in topology.watchers:
        gone = _gone_sentinels(topology, node)
        if gone:
            return _reset(topology, node, "forget_sentinels", gone)
    return None


def forget_replicas(topology: FailoverTopology) -> Plan | None:
    """The same for servers: a sentinel asks each every second, at an address that may be reused.

    This does no harm meanwhile, so it is not reported and comes after all changes: otherwise a roll
    would reset the sentinels once for every server.
    """
    if topology.primary is None or topology.unsettled() is not None:
        return None
    for node in topology.watchers:
        gone = _gone_replicas(topology, node)
        if gone:
            return _reset(topology, node, "forget_replicas", gone)
    return None


def _reset(topology: FailoverTopology, node: SentinelSeen, rule: str, gone: list[str]) -> Plan:
    assert topology.primary is not None
    name = topology.wanted.primary_name
    step = ResetSentinel(
        node=at(node),
        name=name,
        primary=at(topology.primary),
        others=topology.others_than(node),
    )
    return Plan(
        rule=rule,
        why=f"{node.pod.name} counts {', '.join(gone)}, which have no pod any more",
        stages=((step,),),
        phase=PlanPhase.UPDATING,
        urgent=True,
    )


def _gone_sentinels(topology: FailoverTopology, node: SentinelSeen) -> list[str]:
    """Sentinels that a sentinel knows and that have no pod."""
    found = topology.monitored(node)
    known = {watcher.id for watcher in topology.watchers}
    others = found.sentinels if found is not None else ()
    return [f"{other.ip}:{other.port}" for other in others if other.id not in known]


def _gone_replicas(topology: FailoverTopology, node: SentinelSeen) -> list[str]:
    """Replicas that a sentinel knows at addresses where the database has no server."""
    found = topology.monitored(node)
    pods = {f"{server.pod.ip}:{PORT}" for server in topology.observed.nodes}
    places = (f"{r.ip}:{r.port}" for r in (found.replicas if found is not None else ()))
    return [place for place in places if place not in pods]
