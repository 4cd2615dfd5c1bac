"""Mode Cluster: one StatefulSet for each shard, a bus among servers, Services by role. Pure."""

from __future__ import annotations

from typing import Final

from redis_operator.api.redis import Redis, RedisSpec
from redis_operator.redis.config import Directive
from redis_operator.redis.versions import Ability, Version, can

from . import names
from .cluster_scripts import BOOT, READY, STOP
from .layout import Layout, Port, ServiceRow
from .memory import backlog_bytes, memory_limit
from .users import USERS

__all__ = ["CLUSTER", "NODE_TIMEOUT_MS", "node_timeout_ms"]

NODE_TIMEOUT_MS = 5000


def node_timeout_ms(spec: RedisSpec) -> int:
    """The cluster-node-timeout of servers; time limits of scripts that wait for failovers depend on
    it."""
    chosen = str(spec.config.get("cluster-node-timeout", NODE_TIMEOUT_MS))
    return int(chosen) if chosen.isdecimal() else NODE_TIMEOUT_MS


def _group_of(database: str, workload: str) -> int | None:
    prefix, _, number = workload.rpartition("-")
    return int(number) if prefix == database and number.isdecimal() else None


def _settings(spec: RedisSpec, version: Version) -> list[Directive]:
    found: list[Directive] = [
        ("cluster-enabled", "yes"),
        ("cluster-config-file", "nodes.conf"),
        ("cluster-node-timeout", str(NODE_TIMEOUT_MS)),
        # One lost shard must not stop the others.
        ("cluster-require-full-coverage", "no"),
        # The operator places replicas; the engine would move them across shards and zones.
        ("cluster-allow-replica-migration", "no"),
        ("repl-diskless-sync", "yes"),
        ("repl-diskless-sync-delay", "0"),
        ("repl-backlog-size", str(backlog_bytes(memory_limit(spec)))),
        ("min-replicas-to-write", str(spec.durability.min_replicas_to_write)),
        ("min-replicas-max-lag", str(spec.durability.max_lag_seconds)),
    ]
    if can(version, Ability.SHUTDOWN_FAILOVER):
        # A primary hands over by itself when its pod is evicted, also while the operator is down.
        found.append(("shutdown-on-sigterm", "failover"))
    return found


def _waits(spec: RedisSpec) -> dict[str, str]:
    return {
        "HANDOVER_SECONDS": str(max(1, node_timeout_ms(spec) * 5 // 1000)),
        # An election that was lost is not repeated for four node timeouts.
        "FAILOVER_SECONDS": str(node_timeout_ms(spec) * 6 // 1000 + 1),
    }


def _announces(redis: Redis, version: Version) -> dict[str, str]:
    name, namespace = redis.metadata.name, redis.metadata.namespace
    found = {}
    if can(version, Ability.ANNOUNCE_HOSTNAME):
        found["ANNOUNCE_HOSTNAME"] = f"$(POD_NAME).{names.nodes_service(name)}.{namespace}.svc"
    if can(version, Ability.HUMAN_NODENAME):
        found["ANNOUNCE_NAME"] = "$(POD_NAME)"
    return found


CLUSTER: Final = Layout(
    workload=names.shard,
    group_of=_group_of,
    group_label=names.SHARD_LABEL,
    labels={},
    scripts={"boot.sh": BOOT, "ready.sh": READY, "stop.sh": STOP},
    settings=_settings,
    files=lambda _redis, facts: (
        {}
        if all(can(version, Ability.ANNOUNCE_HOSTNAME) for version in facts.running)
        else {"without-hostnames": ""}
    ),
    waits=_waits,
    announces=_announces,
    ports=(Port("redis", names.CLIENT_PORT), Port("bus", names.BUS_PORT)),
    services=(
        ServiceRow(names.client_service, optioned=True),
        ServiceRow(names.primaries_service, role="primary"),
        ServiceRow(names.replicas_service, role="replica"),
    ),
    users=USERS,
    binding={"cluster": "true"},
    is_sharded=True,
)
