"""The archive of a schedule with `continuous`: where it lies. Pure."""

from __future__ import annotations

from redis_operator.api.redisbackupschedule import RedisBackupSchedule

__all__ = ["archive_path"]


def archive_path(schedule: RedisBackupSchedule) -> str:
    """Return the folder of a schedule's archive in its store; each shard has one of its name there.

    The uid is part of it, as it is of a backup's folder: two schedules never write to one archive,
    whatever clusters share a bucket.
    """
    meta, storage = schedule.metadata, schedule.spec.template.storage
    above = storage.claim.path if storage.claim is not None else ""
    if storage.s3 is not None:
        above = storage.s3.prefix
    own = f"{meta.namespace}/{schedule.spec.redis}/{meta.name}-{meta.uid[:8]}/archive"
    return f"{above}/{own}" if above else own
