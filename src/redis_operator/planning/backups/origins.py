"""What a `RedisRestore` names: where it is, or why it cannot be restored. Pure."""

from __future__ import annotations

from msgspec import Struct

from redis_operator.api.backup_storage import BackupEncryption, BackupStorage
from redis_operator.api.redis import BootstrapFromBackup
from redis_operator.api.redisbackup import BackupPhase, RedisBackup
from redis_operator.api.redisbackupschedule import RedisBackupSchedule
from redis_operator.backup.task import Until
from redis_operator.redis.versions import Version, load_limitation

from .archives import archive_path
from .backup import place_of
from .restores import damage_of, until_of

__all__ = ["Limitation", "Origin", "origin_of", "origin_of_backup"]


class Origin(Struct, frozen=True):
    """Where a backup is kept, or with `until` an archive; `label` is its name in messages.

    `backup` is the object that names it; None: it was named by its place.
    """

    label: str
    storage: BackupStorage
    path: str
    location: str  # for people
    encryption: BackupEncryption | None = None
    until: Until | None = None
    backup: RedisBackup | None = None


class Limitation(Struct, frozen=True):
    """Why a backup cannot be restored, in a word and a sentence; `passing`: not yet."""

    reason: str
    text: str
    passing: bool = False


def origin_of(
    asked: BootstrapFromBackup,
    backup: RedisBackup | None,
    schedule: RedisBackupSchedule | None,
    ours: Version | None,
) -> Origin | Limitation:
    """Return where that is which a restore names.

    `backup` is the one by that name, or the newest of the `schedule` that is named. What a store
    holds is known to workers alone.
    """
    if asked.storage is not None:
        return _placed(asked, asked.storage, asked.path, asked.encryption)
    if asked.schedule and schedule is None:
        text = f"spec.from.schedule: RedisBackupSchedule {asked.schedule} does not exist here"
        return Limitation("NoBackup", f"{text}, or cannot be used")
    if asked.of_archive and schedule is not None:
        template = schedule.spec.template
        return _placed(asked, template.storage, archive_path(schedule), template.encryption)
    if backup is None and asked.schedule:
        text = f"spec.from: RedisBackupSchedule {asked.schedule} has no completed backup"
        return Limitation("NoBackup", text)
    if backup is None:
        text = f"spec.from: RedisBackup {asked.name} does not exist in this namespace"
        return Limitation("NoBackup", text)
    return _limitation(backup, ours) or origin_of_backup(backup)


def _limitation(backup: RedisBackup, ours: Version | None) -> Limitation | None:
    """Return why a backup cannot be restored by servers of a version, or None."""
    path, status = f"spec.from: RedisBackup {backup.metadata.name}", backup.status
    if backup.metadata.is_being_deleted:
        return Limitation("NoBackup", f"{path} is being deleted")
    if status.phase is BackupPhase.FAILED:
        return Limitation("NoBackup", f"{path} failed: {status.message}")
    if status.phase is not BackupPhase.COMPLETED:
        return Limitation("NoBackup", f"{path} is not completed yet: {status.message}", True)
    damage = damage_of(backup)
    if damage is not None:
        return Limitation("BackupDamaged", f"{path} {damage}")
    if ours is not None:
        wrong = load_limitation(status.engine, status.version, status.rdb, ours)
        if wrong is not None:
            return Limitation("TargetFailed", f"{path} {wrong}; nothing was changed")
    return None


def origin_of_backup(backup: RedisBackup) -> Origin:
    """Return where a backup is that is complete."""
    spec, status = backup.spec, backup.status
    return Origin(
        backup.metadata.name,
        spec.storage,
        status.path,
        status.location,
        spec.encryption,
        backup=backup,
    )


def _placed(
    asked: BootstrapFromBackup,
    storage: BackupStorage,
    path: str,
    encryption: BackupEncryption | None,
) -> Origin:
    location = place_of(storage, path)
    return Origin(asked.label, storage, path, location, encryption, until_of(asked))
