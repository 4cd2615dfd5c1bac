"""Mode Failover: one StatefulSet of servers, one of sentinels, and Services by role. Pure."""

from __future__ import annotations

from typing import Final

from redis_operator.api.redis import Redis, RedisSpec, Sentinel
from redis_operator.redis.config import Directive
from redis_operator.redis.versions import Version

from . import names
from .facts import Facts
from .failover_scripts import BOOT_SENTINEL, BOOT_SERVER, READY_SENTINEL, READY_SERVER, STOP_SERVER
from .layout import Layout, Port, Sentinels, ServiceRow
from .memory import backlog_bytes, memory_limit
from .users import FAILOVER_USERS

__all__ = ["FAILOVER", "SENTINEL_GROUP", "sentinel_of"]

SENTINEL_GROUP: Final = 1
_HANDOVER_SECONDS: Final = 20


def sentinel_of(spec: RedisSpec) -> Sentinel:
    """Return the settings of the sentinels; by default three, and more than half must agree."""
    return spec.sentinel or Sentinel()


def _down_after_seconds(spec: RedisSpec) -> int:
    return -(-sentinel_of(spec).down_after_milliseconds // 1000)


def _sentinel_settings(spec: RedisSpec) -> tuple[tuple[str, str], ...]:
    asked = sentinel_of(spec)
    return (
        ("down-after-milliseconds", str(asked.down_after_milliseconds)),
        ("failover-timeout", str(asked.failover_timeout_milliseconds)),
        ("parallel-syncs", str(asked.parallel_syncs)),
    )


def _group_of(database: str, workload: str) -> int | None:
    if workload == database:
        return 0
    return SENTINEL_GROUP if workload == names.sentinel_service(database) else None


def _settings(spec: RedisSpec, version: Version) -> list[Directive]:
    del version
    return [
        ("repl-diskless-sync", "yes"),
        ("repl-diskless-sync-delay", "0"),
        ("repl-diskless-load", "on-empty-db"),
        ("repl-backlog-size", str(backlog_bytes(memory_limit(spec)))),
        ("min-replicas-to-write", str(spec.durability.min_replicas_to_write)),
        ("min-replicas-max-lag", str(spec.durability.max_lag_seconds)),
    ]


def _files(redis: Redis, facts: Facts) -> dict[str, str]:
    """Return the address of the sentinels for servers: an IP address where there is no DNS."""
    name, namespace = redis.metadata.name, redis.metadata.namespace
    host = facts.sentinel_address or f"{names.sentinel_service(name)}.{namespace}.svc"
    return {"sentinel-host": host}


FAILOVER: Final = Layout(
    workload=lambda database, group: database if group == 0 else names.sentinel_service(database),
    group_of=_group_of,
    group_label=names.GROUP_LABEL,
    labels={names.COMPONENT_LABEL: "server"},
    scripts={
        "boot.sh": BOOT_SERVER,
        "ready.sh": READY_SERVER,
        "stop.sh": STOP_SERVER,
        "boot-sentinel.sh": BOOT_SENTINEL,
        "ready-sentinel.sh": READY_SENTINEL,
    },
    settings=_settings,
    files=_files,
    waits=lambda spec: {
        "HANDOVER_SECONDS": str(_HANDOVER_SECONDS),
        "FAILOVER_SECONDS": str(_down_after_seconds(spec) + 7),
        "NOTICE_SECONDS": str(_down_after_seconds(spec) + 3),
        "SENTINEL_PORT": str(names.SENTINEL_PORT),
    },
    announces=lambda redis, _: {
        "PRIMARY_NAME": names.primary_name(redis.metadata.namespace, redis.metadata.name)
    },
    ports=(Port("redis", names.CLIENT_PORT),),
    services=(
        ServiceRow(names.client_service, role="primary", optioned=True),
        ServiceRow(names.replicas_service, role="replica"),
        ServiceRow(names.sentinel_service, sentinels=True),
    ),
    users=FAILOVER_USERS,
    binding={},
    everything="all",
    sentinels=Sentinels(
        group=SENTINEL_GROUP,
        labels={names.COMPONENT_LABEL: "sentinel"},
        port=Port("sentinel", names.SENTINEL_PORT),
        pods=lambda spec: sentinel_of(spec).replicas,
        quorum=lambda spec: sentinel_of(spec).agreeing,
        settings=_sentinel_settings,
        exporter=lambda spec: sentinel_of(spec).exporter.enabled,
    ),
)
