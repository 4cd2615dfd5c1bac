"""Databases that change between modes Standalone and Failover, with their data. Pure.

The change to Failover needs nothing special: the one server is the primary, replicas and sentinels
join it, and it is replaced last. On the way back the database is run in mode Failover, with pods
made for Standalone, until the pod that stays leads and is alone; its sentinels are deleted last.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kubecontroller.client.objects import PersistentVolumeClaim, StatefulSet
from redis_operator.api.redis import Mode, Redis, RedisSpec, Sentinel
from redis_operator.manifests.failover import FAILOVER, SENTINEL_GROUP

__all__ = ["as_run"]


def as_run(
    redis: Redis, workloads: Iterable[StatefulSet], claims: Iterable[PersistentVolumeClaim]
) -> tuple[Redis, RedisSpec | None]:
    """The database in the mode that it is run in, and the spec that it changes to, if it does.

    As long as there are sentinels, or several servers, mode Failover is not over. A hibernated
    database wakes up with every server that has a volume, and so does one that is created again on
    retained volumes: any of them may hold the last writes. Surplus servers leave later.
    """
    name, spec = redis.metadata.name, redis.spec
    pods = {
        FAILOVER.group_of(name, found.metadata.name): found.spec.replicas or 0
        for found in workloads
        if not found.metadata.is_deleting
    }
    servers = pods.get(0, 0)
    asleep = 0 if servers or spec.storage is None else max(0, _volumes(name, claims) - 1)
    if spec.mode is Mode.FAILOVER and asleep > spec.replicas:
        return replace(redis, spec=replace(spec, replicas=asleep)), None
    if spec.mode is not Mode.STANDALONE or (servers <= 1 and SENTINEL_GROUP not in pods):
        return redis, None
    watchers = pods.get(SENTINEL_GROUP) or Sentinel().replicas
    run = replace(
        spec,
        mode=Mode.FAILOVER,
        replicas=asleep,
        sentinel=Sentinel(replicas=watchers, quorum=watchers // 2 + 1),
    )
    return replace(redis, spec=run), spec


def _volumes(name: str, claims: Iterable[PersistentVolumeClaim]) -> int:
    """How many ordinals of servers have a volume."""
    found = {claim.metadata.name for claim in claims if not claim.metadata.is_deleting}
    count = 0
    while FAILOVER.claim(name, 0, count) in found:
        count += 1
    return count
