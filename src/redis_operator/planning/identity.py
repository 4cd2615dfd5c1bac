"""The identity of a server, and the role that it reports."""

from __future__ import annotations

from enum import Enum
from typing import NewType, TypeAlias

__all__ = ["NodeId", "Role", "RunId", "ServerId"]

ServerId = NewType("ServerId", str)
"""The id of a server or a sentinel in its mode; shared rules only compare it."""

NodeId: TypeAlias = ServerId
"""The id of a server of mode Cluster: it is stored in nodes.conf and survives restarts."""

RunId: TypeAlias = ServerId
"""The id of any other server: it changes with each start."""


class Role(Enum):
    """The role of a server, as it reports it itself."""

    PRIMARY = "primary"
    REPLICA = "replica"
