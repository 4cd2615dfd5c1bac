"""Why a promotion cannot end in two primaries that both accept writes."""

from __future__ import annotations

from enum import Enum

__all__ = ["Fence"]


class Fence(Enum):
    """Why the old primary cannot acknowledge another write. I7"""

    HANDSHAKE = "the primary takes part and pauses its writes"
    PROCESS_GONE = "its process refuses connections at the pod's own address"
    CONTAINER_ENDED = "its container has ended"
    POD_GONE = "no pod has its address any more"
    EMPTY_AND_PAUSED = "it restarted empty; its writes are paused and it still holds no key"
    IS_REPLICA = "it restarted as a replica and refuses writes"
    DEPOSED = "a majority of the sentinels considers it dead, and names another server"
    NEVER_LED = "no server was a primary yet"
