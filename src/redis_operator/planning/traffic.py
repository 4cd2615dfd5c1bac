"""What a server does for its clients: reported as metrics, and used by no rule."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Traffic"]


class Traffic(Struct, frozen=True):
    """Values of `INFO`; those in the second half count from the start of the server."""

    connected_clients: int = 0
    commands_per_second: int = 0
    commands_processed: int = 0
    keyspace_hits: int = 0
    keyspace_misses: int = 0
    evicted_keys: int = 0
