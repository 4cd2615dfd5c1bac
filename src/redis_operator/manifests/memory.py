"""How much of a memory limit may be data. Pure arithmetic; the numbers are from measurements."""

from __future__ import annotations

from redis_operator.api.quantity import parse_quantity
from redis_operator.api.redis import Persistence, RedisSpec

__all__ = ["backlog_bytes", "maxmemory_bytes", "memory_limit"]

_MIB = 2**20
_BASE = 64 * _MIB
_LARGEST_BACKLOG = 64 * _MIB
_SMALLEST_BACKLOG = _MIB
_COPY_ON_WRITE = 0.25
_WITHOUT_FORK = 0.8


def memory_limit(spec: RedisSpec) -> int | None:
    """The memory limit of a server in bytes, or None when it has none."""
    amount = spec.resources.limits.get("memory")
    found = parse_quantity(amount) if amount is not None else None
    return None if found is None else int(found)


def backlog_bytes(limit: int | None) -> int:
    """Return the size of the replication backlog: enough for a restart, a small part of the
    memory."""
    if limit is None:
        return _LARGEST_BACKLOG
    return max(_SMALLEST_BACKLOG, min(_LARGEST_BACKLOG, limit // 16)) // _MIB * _MIB


def maxmemory_bytes(spec: RedisSpec) -> int:
    """Return maxmemory: what is left of the limit for data when the server saves and syncs.

    0 means no limit, and a share that the spec names is used unchanged. A server that never forks
    (no disk, no replica) may use more of its memory.
    """
    limit = memory_limit(spec)
    if limit is None:
        return 0
    if spec.maxmemory_percent is not None:
        return max(limit * spec.maxmemory_percent // 100 // _MIB, 8) * _MIB
    room = limit - min(_BASE, limit // 4) - backlog_bytes(limit)
    if spec.persistence is Persistence.NONE and spec.replicas == 0:
        usable = min(room, int(limit * _WITHOUT_FORK))
    else:
        usable = int(room / (1 + _COPY_ON_WRITE))
    return max(usable // _MIB, 8) * _MIB
