"""One server or sentinel with all that identifies it: part of every action on a server."""

from __future__ import annotations

from msgspec import Struct

from .identity import ServerId
from .observed import Seen, SentinelSeen

__all__ = ["At", "at"]


class At(Struct, frozen=True):
    """One server with all that identifies it. It must report `id` before it is acted on."""

    pod: str
    uid: str
    ip: str
    id: ServerId


def at(node: Seen | SentinelSeen) -> At:
    """The address of a server, or a sentinel, that was seen."""
    return At(pod=node.pod.name, uid=node.pod.uid, ip=node.pod.ip, id=node.id)
