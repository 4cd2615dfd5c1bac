"""Replicas that lost their link long before their primary ended: its files may be much newer.

Sentinels do not promote such a replica, and the primary comes back with all that it acknowledged if
it has a volume. So it is waited for, as in mode Cluster, unless a person gives up what it has.
"""

from __future__ import annotations

from ...redis.slots import ALL_SLOTS
from ..advice import ACCEPT_LOSS
from ..observed import Seen
from .election import holds, same_history
from .topology import FailoverTopology, address

__all__ = ["newest", "outdated", "waiting"]


def outdated(topology: FailoverTopology, node: Seen) -> bool:
    """Whether a sentinel says that the data of a replica is too old to be promoted. I1

    Compared with how long it considers the primary down, so that it does not matter how long ago
    that was. In memory there are no files to wait for.
    """
    if topology.wanted.volatile or topology.wanted.accepted_loss >= ALL_SLOTS:
        return False
    for watcher in topology.watchers:
        found = topology.monitored(watcher)
        if found is None or watcher.view.tilt:
            continue
        known = (r for r in found.replicas if f"{r.ip}:{r.port}" == address(node))
        follows = node.replication.follows == f"{found.ip}:{found.port}"
        if follows and any(map(found.outdates, known)):
            return True
    return False


def newest(topology: FailoverTopology, nodes: list[Seen]) -> list[Seen]:
    """The servers to choose from: without outdated replicas where the last primary has its data.

    A server that reads an append-only file begins a new history, and its offset says nothing.
    """
    late = [node for node in nodes if outdated(topology, node)]
    rest = [node for node in nodes if node not in late]
    led = topology.led
    last = next((n for n in rest if led is not None and n.pod.name == led.pod and holds(n)), None)
    if last is None or any(same_history(last, node) for node in late):
        return nodes
    return rest


def waiting(topology: FailoverTopology, nodes: list[Seen]) -> str:
    """Why outdated replicas wait for a server that is not observed; empty: there are none."""
    names = ", ".join(node.pod.name for node in nodes if outdated(topology, node))
    if not names:
        return ""
    return (
        f"; {names} lost the link to the primary long before that ended, so its files may be newer "
        "and it is waited for. If it will not come back, continue with the data that is present: "
        f"kubectl annotate redis {topology.wanted.name} --overwrite {ACCEPT_LOSS}=all"
    )
