"""The Jobs of workers that take backups and give them back. Pure.

A worker has no rights in the cluster, runs as an ordinary user without a disk of its own, and is
given its password and its keys as files.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from redis_operator.api.redis import Redis, Resources
from redis_operator.api.redisbackup import BackupStorage, RedisBackup
from redis_operator.backup.task import (
    FOLDER,
    KEYS,
    LOGIN,
    TASK,
    S3Place,
    ServeTask,
    ShardTask,
    Store,
    TakeTask,
    Task,
)

from .names import CLIENT_PORT, MANAGER, WORKER_LABEL, users_secret, worker_labels
from .objects import Object
from .pod import from_pod, locked_down, resources
from .users import BACKUP, REPLICATION

__all__ = [
    "ATTEMPT_LABEL",
    "BACKUP_LABEL",
    "RESTORED_LABEL",
    "restore_job",
    "restore_job_name",
    "take_job",
    "take_job_name",
]

BACKUP_LABEL: Final = "redisoperator.dev/backup"
ATTEMPT_LABEL: Final = "redisoperator.dev/attempt"
RESTORED_LABEL: Final = "redisoperator.dev/restores"
_USER: Final = 65532
_RESOURCES: Final = Resources(
    requests={"cpu": "100m", "memory": "128Mi"}, limits={"memory": "512Mi"}
)


def take_job_name(backup: str, attempt: int) -> str:
    """Return the name of the Job of one attempt."""
    return f"{backup}-backup-{attempt}"


def restore_job_name(database: str) -> str:
    """Return the name of the Job that gives a new database its content."""
    return f"{database}-restore"


def take_job(
    backup: RedisBackup,
    redis: Redis,
    *,
    attempt: int,
    shards: tuple[ShardTask, ...],
    path: str,
    image: str,
) -> Object:
    """Return the Job that takes a backup, once: another attempt is another Job."""
    name, spec = take_job_name(backup.metadata.name, attempt), backup.spec
    task = TakeTask(
        store=_store(spec.storage, path),
        namespace=backup.metadata.namespace,
        redis=spec.redis,
        uid=redis.metadata.uid,
        mode=redis.spec.mode.value,
        engine=redis.status.engine or redis.spec.engine.value,
        version=redis.status.version,
        user=BACKUP,
        attempt=str(attempt),
        shards=shards,
        level=spec.compression,
    )
    labels = worker_labels(spec.redis) | {
        BACKUP_LABEL: backup.metadata.name,
        ATTEMPT_LABEL: str(attempt),
    }
    return _job(
        backup,
        name,
        labels,
        _pod(task, spec.storage, (users_secret(spec.redis), BACKUP), spec.resources, image),
    )


def restore_job(redis: Redis, storage: BackupStorage, path: str, *, image: str) -> Object:
    """Return the Job that servers of a new database replicate from until they have its content."""
    name = redis.metadata.name
    task = ServeTask(store=_store(storage, path), user=REPLICATION, port=CLIENT_PORT)
    labels = {WORKER_LABEL: "restore", RESTORED_LABEL: name}
    pod = _pod(task, storage, (users_secret(name), REPLICATION), Resources(), image)
    [container] = pod["containers"]
    # It listens once it has read the backup from end to end.
    container["ports"] = [{"name": "redis", "containerPort": CLIENT_PORT, "protocol": "TCP"}]
    container["readinessProbe"] = {"tcpSocket": {"port": "redis"}, "periodSeconds": 1}
    return _job(redis, restore_job_name(name), labels, pod)


def _job(owner: RedisBackup | Redis, name: str, labels: dict[str, str], pod: Object) -> Object:
    labels = labels | {"app.kubernetes.io/managed-by": MANAGER}
    reference = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "namespace": owner.metadata.namespace,
            "name": name,
            "labels": labels,
            "ownerReferences": [reference],
        },
        "spec": {
            "backoffLimit": 0,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _store(storage: BackupStorage, path: str) -> Store:
    if storage.s3 is None:
        return Store(path)
    s3 = storage.s3
    place = S3Place(s3.bucket, endpoint=s3.endpoint, region=s3.region, keys=bool(s3.secret_name))
    return Store(path, place)


def _pod(
    task: Task, storage: BackupStorage, login: tuple[str, str], wanted: Resources, image: str
) -> dict[str, Any]:
    secret, user = login
    volumes: list[Object] = [_secret("login", secret, {user: LOGIN.rpartition("/")[2]})]
    mounts = [{"name": "login", "mountPath": LOGIN.rpartition("/")[0], "readOnly": True}]
    if storage.claim is not None:
        claim = {"claimName": storage.claim.name}
        volumes.append({"name": "store", "persistentVolumeClaim": claim})
        mounts.append({"name": "store", "mountPath": FOLDER})
    if storage.s3 is not None and storage.s3.secret_name:
        keys = {name: name for name in ("accessKeyId", "secretAccessKey")}
        volumes.append(_secret("keys", storage.s3.secret_name, keys))
        mounts.append({"name": "keys", "mountPath": KEYS, "readOnly": True})
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "worker",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["redis-operator", "backup-worker"],
                "env": [
                    {"name": TASK, "value": msgspec.json.encode(task).decode()},
                    from_pod("POD_IP", "status.podIP"),
                ],
                "resources": resources(wanted) or resources(_RESOURCES),
                "securityContext": locked_down(),
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
    }


def _secret(name: str, secret: str, keys: dict[str, str]) -> Object:
    items = [{"key": key, "path": path} for key, path in keys.items()]
    return {
        "name": name,
        "secret": {"secretName": secret, "defaultMode": 0o440, "items": items},
    }
