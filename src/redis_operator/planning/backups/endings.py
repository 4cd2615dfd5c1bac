"""What is done about a backup that is being deleted, before it may go. Pure.

Workers that still write end first. Then a worker deletes the objects in the store. Whoever does not
want that, or cannot have it, sets `spec.deletionPolicy` to `Retain`: the objects stay then.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller.custom import with_condition
from redis_operator.api.metadata import Condition
from redis_operator.api.redisbackup import BackupDeletion, RedisBackup, RedisBackupStatus

from .attempts import State, Worker, held_up, reason_of, why

__all__ = ["BackupEnding", "is_held", "name_taken", "plan_backup_ending"]

_PAUSE: Final = timedelta(seconds=30)
_LOOK_SECONDS: Final = 5.0
_WAY_OUT: Final = "set spec.deletionPolicy to Retain to leave them in the store"


class BackupEnding(Struct, frozen=True):
    """What is said, and the one thing that is done: let it go, end Jobs, or start the worker."""

    status: RedisBackupStatus
    release: bool = False
    end: tuple[str, ...] = ()
    start: bool = False
    again: float | None = None


def is_held(backup: RedisBackup) -> bool:
    """Tell whether a backup may not go before its objects in the store are deleted."""
    return backup.spec.deletion_policy is BackupDeletion.DELETE


def plan_backup_ending(
    backup: RedisBackup,
    others: Sequence[Worker],
    deleting: Worker | None,
    *,
    pods: int,
    in_use: Collection[str],
    now: datetime,
) -> BackupEnding:
    """Decide about one backup: `others` are its Jobs that take and verify, `pods` theirs."""
    known = backup.status
    if not is_held(backup):
        # A worker that waits for its volume or its keys would delete them after all, later on.
        end = (deleting.job,) if deleting is not None else ()
        return BackupEnding(known, release=True, end=end)
    if deleting is not None and deleting.state is State.SUCCEEDED:
        return BackupEnding(known, release=True, end=(deleting.job,))
    if backup.metadata.name in in_use:
        text = (
            "a database is being restored from it: its objects are deleted when that is over; or "
            f"{_WAY_OUT}"
        )
        return BackupEnding(_reported(backup, "InUse", text, now), again=_LOOK_SECONDS)
    live = tuple(worker.job for worker in others if pods or worker.state is State.ACTIVE)
    if live or pods:
        text = (
            f"its worker ends first: {', '.join(live) or 'its pod is still there'}; if its node is "
            "lost permanently, remove the pod (kubectl delete pod --force -l "
            f"redisoperator.dev/backup={backup.metadata.name}), or {_WAY_OUT}"
        )
        return BackupEnding(_reported(backup, "Deleting", text, now), end=live, again=_LOOK_SECONDS)
    if deleting is None:
        text = f"its objects are deleted from {known.location}"
        return BackupEnding(_reported(backup, "Deleting", text, now), start=True)
    if deleting.state is State.ACTIVE:
        text = f"worker {deleting.job} deletes its objects from {known.location}"
        held, again = held_up(deleting, now)
        if held:
            text = f"its objects are not deleted yet: {held}; {_WAY_OUT}"
        reason = "WorkerWaits" if held else "Deleting"
        return BackupEnding(_reported(backup, reason, text, now), again=again)
    text = f"its objects could not be deleted: {why(deleting)}; this is retried, or {_WAY_OUT}"
    wait = (deleting.ended + _PAUSE - now).total_seconds() if deleting.ended is not None else 0.0
    status = _reported(backup, reason_of(deleting), text, now)
    if wait > 0:
        return BackupEnding(status, again=wait)
    return BackupEnding(status, end=(deleting.job,), again=1.0)


def name_taken(backup: RedisBackup, job: str, now: datetime) -> RedisBackupStatus:
    """Say that a Job which is not of this backup has the name of its worker."""
    text = f"Job {job} already exists and does not belong to this backup: delete it, or {_WAY_OUT}"
    return _reported(backup, "ChildRefused", text, now)


def _reported(backup: RedisBackup, reason: str, text: str, now: datetime) -> RedisBackupStatus:
    condition = Condition(
        type="Deleted",
        status="False",
        reason=reason,
        message=text,
        observed_generation=backup.metadata.generation,
    )
    known, moment = backup.status, now.strftime("%Y-%m-%dT%H:%M:%SZ")
    found = tuple(with_condition(known.conditions, condition, moment))
    return replace(known, message=text, conditions=found)
