"""Memory limits and maxmemory, in the safe order: memory is added before it is used. Pure."""

from __future__ import annotations

from ..redis.config import parse_bytes
from .advice import Wanted
from .observed import Observed, Seen

__all__ = ["lowered_too_far", "must_wait_for_memory", "wanted_maxmemory"]


def wanted_maxmemory(wanted: Wanted) -> int:
    """The wanted maxmemory in bytes; 0: no limit."""
    return parse_bytes(dict(wanted.config).get("maxmemory", "")) or 0


def lowered_too_far(wanted: Wanted, observed: Observed) -> str | None:
    """Why maxmemory, and with it a memory limit, cannot be lowered (the data is too big), or None.

    Lowering it would evict keys or refuse writes, and a smaller container would be OOM-killed.
    """
    limit = wanted_maxmemory(wanted)
    return next(
        (
            f"{node.pod.name} uses {node.used_memory} bytes, maxmemory cannot go down to {limit}: "
            "give it more memory, add shards, or delete data first"
            for node in observed.seen
            if limit and node.used_memory > limit and node.max_memory != limit
        ),
        None,
    )


def must_wait_for_memory(wanted: Wanted, node: Seen) -> bool:
    """Whether maxmemory may not go up yet: the pod does not have the memory of the spec.

    The same while a resize was requested and not observed to be done.
    """
    limit, now = wanted_maxmemory(wanted), node.max_memory
    rises = bool(now) and (not limit or limit > now)
    if not rises or not node.pod.memory_limit:
        return False
    short = not wanted.memory_limit or node.pod.memory_limit < wanted.memory_limit
    return short or bool(node.pod.resizing)
