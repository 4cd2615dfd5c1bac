"""Who a server is, and what it says it is."""

from __future__ import annotations

from enum import Enum
from typing import NewType, TypeAlias

__all__ = ["NodeId", "Role", "RunId", "ServerId"]

ServerId = NewType("ServerId", str)
"""How a server or a sentinel is known in its mode; rules of all modes only compare it."""

NodeId: TypeAlias = ServerId
"""The id of a server of mode Cluster: it is kept in a file and outlives restarts."""

RunId: TypeAlias = ServerId
"""The id of any other server: each start has another one."""


class Role(Enum):
    """What a server is, as it says itself."""

    PRIMARY = "primary"
    REPLICA = "replica"
