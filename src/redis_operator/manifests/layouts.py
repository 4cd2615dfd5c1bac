"""The table of modes: what each consists of. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from redis_operator.api.redis import Mode, Redis

from .cluster import CLUSTER
from .failover import FAILOVER
from .layout import Layout
from .standalone import STANDALONE

__all__ = ["LAYOUTS", "layout_of"]

LAYOUTS: Final[Mapping[Mode, Layout]] = {
    Mode.CLUSTER: CLUSTER,
    Mode.FAILOVER: FAILOVER,
    Mode.STANDALONE: STANDALONE,
}


def layout_of(redis: Redis) -> Layout:
    """The layout of a database."""
    return LAYOUTS[redis.spec.mode]
