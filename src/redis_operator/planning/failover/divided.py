"""Sentinels that respond to the operator and do not reach each other, or a server. Pure.

They would be of no use without the operator: no majority of them could agree, or none could promote
the replica. A planned switchover does not need them for that, and is not held up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..observed import SentinelSeen
from ..sentinels import Monitored, SentinelFlag

if TYPE_CHECKING:
    from .topology import FailoverTopology

__all__ = ["divided"]


def divided(topology: FailoverTopology) -> str | None:
    """Return which sentinel does not reach another one or a replica, or None. SE-14, SE-15"""
    for node in topology.watchers:
        found = topology.monitored(node)
        reason = found and (
            _of_sentinels(topology, node, found) or _of_servers(topology, node, found)
        )
        if reason:
            return reason
    return None


def _of_sentinels(topology: FailoverTopology, node: SentinelSeen, found: Monitored) -> str | None:
    """A sentinel that was recreated has another address: the others hear of it within seconds."""
    pods = {str(watcher.id): watcher.pod for watcher in topology.watchers}
    for other in found.sentinels:
        pod = pods.get(other.id)
        if pod is None:
            continue  # it is gone, and forgotten later
        if other.ip != pod.ip:
            return f"{node.pod.name} looks for {pod.name} at {other.ip}, and its pod is at {pod.ip}"
        if SentinelFlag.S_DOWN in other.flags:
            return (
                f"{node.pod.name} does not reach {pod.name} at {other.ip}:{other.port}: without "
                "the operator the sentinels may not agree on a primary"
            )
    return None


def _of_servers(topology: FailoverTopology, node: SentinelSeen, found: Monitored) -> str | None:
    down = {r.ip: r for r in found.replicas if SentinelFlag.S_DOWN in r.flags}
    for server in topology.seen:
        if server.pod.ip in down and topology.out_of_sync(server) is None:
            return (
                f"{node.pod.name} does not reach {server.pod.name} at {server.pod.ip}, and could "
                "not promote it"
            )
    return None
