"""The Jobs of workers that take and restore backups. Pure.

A worker has no rights in the cluster, runs as an ordinary user without its own disk, and gets its
password and its keys as files.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from redis_operator.api.quantity import parse_quantity
from redis_operator.api.redis import Redis, Resources
from redis_operator.api.redisbackup import BackupEncryption, BackupStorage, RedisBackup
from redis_operator.api.redisbackupschedule import RedisBackupSchedule
from redis_operator.api.redisrestore import RedisRestore
from redis_operator.backup.task import (
    AUTHORITY,
    ENCRYPTION,
    FOLDER,
    KEYS,
    LOGIN,
    SCRATCH,
    TASK,
    CarryTask,
    DeleteTask,
    FillTarget,
    Identity,
    PointTask,
    ServeTask,
    ShardTask,
    TakeTask,
    Task,
    Until,
    VerifyTask,
)

from .container import locked_down, resources
from .layouts import layout_of
from .names import (
    CLIENT_PORT,
    MANAGER,
    WORKER_LABEL,
    filler_labels,
    point_labels,
    users_secret,
    worker_labels,
)
from .objects import Object
from .pod import from_pod
from .stores import keys_of, store_of
from .users import BACKUP, REPLICATION

__all__ = [
    "ATTEMPT_LABEL",
    "BACKUP_LABEL",
    "BACKUP_UID_LABEL",
    "TARGETS_ANNOTATION",
    "WORKER_CONTAINER",
    "carrier_pod",
    "delete_job",
    "delete_job_name",
    "fill_job",
    "identity_of",
    "point_job",
    "point_job_name",
    "restore_job",
    "restore_job_name",
    "take_job",
    "take_job_name",
    "verify_job",
    "verify_job_name",
    "with_targets",
    "worker_job",
    "worker_pod",
]

BACKUP_LABEL: Final = "redisoperator.dev/backup"
BACKUP_UID_LABEL: Final = "redisoperator.dev/backup-uid"
ATTEMPT_LABEL: Final = "redisoperator.dev/attempt"
TARGETS_ANNOTATION: Final = "redisoperator.dev/targets"
"""On the Job that fills a database: the histories that its primaries had, by pod."""
WORKER_CONTAINER: Final = "worker"
_USER: Final = 65532
_LONGEST_SECONDS: Final = 86_400  # a worker that hangs does not block its schedule without limit
_FIELD: Final = "spec.bootstrap.fromBackup"
_POINT_SECONDS: Final = 300
_RESOURCES: Final = Resources(
    requests={"cpu": "100m", "memory": "128Mi"}, limits={"memory": "512Mi"}
)
_SCRATCH: Final = f"""\
until [ -f {SCRATCH}/server.conf ]; do sleep 0.2; done
exec "$SERVER" {SCRATCH}/server.conf
"""


def take_job_name(backup: str, attempt: int) -> str:
    """Return the name of the Job of one attempt."""
    return f"{backup}-backup-{attempt}"


def verify_job_name(backup: str, attempt: int) -> str:
    """Return the name of the Job of one attempt to verify a backup."""
    return f"{backup}-verify-{attempt}"


def restore_job_name(database: str) -> str:
    """Return the name of the Job that fills a new database."""
    return f"{database}-restore"


def take_job(
    backup: RedisBackup,
    redis: Redis,
    *,
    attempt: int,
    shards: tuple[ShardTask, ...],
    cut: bool,
    path: str,
    image: str,
) -> Object:
    """Return the Job that takes a backup, once: another attempt is another Job."""
    name, spec = take_job_name(backup.metadata.name, attempt), backup.spec
    task = TakeTask(
        store=store_of(spec.storage, path, spec.encryption, identity_of(backup, path)),
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
        cut=cut,
        bandwidth=int(parse_quantity(spec.bandwidth) or 0) if spec.bandwidth else 0,
    )
    labels = worker_labels(spec.redis) | {
        BACKUP_LABEL: backup.metadata.name,
        ATTEMPT_LABEL: str(attempt),
    }
    return worker_job(
        backup,
        name,
        labels,
        worker_pod(task, spec.storage, (users_secret(spec.redis), BACKUP), spec.resources, image),
    )


def restore_job(
    redis: Redis,
    storage: BackupStorage,
    path: str,
    *,
    image: str,
    encryption: BackupEncryption | None = None,
    identity: Identity | None = None,
    until: Until | None = None,
) -> Object:
    """Return the Job that servers of a new database replicate from until they have all data."""
    name = redis.metadata.name
    task = ServeTask(
        store=store_of(storage, path, encryption, identity),
        user=REPLICATION,
        port=CLIENT_PORT,
        until=until,
        engine=redis.status.engine if until is not None else "",
        version=redis.status.version if until is not None else "",
        field=_FIELD if until is not None else "",
    )
    labels = filler_labels(name)
    pod = worker_pod(task, storage, (users_secret(name), REPLICATION), Resources(), image)
    [container] = pod["containers"]
    container["ports"] = [{"name": "redis", "containerPort": CLIENT_PORT, "protocol": "TCP"}]
    container["readinessProbe"] = {"tcpSocket": {"port": "redis"}, "periodSeconds": 1}
    return worker_job(redis, restore_job_name(name), labels, pod)


def verify_job(
    backup: RedisBackup, redis: Redis | None, *, attempt: int, path: str, image: str
) -> Object:
    """Return the Job that loads a backup into a scratch server beside its worker.

    The server runs the image that wrote the backup. It waits for the settings that the worker
    writes, and ends with it: the worker stops it at the end, and the operator removes what is left.
    """
    name, spec = verify_job_name(backup.metadata.name, attempt), backup.spec
    store = store_of(spec.storage, path, spec.encryption, identity_of(backup, path))
    task = VerifyTask(store=store)
    labels = {
        WORKER_LABEL: "verify",
        BACKUP_LABEL: backup.metadata.name,
        ATTEMPT_LABEL: str(attempt),
    }
    pod = worker_pod(task, spec.storage, None, spec.resources, image)
    sized = redis.spec.resources if redis is not None else Resources()
    _with_scratch(pod, engine=backup.status.engine, image=backup.status.image, sized=sized)
    _pulled(pod, redis)
    return worker_job(backup, name, labels, pod)


def fill_job(
    redis: Redis,
    storage: BackupStorage,
    path: str,
    *,
    targets: tuple[FillTarget, ...],
    image: str,
    server_image: str,
    encryption: BackupEncryption | None = None,
    until: Until | None = None,
    identity: Identity | None = None,
) -> Object:
    """Return the Job that writes the keys of a backup to the primaries of a new database, once."""
    name = redis.metadata.name
    task = CarryTask(
        store=store_of(storage, path, encryption, identity),
        user=REPLICATION,
        targets=targets,
        cluster=layout_of(redis).is_sharded,
        engine=redis.status.engine,
        version=redis.status.version,
        field=_FIELD,
        until=until,
    )
    pod = carrier_pod(task, redis, storage, image=image, server_image=server_image)
    job = worker_job(redis, restore_job_name(name), filler_labels(name), pod)
    return with_targets(job, targets)


def carrier_pod(
    task: CarryTask, redis: Redis, storage: BackupStorage, *, image: str, server_image: str
) -> dict[str, Any]:
    """Return the pod of a worker with a server of the database's engine beside it.

    That server loads one part at a time, and may need more memory than a server of the database,
    which may have more shards: at most the sum of all of them, since a larger part does not fit
    into the database either.
    """
    login, spec = (users_secret(redis.metadata.name), REPLICATION), redis.spec
    pod = worker_pod(task, storage, login, Resources(), image)
    sized = Resources(requests=spec.resources.requests, limits=_limits_together(redis))
    _with_scratch(pod, engine=spec.engine.value, image=server_image, sized=sized)
    _pulled(pod, redis)
    return pod


def with_targets(job: Object, targets: tuple[FillTarget, ...]) -> Object:
    """Return a Job with the histories of the primaries that its worker fills."""
    histories = {target.pod: target.replication_id for target in targets}
    job["metadata"]["annotations"] = {TARGETS_ANNOTATION: msgspec.json.encode(histories).decode()}
    return job


def _limits_together(redis: Redis) -> dict[str, str | int]:
    """Return how much memory the primaries of a database may have together; empty: any amount."""
    each = parse_quantity(redis.spec.resources.limits.get("memory", ""))
    shards = redis.spec.shards if layout_of(redis).is_sharded else 1
    return {"memory": str(int(each * shards))} if each else {}


def _with_scratch(pod: Object, *, engine: str, image: str, sized: Resources) -> None:
    """Add a server to a worker's pod that loads backups and stores nothing."""
    shared = {"name": "scratch", "mountPath": SCRATCH}
    pod["volumes"].append({"name": "scratch", "emptyDir": {}})
    pod["containers"][0]["volumeMounts"].append(shared)
    server: Object = {
        "name": "server",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", _SCRATCH],
        "env": [{"name": "SERVER", "value": f"{engine}-server"}],
        "workingDir": SCRATCH,
        "resources": resources(sized),
        "securityContext": locked_down(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [shared],
    }
    pod["containers"].append(server)


def _pulled(pod: Object, redis: Redis | None) -> None:
    """Set the pull policy and secrets of a database on a pod."""
    if redis is not None and redis.spec.pod.image_pull_secrets:
        secrets = [{"name": secret.name} for secret in redis.spec.pod.image_pull_secrets]
        pod["imagePullSecrets"] = secrets


def point_job_name(schedule: str) -> str:
    """Return the name of the Job that takes a restore point."""
    return f"{schedule}-point"


def point_job(
    schedule: RedisBackupSchedule,
    *,
    path: str,
    point: str,
    request: str,
    shards: tuple[ShardTask, ...],
    cluster: bool,
    image: str,
) -> Object:
    """Return the Job that writes a restore point into the archive of a schedule, once."""
    spec, name = schedule.spec, schedule.metadata.name
    task = PointTask(
        store=store_of(spec.template.storage, path, spec.template.encryption),
        user=BACKUP,
        name=point,
        shards=shards,
        request=request,
        cluster=cluster,
    )
    login = (users_secret(spec.redis), BACKUP)
    pod = worker_pod(task, spec.template.storage, login, spec.archive.resources, image)
    job = worker_job(schedule, point_job_name(name), point_labels(spec.redis, name), pod)
    job["spec"]["activeDeadlineSeconds"] = _POINT_SECONDS
    return job


def delete_job_name(backup: str) -> str:
    """Return the name of the Job that deletes a backup from its store."""
    return f"{backup}-delete"


def delete_job(backup: RedisBackup, *, path: str, image: str) -> Object:
    """Return the Job that deletes a backup from its store.

    It has no owner: a foreground deletion would delete it together with the backup. The operator
    removes it.
    """
    name, spec = delete_job_name(backup.metadata.name), backup.spec
    labels = {
        WORKER_LABEL: "delete",
        BACKUP_LABEL: backup.metadata.name,
        BACKUP_UID_LABEL: backup.metadata.uid,
    }
    task = DeleteTask(store=store_of(spec.storage, path, None))  # no key is needed to delete
    made = worker_job(
        backup, name, labels, worker_pod(task, spec.storage, None, spec.resources, image)
    )
    del made["metadata"]["ownerReferences"]
    return made


def worker_job(
    owner: RedisBackup | RedisBackupSchedule | RedisRestore | Redis,
    name: str,
    labels: dict[str, str],
    pod: Object,
) -> Object:
    """Return the Job of one worker, which is one attempt."""
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
            "activeDeadlineSeconds": _LONGEST_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def identity_of(backup: RedisBackup, path: str) -> Identity:
    """Return the backup that is expected in a folder of a store."""
    name = path.rpartition("/")[2]
    return Identity(backup.metadata.namespace, backup.spec.redis, name)


def worker_pod(
    task: Task, storage: BackupStorage, login: tuple[str, str] | None, wanted: Resources, image: str
) -> dict[str, Any]:
    """Return the pod of a worker with its task; `login` is a Secret and a user in it."""
    volumes: list[Object] = []
    mounts: list[Object] = []
    if login is not None:
        secret, user = login
        volumes.append(_secret("login", secret, {user: LOGIN.rpartition("/")[2]}))
        mount = {"name": "login", "mountPath": LOGIN.rpartition("/")[0], "readOnly": True}
        mounts.append(mount)
    if storage.claim is not None:
        claim = {"claimName": storage.claim.name}
        volumes.append({"name": "store", "persistentVolumeClaim": claim})
        mounts.append({"name": "store", "mountPath": FOLDER})
    bucket = storage.bucket
    if bucket is not None and bucket.secret_name:
        keys = {name: name for name in keys_of(bucket)}
        volumes.append(_secret("keys", bucket.secret_name, keys))
        mounts.append({"name": "keys", "mountPath": KEYS, "readOnly": True})
    if bucket is not None and bucket.ca_secret_name:
        folder, _, name = AUTHORITY.rpartition("/")
        held = _secret("authority", bucket.ca_secret_name, {name: name})
        held["secret"]["optional"] = True  # the worker reports what is missing
        volumes.append(held)
        mounts.append({"name": "authority", "mountPath": folder, "readOnly": True})
    if task.store.encryption is not None:
        secret = task.store.encryption.secret
        # The manifest names the key that is needed. The worker reports a Secret that is missing.
        held = {"secretName": secret, "defaultMode": 0o440, "optional": True}
        volumes.append({"name": "encryption", "secret": held})
        mounts.append({"name": "encryption", "mountPath": ENCRYPTION, "readOnly": True})
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
                "name": WORKER_CONTAINER,
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
