"""Who a server is, and what it says it is."""

from __future__ import annotations

from enum import Enum
from typing import NewType

__all__ = ["NodeId", "Role"]

NodeId = NewType("NodeId", str)


class Role(Enum):
    """What a server is, as it says itself."""

    PRIMARY = "primary"
    REPLICA = "replica"
