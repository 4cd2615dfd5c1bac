"""Backups that are taken before something that could not be undone. Pure.

Where to is what a schedule of the database says: one place for stores and keys. A schedule that is
suspended will do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from redis_operator.api.metadata import Condition, Metadata
from redis_operator.api.redisbackup import BackupPhase, RedisBackupStatus
from redis_operator.api.redisbackupschedule import RedisBackupSchedule

from .schedules import KEEP_ANNOTATION, OWNER_LABEL, SCHEDULE_LABEL, is_good

__all__ = [
    "LAST",
    "UPDATE",
    "Precaution",
    "backed_up",
    "precaution_backup",
    "precaution_limitation",
    "update_name",
]

_LONGEST: Final = 28  # of a database's name, so that with what follows it has 50 characters


class Precaution(Struct, frozen=True):
    """Why a backup is taken: the field that asks for it, and how to do without."""

    word: str
    field: str
    way_out: str
    stays: bool = False  # retention leaves it alone

    def name(self, database: str, mark: str) -> str:
        """Return the name of the backup: always the same for the same reason."""
        return f"{database[:_LONGEST]}-{self.word}-{mark}"


UPDATE: Final = Precaution(
    "before", "spec.update.backupFirst", "set spec.update.backupFirst to false"
)
LAST: Final = Precaution(
    "last", "spec.deletion.policy", "set spec.deletion.policy to Delete or Retain", stays=True
)


def update_name(meta: Metadata) -> str:
    """Return the name of the backup before an update of a database.

    It has the database's uid: the backup of an earlier one of the same name will not do.
    """
    return UPDATE.name(meta.name, f"{meta.uid[:8]}-{meta.generation}")


def precaution_limitation(
    why: Precaution,
    name: str,
    status: RedisBackupStatus | None,
    *,
    has_schedule: bool,
    verify: bool = False,
) -> str | None:
    """Why what is wanted has to wait for a backup, or None: it is complete.

    One that is to be verified (`verify`) also has to be found good.
    """
    if status is None:
        if has_schedule:
            return f"{why.field}: RedisBackup {name} is taken first"
        return (
            f"{why.field}: there is no RedisBackupSchedule for this database that says where to; "
            f"create one (spec.suspend may be true), or {why.way_out}"
        )
    if status.phase is BackupPhase.COMPLETED:
        return _unverified(why, name, status) if verify else None
    if status.phase is BackupPhase.FAILED:
        return (
            f"{why.field}: RedisBackup {name} failed: {status.message}; delete it to have another "
            f"one taken, or {why.way_out}"
        )
    phase = status.phase.value if status.phase is not None else "new"
    return f"{why.field}: RedisBackup {name} is taken first, and is {phase}: {status.message}"


def _unverified(why: Precaution, name: str, status: RedisBackupStatus) -> str | None:
    if status.verified == "True":
        return None
    message = next((c.message for c in status.conditions if c.type == "Verified"), "")
    if status.verified == "False":
        return (
            f"{why.field}: RedisBackup {name} is damaged: {message}; delete it to have another one "
            f"taken, or {why.way_out}"
        )
    return f"{why.field}: RedisBackup {name} is not verified yet: {message}; wait, or {why.way_out}"


def precaution_backup(why: Precaution, schedule: RedisBackupSchedule, name: str) -> dict[str, Any]:
    """Return the backup to create, by the template of a schedule, which keeps it like its own.

    The last one of a database stays until a person deletes it: backups of another database that is
    created under the same name would push it out.
    """
    meta, spec = schedule.metadata, schedule.spec
    kept = {"annotations": {KEEP_ANNOTATION: "true"}} if why.stays else {}
    return {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "RedisBackup",
        "metadata": {
            "namespace": meta.namespace,
            "name": name,
            "labels": {SCHEDULE_LABEL: meta.name, OWNER_LABEL: meta.uid},
            **kept,
        },
        "spec": {"redis": spec.redis, **msgspec.to_builtins(spec.template)},
    }


def backed_up(backups: Mapping[str, RedisBackupStatus]) -> Condition:
    """Say whether there is a good backup of a database, and none has failed since."""
    good = [(one.completion_time, name) for name, one in backups.items() if is_good(one)]
    time, newest = max(good, default=("", ""))
    failed = [
        (one.completion_time, name, one.message)
        for name, one in backups.items()
        if one.phase is BackupPhase.FAILED and one.completion_time > time
    ]
    kept = f"; the newest good one is {newest} of {time}" if newest else ""
    if failed:
        _, name, why = max(failed)
        text = f"RedisBackup {name} failed: {why}{kept}"
        return Condition(type="BackedUp", status="False", reason="BackupFailed", message=text)
    if not newest:
        text = "no backup has completed yet"
        return Condition(type="BackedUp", status="False", reason="NoBackup", message=text)
    text = f"RedisBackup {newest} ended at {time}"
    return Condition(type="BackedUp", status="True", reason="BackupCompleted", message=text)
