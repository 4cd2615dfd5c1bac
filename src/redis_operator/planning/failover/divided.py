"""Sentinels that respond to the operator and cannot reach each other, or a server. Pure.

They could not fail over without the operator: no majority of them could agree, or none could
promote the replica. A planned switchover does not need them for that, and is not blocked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..observed import SentinelSeen
from ..sentinels import Monitored, SentinelFlag

if TYPE_CHECKING:
    from .topology import FailoverTopology

__all__ = ["divided", "finds_again"]

_FOUND_MS = 5_000  # a sentinel that was reset discovers the others within two seconds


def divided(topology: FailoverTopology) -> str | None:
    """Return which sentinel cannot reach another one or a replica, or None. SE-14, SE-15"""
    for node in topology.watchers:
        found = topology.monitored(node)
        reason = found and (
            _of_sentinels(topology, node, found) or _of_servers(topology, node, found)
        )
        if reason:
            return reason
    return None


def finds_again(topology: FailoverTopology) -> bool:
    """Whether the only unsettled sentinels are a minority that was reset a moment ago.

    They reconnect and discover the others within seconds; the remaining ones are a majority.
    """
    late = [
        node
        for node in topology.watchers
        if topology.watcher_unsettled(node) or topology.unheard_by(node)
    ]
    if not late or 2 * len(late) >= topology.wanted.sentinels:
        return False
    if topology.group_unsettled(0) or topology.others_unsettled(late) or divided(topology):
        return False
    return all(_was_reset(topology, node) for node in late)


def _was_reset(topology: FailoverTopology, node: SentinelSeen) -> bool:
    found, primary = topology.monitored(node), topology.primary
    if found is None or primary is None or node.view.tilt or found.in_the_past:
        return False
    blamed = found.flags - {SentinelFlag.DISCONNECTED}
    return found.ip == primary.pod.ip and not blamed and found.known_ms < _FOUND_MS


def _of_sentinels(topology: FailoverTopology, node: SentinelSeen, found: Monitored) -> str | None:
    """A recreated sentinel has another address: the others learn it within seconds."""
    pods = {str(watcher.id): watcher.pod for watcher in topology.watchers}
    for other in found.sentinels:
        pod = pods.get(other.id)
        if pod is None:
            continue  # it is gone, and is forgotten later
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
