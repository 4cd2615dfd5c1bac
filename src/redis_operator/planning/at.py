"""One server or sentinel by all that identifies it: what every action on a server carries."""

from __future__ import annotations

from msgspec import Struct

from .identity import ServerId
from .observed import Seen, SentinelSeen

__all__ = ["At", "at"]


class At(Struct, frozen=True):
    """One server, by all that identifies it. The server must say `id` before the act."""

    pod: str
    uid: str
    ip: str
    id: ServerId


def at(node: Seen | SentinelSeen) -> At:
    """The address of a server, or a sentinel, that was seen."""
    return At(pod=node.pod.name, uid=node.pod.uid, ip=node.pod.ip, id=node.id)
