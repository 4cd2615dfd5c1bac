"""Whether a backup can become the content of a new database, and why not. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from redis_operator.api.backup_storage import BackupStorage
from redis_operator.api.redis import BootstrapFromBackup, Redis, RestoreBound
from redis_operator.api.redisbackup import BackupPhase, RedisBackup
from redis_operator.api.redisbackupschedule import RedisBackupSchedule
from redis_operator.backup.task import Until
from redis_operator.redis.versions import Version, load_limitation

from ..modes import MODES

__all__ = [
    "Way",
    "archive_limitation",
    "damage_limitation",
    "damage_of",
    "is_same_store",
    "mixed_limitation",
    "newest_good",
    "restore_limitation",
    "until_of",
    "way_of",
]

_OWN_DATA: Final = (
    "spec.bootstrap.fromBackup: the database has data of its own, which would be overwritten: "
    "remove the field to continue with this data, or delete the database and its volumes"
)

_BOUNDS: Final = {RestoreBound.NOT_AFTER: "notAfter", RestoreBound.INCLUDE: "include"}


def restore_limitation(backup: RedisBackup | None, name: str, ours: Version) -> str | None:
    """Why a backup cannot be loaded by servers of a version, or None. Nothing is touched before."""
    path = f"spec.bootstrap.fromBackup: RedisBackup {name}"
    if backup is None:
        return f"{path} does not exist in this namespace"
    status = backup.status
    if status.phase is not BackupPhase.COMPLETED:
        phase = status.phase.value if status.phase is not None else "new"
        return f"{path} is {phase}, not Completed: {status.message or 'it has not started'}"
    wrong = load_limitation(status.engine, status.version, status.rdb, ours)
    return f"{path} {wrong}" if wrong is not None else None


def damage_of(backup: RedisBackup) -> str | None:
    """What a verification found wrong with a backup, or None: as far as is known it is whole."""
    status = backup.status
    if status.verified != "False":
        return None
    found = next((c.message for c in status.conditions if c.type == "Verified"), status.message)
    return f"was verified and is damaged: {found}"


def damage_limitation(redis: Redis, backup: RedisBackup | None) -> str | None:
    """Why a database does not begin with a backup that is known to be damaged, or None.

    A restore that has begun with it continues: its worker compares every part with the manifest.
    """
    damage = damage_of(backup) if backup is not None else None
    source, restored = redis.status.source, redis.status.restore
    begun = (source is not None and source.pod) or (restored is not None and restored.keys)
    if backup is None or damage is None or begun:
        return None
    return f"spec.bootstrap.fromBackup: RedisBackup {backup.metadata.name} {damage}"


def is_same_store(one: BackupStorage, other: BackupStorage) -> bool:
    """Tell whether two descriptions mean one store, whatever keys and folders they name."""
    return _store(one) == _store(other)


def _store(storage: BackupStorage) -> tuple[str, ...]:
    if storage.s3 is not None:
        return ("s3", storage.s3.endpoint.rstrip("/"), storage.s3.bucket)
    if storage.gcs is not None:
        return ("gcs", storage.gcs.endpoint.rstrip("/"), storage.gcs.bucket)
    if storage.azure is not None:
        found = storage.azure
        return ("azure", found.endpoint.rstrip("/"), found.account, found.container)
    return ("claim", storage.claim.name) if storage.claim is not None else ()


def archive_limitation(schedule: RedisBackupSchedule) -> str | None:
    """Why there is no archive of a schedule, or None.

    What times it has is for its worker to say: the window in the status may be old, and is of the
    shards that there are now.
    """
    if schedule.spec.continuous or schedule.status.window is not None:
        return None
    return (
        f"spec.bootstrap.fromBackup.schedule: RedisBackupSchedule {schedule.metadata.name} has "
        "spec.continuous: false, and archived nothing before"
    )


def mixed_limitation(redis: Redis) -> str | None:
    """Why a database that has a part of a backup may neither serve it nor be given another.

    One that had keys before any were given to it (on volumes of an earlier one) keeps those.
    """
    asked, restored = redis.spec.bootstrap.from_backup, redis.status.restore
    if restored is None or not restored.keys or restored.completion_time:
        return None
    if not restored.start_time:
        return None if asked is None else _OWN_DATA
    if asked is None:
        return (
            f"spec.bootstrap.fromBackup was removed before all keys of backup {restored.backup} "
            "were there: set it again, or delete the database"
        )
    if restored.backup != asked.label:
        return (
            f"spec.bootstrap.fromBackup: the database has keys of backup {restored.backup}, and "
            "those of another would be mixed with them; delete the database and create it again"
        )
    return None


def until_of(asked: BootstrapFromBackup) -> Until | None:
    """Return the moment of an archive that is asked for; None: it is a backup."""
    if asked.restore_point:
        return Until(point=asked.restore_point)
    if asked.at:
        return Until(time=asked.at, bound=_BOUNDS[asked.bound])
    return None


def newest_good(backups: Iterable[RedisBackup], begun: str) -> str:
    """Return the name of the newest backup that is worth restoring; empty: there is none.

    One that a restore has `begun` with stays the one.
    """
    good = {
        backup.metadata.name: backup.status.completion_time
        for backup in backups
        if backup.status.phase is BackupPhase.COMPLETED and backup.status.verified != "False"
    }
    return begun if begun in good else max(good, key=lambda name: (good[name], name), default="")


class Way(Enum):
    """How a new database gets the content of a backup."""

    COPY = "copy"  # its servers replicate from the worker
    CARRY = "carry"  # the worker gives keys to its primaries


def way_of(
    redis: Redis, backup: RedisBackup | None, schedule: RedisBackupSchedule | None
) -> Way | None:
    """Return the way; None: the backup is yet to be made, or the archive has not begun.

    What a store has is known to workers alone, so the way is one that does for any backup. A
    schedule has another newest one at any time: the way is the one that records which it is.
    """
    asked = redis.spec.bootstrap.from_backup
    if MODES[redis.spec.mode].is_sharded or redis.status.restore is not None:
        return Way.CARRY
    if asked is not None and asked.of_archive and asked.schedule:
        return _way_of_archive(redis, schedule)
    if asked is not None and (asked.storage is not None or asked.schedule):
        return Way.CARRY
    if backup is None or backup.status.phase is not BackupPhase.COMPLETED:
        return None
    return Way.COPY if backup.status.shards == 1 else Way.CARRY


def _way_of_archive(redis: Redis, schedule: RedisBackupSchedule | None) -> Way | None:
    """Return the way for the archive of a schedule, whose status says how many shards it has.

    Servers that have begun to copy it continue, whatever becomes of the schedule.
    """
    if redis.status.source is not None and redis.status.source.pod:
        return Way.COPY
    window = schedule.status.window if schedule is not None else None
    if window is None or not window.shards:
        return None
    return Way.COPY if len(window.shards) == 1 else Way.CARRY
