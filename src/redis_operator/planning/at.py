"""One server or sentinel by all that identifies it: what every action on a server carries."""

from __future__ import annotations

from msgspec import Struct

from .identity import NodeId
from .observed import Seen, SentinelSeen

__all__ = ["At", "at"]


class At(Struct, frozen=True):
    """One server, by all that identifies it. `CLUSTER MYID` must answer `id` before the act."""

    pod: str
    uid: str
    ip: str
    id: NodeId


def at(node: Seen | SentinelSeen) -> At:
    """The address of a server, or a sentinel, that was seen."""
    return At(pod=node.pod.name, uid=node.pod.uid, ip=node.pod.ip, id=node.id)
