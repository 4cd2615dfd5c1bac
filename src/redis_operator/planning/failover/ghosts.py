"""Servers and sentinels that are gone, and that sentinels still count."""

from __future__ import annotations

from ..actions import ResetSentinel, at
from ..advice import Phase, Plan
from ..observed import SentinelSeen
from .topology import PORT, FailoverTopology

__all__ = ["forget_ghosts", "ghosts"]


def forget_ghosts(topology: FailoverTopology) -> Plan | None:
    """Have sentinels forget what has no pod any more, one after the other, while all is whole.

    A sentinel that is gone counts for the majority for ever; a server that is gone is asked after
    each second, and its address may be another database's by now. A sentinel that was reset has to
    find the others again before the next one is. I8
    """
    primary = topology.primary
    if primary is None or topology.unsettled() is not None:
        return None
    for node in topology.watchers:
        found = ghosts(topology, node)
        waits = topology.unready_watcher() if found else None
        if waits:
            return Plan(rule="forget_ghosts", blocked=(waits,), phase=Phase.UPDATING, again_after=1)
        if found:
            step = ResetSentinel(
                node=at(node), name=topology.wanted.primary_name, primary=at(primary)
            )
            return Plan(
                rule="forget_ghosts",
                why=f"{node.pod.name} counts {', '.join(found)}, which have no pod any more",
                stages=((step,),),
                phase=Phase.UPDATING,
            )
    return None


def ghosts(topology: FailoverTopology, node: SentinelSeen) -> list[str]:
    """Addresses that a sentinel knows and where no pod of the database is."""
    found = topology.monitored(node)
    if found is None:
        return []
    pods = {f"{n.pod.ip}:{PORT}" for n in topology.observed.nodes}
    known = {watcher.id for watcher in topology.watchers}
    gone = [f"{r.ip}:{r.port}" for r in found.replicas if f"{r.ip}:{r.port}" not in pods]
    return gone + [f"{s.ip}:{s.port}" for s in found.sentinels if s.id not in known]
