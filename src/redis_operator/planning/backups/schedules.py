"""What to do about one schedule of backups: a function of it, its backups and the time. Pure.

A backup has its name from the time that it was due at, so that there is never a second one for the
same time, whenever an operator died. Of several times that were missed the last is made up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from kubecontroller.custom import with_condition
from redis_operator.api.cron import Cron
from redis_operator.api.metadata import Condition, Metadata
from redis_operator.api.redisbackup import BackupPhase, RedisBackupStatus
from redis_operator.api.redisbackupschedule import (
    BackupRetention,
    ConcurrencyPolicy,
    RedisBackupSchedule,
    RedisBackupScheduleStatus,
    VerifyPolicy,
)

from .retention import Taken, surplus

__all__ = [
    "DUE_ANNOTATION",
    "KEEP_ANNOTATION",
    "OWNER_LABEL",
    "SCHEDULE_LABEL",
    "Due",
    "SchedulePlan",
    "Scheduled",
    "backup_of",
    "is_good",
    "plan_schedule",
]

SCHEDULE_LABEL: Final = "redisoperator.dev/schedule"
"""On a backup: the name of the schedule that it was taken for."""
OWNER_LABEL: Final = "redisoperator.dev/schedule-uid"
"""On a backup: the uid of that schedule. Another one of the same name has no say in it."""
DUE_ANNOTATION: Final = "redisoperator.dev/due"
"""On a backup: when it was due."""
KEEP_ANNOTATION: Final = "redisoperator.dev/keep"
"""On a backup: retention leaves it alone while this is "true"."""
_LOOK_SECONDS: Final = 60.0
_LARGE_BYTES: Final = 10 << 30  # such backups are verified on request alone
_AHEAD: Final = timedelta(hours=1)  # how far clocks of operators may differ
_ENDED: Final = (BackupPhase.COMPLETED, BackupPhase.FAILED)


class Scheduled(Struct, frozen=True):
    """A backup of a schedule as it was seen."""

    metadata: Metadata
    status: RedisBackupStatus
    verify: bool = False  # it is to be verified

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def moment(self) -> datetime:
        """When it was due; of one that was made by hand, when it was created."""
        due = _moment(self.metadata.annotations.get(DUE_ANNOTATION, ""))
        return due or self.created

    @property
    def created(self) -> datetime:
        """When the API server recorded it."""
        return _moment(self.metadata.creation_timestamp) or datetime.max.replace(tzinfo=UTC)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more becomes of it."""
        return self.status.phase in _ENDED


class Due(Struct, frozen=True):
    """A backup to create."""

    name: str
    time: datetime
    verify: bool = False


class SchedulePlan(Struct, frozen=True):
    """What is deleted, then created, what is reported, and when to plan again."""

    status: RedisBackupScheduleStatus
    create: Due | None = None
    delete: tuple[str, ...] = ()
    missed: datetime | None = None
    again: float | None = None


def is_good(status: RedisBackupStatus) -> bool:
    """Tell whether a backup can be restored, as far as is known."""
    damaged = any(c.type == "Verified" and c.status == "False" for c in status.conditions)
    return status.phase is BackupPhase.COMPLETED and not damaged


def backup_of(schedule: RedisBackupSchedule, due: Due) -> dict[str, Any]:
    """Return the `RedisBackup` that was due."""
    meta, spec = schedule.metadata, schedule.spec
    return {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "RedisBackup",
        "metadata": {
            "namespace": meta.namespace,
            "name": due.name,
            "labels": {SCHEDULE_LABEL: meta.name, OWNER_LABEL: meta.uid},
            "annotations": {DUE_ANNOTATION: _text(due.time)},
        },
        "spec": {"redis": spec.redis, **msgspec.to_builtins(spec.template), "verify": due.verify},
    }


def plan_schedule(
    schedule: RedisBackupSchedule,
    cron: Cron,
    backups: Sequence[Scheduled],
    *,
    in_use: Collection[str],
    now: datetime,
) -> SchedulePlan:
    """Decide about one schedule; `in_use` are backups that databases are restored from."""
    schedule = replace(schedule, status=_of_database(schedule, now))
    standing = [one for one in backups if not one.metadata.is_being_deleted]
    active = [one for one in standing if not one.has_ended]
    status = _seen(schedule, standing, now)
    gone = _gone(schedule, cron, standing, in_use=in_use, now=now)
    plan = SchedulePlan(status, delete=gone, again=_LOOK_SECONDS if gone or in_use else None)
    if schedule.spec.suspend:
        text = "no backup is taken: spec.suspend is true"
        return replace(plan, status=_reported(schedule, status, "Suspended", text, now))
    jitter = _jitter(schedule)
    following = cron.after(now - jitter) + jitter
    status = replace(status, next_time=_text(following))
    wait = (following - now).total_seconds()
    plan = replace(plan, status=status, again=min(wait, plan.again or wait))
    last = _last(schedule, status, backups, now)
    due = cron.until(now - jitter)
    if due <= last:
        return _settled(schedule, plan, f"the next backup starts at {_text(following)}", now)
    if _is_too_late(schedule, due + jitter, now):
        plan = replace(plan, missed=due)
        return _settled(schedule, plan, f"the backup of {_text(due)} was missed", now, passed=due)
    policy = schedule.spec.concurrency_policy
    if active and policy is ConcurrencyPolicy.FORBID:
        names = ", ".join(sorted(one.name for one in active))
        text = f"the backup of {_text(due)} starts when {names} has ended"
        status = replace(plan.status, next_time=_text(due + jitter))
        return replace(plan, status=_reported(schedule, status, "StillRunning", text, now))
    replaced: tuple[str, ...] = ()
    if policy is ConcurrencyPolicy.REPLACE:
        replaced = tuple(one.name for one in active if one.name not in in_use and not _keep(one))
    verify = _is_verified(schedule, cron, backups, due)
    create = Due(f"{schedule.metadata.name}-{due:%Y%m%d%H%M}", due, verify)
    status = replace(plan.status, last_backup=create.name)
    if verify:
        status = replace(status, last_verify_time=_text(due))
    plan = replace(plan, status=status, create=create, delete=(*plan.delete, *replaced))
    return _settled(schedule, plan, f"backup {create.name} starts", now, passed=due)


def _is_verified(
    schedule: RedisBackupSchedule, cron: Cron, backups: Sequence[Scheduled], due: datetime
) -> bool:
    """Tell whether the backup that is due is verified when it is complete.

    Once a week, whatever became of those before: in between, retention may have deleted them.
    """
    spec = schedule.spec
    if spec.template.verify or spec.verify is not VerifyPolicy.WEEKLY:
        return spec.template.verify or spec.verify is VerifyPolicy.ALWAYS
    good = [one for one in backups if is_good(one.status)]
    newest = max(good, key=lambda one: (one.moment, one.name), default=None)
    if newest is not None and newest.status.size > _LARGE_BYTES:
        return False
    known = [_moment(schedule.status.last_verify_time)]
    known += [one.moment for one in backups if one.verify]
    weeks = [one.astimezone(cron.zone).isocalendar()[:2] for one in known if one is not None]
    return due.astimezone(cron.zone).isocalendar()[:2] not in weeks


def _settled(
    schedule: RedisBackupSchedule,
    plan: SchedulePlan,
    text: str,
    now: datetime,
    *,
    passed: datetime | None = None,
) -> SchedulePlan:
    status = plan.status
    if passed is not None:
        status = replace(status, last_schedule_time=_text(passed))
    return replace(plan, status=_reported(schedule, status, "Scheduled", text, now))


def _followed(schedule: RedisBackupSchedule) -> str:
    spec = schedule.spec
    return "" if spec.suspend else f"{spec.schedule} {spec.time_zone}"


def _of_database(schedule: RedisBackupSchedule, now: datetime) -> RedisBackupScheduleStatus:
    """Return the known status; where it is of another database, only what was asked for stays.

    Neither the backups nor the archive of the previous one are of the one that is named now.
    """
    known, wanted = schedule.status, schedule.spec.redis
    if known.redis in ("", wanted):  # earlier versions did not record it
        return replace(known, redis=wanted)
    point = known.restore_point
    if point is not None and point.phase is BackupPhase.PENDING:
        point = None  # its worker marks the archive of the previous one: another follows
    return RedisBackupScheduleStatus(redis=wanted, since=_text(now), restore_point=point)


def _seen(
    schedule: RedisBackupSchedule, standing: Sequence[Scheduled], now: datetime
) -> RedisBackupScheduleStatus:
    """Return the status with what was seen of backups, and since when the schedule is followed."""
    known, meta = schedule.status, schedule.metadata
    since = known.since or meta.creation_timestamp or _text(now)
    if known.observed_generation and known.schedule != _followed(schedule):
        since = _text(now)  # of another schedule, or of none: what it had due is not made up
    good = [one for one in standing if is_good(one.status)]
    newest = max(good, key=lambda one: (one.status.completion_time, one.name), default=None)
    return replace(
        known,
        observed_generation=meta.generation,
        schedule=_followed(schedule),
        since=since,
        next_time="",
        active=tuple(sorted(one.name for one in standing if not one.has_ended)),
        kept=len(good),
        last_success=newest.name if newest is not None else known.last_success,
        last_success_time=(
            newest.status.completion_time if newest is not None else known.last_success_time
        ),
        conditions=_ended(schedule, standing, now),
    )


def _ended(
    schedule: RedisBackupSchedule, standing: Sequence[Scheduled], now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions with how the backup went that ended last."""
    ended = [one for one in standing if one.has_ended]
    last = max(ended, key=lambda one: (one.status.completion_time, one.name), default=None)
    known = schedule.status.conditions
    if last is None:
        return known
    good = last.status.phase is BackupPhase.COMPLETED
    condition = Condition(
        type="LastSucceeded",
        status="True" if good else "False",
        reason="BackupCompleted" if good else "BackupFailed",
        message=f"{last.name}: {last.status.message}",
        observed_generation=schedule.metadata.generation,
    )
    return tuple(with_condition(known, condition, _text(now)))


def _gone(
    schedule: RedisBackupSchedule,
    cron: Cron,
    standing: Sequence[Scheduled],
    *,
    in_use: Collection[str],
    now: datetime,
) -> tuple[str, ...]:
    """Return the backups that retention deletes: ended ones that are not used or held."""
    rules = schedule.spec.retention
    good = [Taken(one.name, one.moment, one.created) for one in standing if is_good(one.status)]
    failed = sorted(
        (one for one in standing if one.has_ended and not is_good(one.status)),
        key=lambda one: (one.moment, one.name),
    )
    names = {*surplus(rules, good, now=now, zone=cron.zone)}
    too_old = BackupRetention(max_age_days=rules.max_age_days)
    aged = surplus(too_old, good, now=now, zone=cron.zone)
    names -= _verified(schedule, standing) - {*aged}
    names -= _proven(standing)
    names |= {one.name for one in failed[: max(0, len(failed) - rules.keep_failed)]}
    free = [one for one in standing if one.name not in in_use and not _keep(one)]
    ordered = sorted(free, key=lambda one: (one.moment, one.name))
    return tuple(one.name for one in ordered if one.name in names)


def _verified(schedule: RedisBackupSchedule, standing: Sequence[Scheduled]) -> set[str]:
    """Return the newest backup that was verified, where backups are verified at all.

    It is the only one that is known to be whole until the next verification.
    """
    spec = schedule.spec
    if spec.verify is VerifyPolicy.NEVER and not spec.template.verify:
        return set()
    return _newest_verified(standing)


def _newest_verified(standing: Sequence[Scheduled]) -> set[str]:
    proven = [one for one in standing if is_good(one.status) and one.status.verified == "True"]
    kept = max(proven, key=lambda one: (one.moment, one.name), default=None)
    return {kept.name} if kept is not None else set()


def _proven(standing: Sequence[Scheduled]) -> set[str]:
    """Return the newest backup that was verified, as long as the newest one is yet to be.

    That may turn out to be damaged, and would have been the only one.
    """
    good = [one for one in standing if is_good(one.status)]
    newest = max(good, key=lambda one: (one.moment, one.name), default=None)
    if newest is None or not newest.verify or newest.status.verified == "True":
        return set()
    return _newest_verified(standing)


def _keep(backup: Scheduled) -> bool:
    return backup.metadata.annotations.get(KEEP_ANNOTATION) == "true"


def _last(
    schedule: RedisBackupSchedule,
    status: RedisBackupScheduleStatus,
    backups: Sequence[Scheduled],
    now: datetime,
) -> datetime:
    """Return up to when everything was created that was due: recorded, or observed.

    What lies in the future was written by a clock that was ahead; none would be taken until then.
    """
    found = [_moment(status.last_schedule_time), _moment(status.since)]
    prefix = f"{schedule.metadata.name}-"
    for one in backups:
        due = _moment(one.metadata.annotations.get(DUE_ANNOTATION, ""))
        # only of those that have the name of their time: what people annotate says nothing
        if due is not None and one.name == f"{prefix}{due:%Y%m%d%H%M}":
            found.append(due)
    passed = [one for one in found if one is not None and one <= now + _AHEAD]
    return max(passed, default=datetime.min.replace(tzinfo=UTC))


def _is_too_late(schedule: RedisBackupSchedule, start: datetime, now: datetime) -> bool:
    deadline = schedule.spec.starting_deadline_seconds
    return deadline is not None and now - start > timedelta(seconds=deadline)


def _jitter(schedule: RedisBackupSchedule) -> timedelta:
    """Return how long after it is due a backup starts: by the schedule's uid, always the same."""
    digest = hashlib.sha256(schedule.metadata.uid.encode()).digest()
    drawn = int.from_bytes(digest[:8], "big")
    return timedelta(seconds=drawn % (schedule.spec.jitter_seconds + 1))


def _reported(
    schedule: RedisBackupSchedule,
    status: RedisBackupScheduleStatus,
    reason: str,
    text: str,
    now: datetime,
) -> RedisBackupScheduleStatus:
    condition = Condition(
        type="Scheduled",
        status="False" if reason == "Suspended" else "True",
        reason=reason,
        message=text,
        observed_generation=schedule.metadata.generation,
    )
    return replace(
        status,
        message=text,
        conditions=tuple(with_condition(status.conditions, condition, _text(now))),
    )


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
