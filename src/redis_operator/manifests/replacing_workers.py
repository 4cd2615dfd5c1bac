"""The Jobs of workers that replace the data of a database in use for a `RedisRestore`. Pure."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from redis_operator.api.backup_storage import BackupEncryption, BackupStorage
from redis_operator.api.redis import Redis
from redis_operator.api.redisrestore import RedisRestore
from redis_operator.backup.task import CarryTask, FillTarget, Identity, Until

from .layouts import layout_of
from .names import WORKER_LABEL, filler_labels
from .objects import Object
from .stores import store_of
from .users import REPLICATION
from .workers import carrier_pod, with_targets, worker_job

__all__ = [
    "RESTORE_LABEL",
    "Content",
    "rehearse_job",
    "rehearse_job_name",
    "replace_job",
    "replace_job_name",
]

RESTORE_LABEL: Final = "redisoperator.dev/redisrestore"
"""On the workers of a RedisRestore: its name."""


class Content(Struct, frozen=True):
    """The content for a database: its location, and with `until` the moment of an archive.

    `identity` is the expected backup, where it was not named by its location.
    """

    storage: BackupStorage
    path: str
    encryption: BackupEncryption | None = None
    until: Until | None = None
    identity: Identity | None = None


def rehearse_job_name(restore: str, attempt: int) -> str:
    """Return the name of the Job that checks whether a backup can replace the data of a
    database."""
    return f"{restore}-check-{attempt}"


def replace_job_name(restore: str, attempt: int) -> str:
    """Return the name of the Job of one attempt to replace the data of a database."""
    return f"{restore}-replace-{attempt}"


def rehearse_job(
    restore: RedisRestore,
    redis: Redis,
    content: Content,
    *,
    attempt: int,
    image: str,
    server_image: str,
) -> Object:
    """Return the Job that loads a backup beside a database in use, and sends it to no server."""
    task = _task(redis, content, rehearsal=True)
    pod = carrier_pod(task, redis, content.storage, image=image, server_image=server_image)
    labels = {WORKER_LABEL: "check", RESTORE_LABEL: restore.metadata.name}
    return worker_job(restore, rehearse_job_name(restore.metadata.name, attempt), labels, pod)


def replace_job(
    restore: RedisRestore,
    redis: Redis,
    content: Content,
    *,
    attempt: int,
    targets: tuple[FillTarget, ...],
    image: str,
    server_image: str,
) -> Object:
    """Return the Job that has primaries drop their data and fills them from a backup, once."""
    name = replace_job_name(restore.metadata.name, attempt)
    task = _task(redis, content, targets)
    pod = carrier_pod(task, redis, content.storage, image=image, server_image=server_image)
    labels = filler_labels(redis.metadata.name) | {RESTORE_LABEL: restore.metadata.name}
    return with_targets(worker_job(restore, name, labels, pod), targets)


def _task(
    redis: Redis, content: Content, targets: tuple[FillTarget, ...] = (), *, rehearsal: bool = False
) -> CarryTask:
    return CarryTask(
        store=store_of(content.storage, content.path, content.encryption, content.identity),
        user=REPLICATION,
        targets=targets,
        cluster=layout_of(redis).is_sharded,
        engine=redis.status.engine,
        version=redis.status.version,
        field="spec.from",
        until=content.until,
        empty=not rehearsal,
        rehearsal=rehearsal,
    )
