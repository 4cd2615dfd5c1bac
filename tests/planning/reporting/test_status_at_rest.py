from __future__ import annotations

import pytest

from redis_operator.api.status import RedisStatus
from redis_operator.planning.advice import Plan, Wanted
from redis_operator.planning.clusters import ClusterView
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.observed import Observed, Pod, Replication, Seen
from redis_operator.planning.reporting.context import Context
from redis_operator.planning.reporting.status import status
from redis_operator.redis.slots import even_shares

WANTED = Wanted(name="cache", shards=3, replicas=1)


def whole(*, offset: int = 0, used: int = 8_900_000) -> Observed:
    nodes = []
    for shard, slots in enumerate(even_shares(3)):
        primary = NodeId(f"p{shard}")
        nodes += [
            Seen(
                pod=Pod(f"cache-{shard}-0", f"u{shard}0", shard, 0, f"127.0.{shard}.1"),
                id=primary,
                role=Role.PRIMARY,
                view=ClusterView(slots=slots),
                replication=Replication(offset=offset),
                used_memory=used // 3,
            ),
            Seen(
                pod=Pod(f"cache-{shard}-1", f"u{shard}1", shard, 1, f"127.0.{shard}.2"),
                id=NodeId(f"r{shard}"),
                role=Role.REPLICA,
                replica_of=primary,
            ),
        ]
    return Observed(nodes=tuple(nodes), formed=True)


def context(previous: RedisStatus | None = None, now: str = "2026-01-01T00:00:00Z") -> Context:
    return Context(previous=previous or RedisStatus(), generation=1, now=now, binding="cache-conn")


@pytest.mark.parametrize("used", [8_700_000, 8_900_000, 9_300_000])
@pytest.mark.parametrize("offset", [0, 900_000])
def test_what_moves_all_the_time_changes_nothing_that_is_told(used: int, offset: int) -> None:
    first = status(WANTED, whole(), Plan(), context())
    later = context(first, now="2026-01-01T01:00:00Z")
    assert status(WANTED, whole(offset=offset, used=used), Plan(), later) == first
