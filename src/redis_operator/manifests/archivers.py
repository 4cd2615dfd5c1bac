"""The worker that archives for a schedule: its Deployment, and the servers that it reads. Pure.

A Deployment that never has two pods on purpose, and not a StatefulSet: that would wait for a lost
node without limit. Two workers cannot mix their writes (`backup.stream.spool`), so another one may
start while it is unknown whether the first still runs.
"""

from __future__ import annotations

import msgspec

from redis_operator.api.quantity import parse_quantity
from redis_operator.api.redis import Redis
from redis_operator.api.redisbackupschedule import RedisBackupSchedule
from redis_operator.backup.task import (
    ARCHIVE_PORT,
    BASES,
    SOURCES,
    SPOOL,
    ArchiveTask,
    ShardTask,
)

from .layouts import layout_of
from .names import (
    ARCHIVE_LABEL,
    MANAGER,
    WORKER_LABEL,
    archiver_labels,
    archiver_name,
    users_secret,
)
from .objects import Object
from .stores import store_of
from .users import BACKUP
from .workers import worker_pod

__all__ = ["archiver", "sources"]

_BASE_SECONDS = 86_400
"""There is a base at least once a day, however seldom the schedule is due."""
_GRACE_SECONDS = 45  # it seals what has arrived, and waits 20 s for the store
_DISK_SLACK = 64 << 20  # the segment that is being written; a base is not spooled


def archiver(
    schedule: RedisBackupSchedule,
    redis: Redis,
    *,
    path: str,
    allow_primary: bool,
    bridge: bool = False,
    image: str,
) -> Object:
    """Return the Deployment of the worker. It changes only with values that need a restart."""
    spec, meta = schedule.spec, schedule.metadata
    spool = int(parse_quantity(spec.archive.spool_size) or 0)
    task = ArchiveTask(
        store=store_of(spec.template.storage, path, spec.template.encryption),
        user=BACKUP,
        engine=redis.status.engine or redis.spec.engine.value,
        version=redis.status.version,
        cluster=layout_of(redis).is_sharded,
        allow_primary=allow_primary,
        bridge=bridge,
        base_seconds=_BASE_SECONDS,
        keep_seconds=spec.archive.keep_hours * 3600,
        spool_bytes=spool,
        status_port=ARCHIVE_PORT,
    )
    login = (users_secret(spec.redis), BACKUP)
    pod = worker_pod(task, spec.template.storage, login, spec.archive.resources, image)
    pod["restartPolicy"] = "Always"
    pod["terminationGracePeriodSeconds"] = _GRACE_SECONDS
    pod["volumes"] += [
        {"name": "spool", "emptyDir": {"sizeLimit": str(spool + _DISK_SLACK)}},
        {"name": "sources", "configMap": {"name": archiver_name(meta.name)}},
    ]
    [container] = pod["containers"]
    container["volumeMounts"] += [
        {"name": "spool", "mountPath": SPOOL},
        {"name": "sources", "mountPath": SOURCES.rpartition("/")[0], "readOnly": True},
    ]
    container["ports"] = [{"name": "status", "containerPort": ARCHIVE_PORT, "protocol": "TCP"}]
    container["readinessProbe"] = {"tcpSocket": {"port": "status"}, "periodSeconds": 5}
    labels = _labels(schedule)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(schedule),
        "spec": {
            "replicas": 1,
            "revisionHistoryLimit": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {WORKER_LABEL: "archive", ARCHIVE_LABEL: meta.name}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def sources(schedule: RedisBackupSchedule, shards: tuple[ShardTask, ...], *, base: str) -> Object:
    """Return the ConfigMap with the servers of each shard, and how old the last base may be."""
    found = {shard.name: msgspec.to_builtins(shard.sources) for shard in shards}
    data = {
        SOURCES.rpartition("/")[2]: msgspec.json.encode(found).decode(),
        BASES.rpartition("/")[2]: base,
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(schedule),
        "data": data,
    }


def _metadata(schedule: RedisBackupSchedule) -> Object:
    meta = schedule.metadata
    return {
        "namespace": meta.namespace,
        "name": archiver_name(meta.name),
        "labels": _labels(schedule),
    }


def _labels(schedule: RedisBackupSchedule) -> dict[str, str]:
    own = archiver_labels(schedule.spec.redis, schedule.metadata.name)
    return own | {"app.kubernetes.io/managed-by": MANAGER}
