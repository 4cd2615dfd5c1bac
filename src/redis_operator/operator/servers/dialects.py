"""The table of modes: the dialect of the servers of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from redis_operator.api.redis import Mode
from redis_operator.operator.servers.cluster_dialect import CLUSTER
from redis_operator.operator.servers.dialect import Dialect
from redis_operator.operator.servers.failover_dialect import FAILOVER
from redis_operator.operator.servers.standalone_dialect import STANDALONE

__all__ = ["DIALECTS"]

DIALECTS: Final[Mapping[Mode, Dialect]] = {
    Mode.CLUSTER: CLUSTER,
    Mode.FAILOVER: FAILOVER,
    Mode.STANDALONE: STANDALONE,
}
