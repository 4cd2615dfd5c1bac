"""Whether a backup that is complete can be restored: who is to find out, and what came of it. Pure.

A worker that fails for reasons of its own says nothing about the backup, and is followed by
another one. A damaged backup stays damaged.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller.custom import with_condition
from redis_operator.api.metadata import Condition
from redis_operator.api.redisbackup import BackupPhase, RedisBackup, RedisBackupStatus
from redis_operator.backup.task import Report

from .attempts import State, Worker, held_up, reason_of, why

__all__ = ["VERIFIED", "Verification", "plan_verification", "unverified"]

VERIFIED = "Verified"
_DAMAGED = "BackupDamaged"
_PAUSE = timedelta(seconds=10)


class Verification(Struct, frozen=True):
    """What is reported, which attempt starts (0: none), which Job is over, when to plan again."""

    status: RedisBackupStatus
    start: int = 0
    over: str = ""
    again: float | None = None


def plan_verification(
    backup: RedisBackup, workers: tuple[Worker, ...], *, now: datetime
) -> Verification:
    """Decide about one backup."""
    known = backup.status
    last = max(workers, key=lambda worker: worker.attempt, default=None)
    over = last.job if last is not None and last.state is not State.ACTIVE else ""
    if known.phase is not BackupPhase.COMPLETED or not backup.spec.verify:
        return Verification(known)
    if any(c.type == VERIFIED and c.status in ("True", "False") for c in known.conditions):
        return Verification(known, over=over)
    if not known.image:
        text = "the image of the servers that it was read from is not known"
        return Verification(_reported(backup, "Unknown", "NoImage", text, now))
    if last is None:
        text = "a scratch server is to load it"
        return Verification(_reported(backup, "Unknown", "Verifying", text, now), start=1)
    if last.state is State.ACTIVE:
        held, again = held_up(last, now)
        text = held or f"worker {last.job} loads it into a scratch server"
        reason = "WorkerWaits" if held else "Verifying"
        return Verification(_reported(backup, "Unknown", reason, text, now), again=again)
    if last.state is State.SUCCEEDED and last.report is not None:
        return Verification(_counted(backup, last.report, now), over=over)
    reason, text = reason_of(last), why(last)
    if reason == _DAMAGED:
        return Verification(_reported(backup, "False", reason, text, now), over=over)
    message = f"attempt {last.attempt} of {backup.spec.attempts} to verify it failed: {text}"
    status = _reported(backup, "Unknown", reason, message, now)
    if last.attempt >= backup.spec.attempts:
        return Verification(status, over=over)
    wait = ((last.ended or now) + _PAUSE * last.attempt - now).total_seconds()
    if wait > 0:
        return Verification(status, over=over, again=wait)
    return Verification(status, start=last.attempt + 1, over=over)


def unverified(backup: RedisBackup, reason: str, text: str, now: datetime) -> RedisBackupStatus:
    """Say why it is not known whether a backup can be restored."""
    return _reported(backup, "Unknown", reason, text, now)


def _counted(backup: RedisBackup, report: Report, now: datetime) -> RedisBackupStatus:
    keys = {str(part["name"]): int(part["keys"]) for part in report.parts}
    text = f"a scratch server of {backup.status.image} loaded every part: {report.keys} keys"
    parts = tuple(replace(p, keys=keys.get(p.name, p.keys)) for p in backup.status.parts)
    found = _reported(backup, "True", "Loaded", text, now)
    return replace(found, keys=report.keys, parts=parts)


def _reported(
    backup: RedisBackup, status: str, reason: str, text: str, now: datetime
) -> RedisBackupStatus:
    new = Condition(
        type=VERIFIED,
        status=status,
        reason=reason,
        message=text,
        observed_generation=backup.metadata.generation,
    )
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    known = backup.status
    conditions = tuple(with_condition(known.conditions, new, moment))
    return replace(known, verified=status, conditions=conditions)
