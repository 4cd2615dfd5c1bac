"""What a simulated server does when its data take more than `maxmemory`.

Without eviction it refuses commands that need more memory (SET, RESTORE) with OOM and serves all
others: reads, deletions, MIGRATE from it, and everything of the cluster. A replica takes whatever
its primary sends. The contract suite shows the same on real servers.
"""

from __future__ import annotations

from redis_operator.redis.config import parse_bytes

from .state import Server

__all__ = ["OOM", "is_out_of_memory"]

OOM = "OOM command not allowed when used memory > 'maxmemory'."


def is_out_of_memory(server: Server) -> bool:
    """Whether a server refuses what needs more memory."""
    limit = parse_bytes(server.config["maxmemory"]) or 0
    keeps_all = server.config["maxmemory-policy"] == "noeviction"
    return bool(limit) and keeps_all and server.is_primary and server.used_memory > limit
