"""Servers that may not be ended now, because they are saving their data."""

from __future__ import annotations

from ..observed import Seen
from ..topology import Topology

__all__ = ["unsaved"]


def unsaved(situation: Topology, shard: int | None = None) -> str | None:
    """Why no server (of one shard, or any) may be ended now, or None.

    A server that writes its first append-only file ignores SIGTERM until it is killed. CL-33
    """
    nodes = situation.observed.nodes if shard is None else situation.pods_of(shard)
    for node in nodes:
        if isinstance(node, Seen) and node.saving:
            return f"{node.pod.name} is writing its append-only file"
    return None
