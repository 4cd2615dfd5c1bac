"""What is known of a `RedisRestore`, and what can be decided about it: values of every phase. Pure.

How clients can connect again is decided here too: every phase in which they cannot ends so.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller.custom import with_condition
from redis_operator.api.metadata import Condition
from redis_operator.api.redis import Redis
from redis_operator.api.redisbackup import RedisBackup
from redis_operator.api.redisrestore import RedisRestore, RedisRestoreStatus, RestorePhase
from redis_operator.api.status import RestoringStatus

from ..reporting.conditions import bounded
from .attempts import Worker, held_up
from .origins import Limitation, Origin

__all__ = [
    "ATTEMPTS",
    "CLOSED_PHASES",
    "ENDED_PHASES",
    "LOOK_SECONDS",
    "PAUSE",
    "REPLACING_PHASES",
    "SOON_SECONDS",
    "RestoreFacts",
    "RestorePlan",
    "as_text",
    "fail",
    "is_late",
    "is_whole",
    "kept_text",
    "message_of",
    "read_time",
    "reason_reported",
    "reported",
    "restoring_of",
    "waits",
    "works",
]

CLOSED_PHASES: Final = (
    RestorePhase.CLOSING,
    RestorePhase.SAVING,
    RestorePhase.RESTORING,
    RestorePhase.ROLLING_BACK,
)
"""While a restore is in one of these, servers of its database start without access for clients."""
REPLACING_PHASES: Final = (RestorePhase.RESTORING, RestorePhase.ROLLING_BACK)
"""While it is in one of these, the database may have a part of its data, or none."""
ENDED_PHASES: Final = (RestorePhase.COMPLETED, RestorePhase.FAILED)
ATTEMPTS: Final = 3
PAUSE: Final = timedelta(seconds=10)
LOOK_SECONDS: Final = 5.0
SOON_SECONDS: Final = 0.5
_PATIENCE: Final = timedelta(minutes=5)  # clients wait: a step that does not begin is given up
_WRONG: Final = (("Degraded", "True"), ("AuthApplied", "False"))
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


class RestoreFacts(Struct, frozen=True):
    """What is known besides the restore itself.

    `origin` is the backup that is restored, `kept` that of the data before. `earlier` is another
    restore of the same database that comes first, `busy` are backups of it that are being read.
    `worker` is that of the present attempt; `others` are Jobs of earlier ones, which are ended, and
    `living`: a worker of one may still run.
    `outdated`: primaries are others than those that the worker was named. `orphaned`: the database
    was left in the middle by a restore that is gone. `refresh`: within so long a changed Secret is
    in the files of every pod.
    """

    redis: Redis | None
    origin: Origin | Limitation
    now: datetime
    earlier: str = ""
    busy: tuple[str, ...] = ()
    kept: RedisBackup | None = None
    worker: Worker | None = None
    others: tuple[str, ...] = ()
    living: bool = False
    outdated: bool = False
    orphaned: bool = False
    refresh: timedelta = timedelta()


class RestorePlan(Struct, frozen=True):
    """What is said, and then done: take the backup, start the worker of the attempt, end Jobs."""

    status: RedisRestoreStatus
    save: bool = False
    start: bool = False
    end: tuple[str, ...] = ()
    again: float | None = None


def is_whole(status: RedisRestoreStatus) -> bool:
    """Tell whether a restore is done with the data: the database has all of one backup."""
    replaced = bool(status.kept_uid)
    return status.phase is RestorePhase.COMPLETED or (
        status.phase in (RestorePhase.OPENING, RestorePhase.FAILED) and replaced
    )


def fail(restore: RedisRestore, facts: RestoreFacts, reason: str, text: str) -> RestorePlan:
    """Give up. Where clients may have no access, they get it before this is reported as over."""
    end = (facts.worker.job,) if facts.worker is not None else ()
    if restore.status.phase in CLOSED_PHASES and facts.redis is not None:
        message = f"{text}; clients of Redis {restore.spec.redis} can connect again"
        status = reported(restore, RestorePhase.OPENING, reason, message, facts.now)
        status = replace(status, failure=bounded(text), failure_reason=reason)
        return RestorePlan(status, end=end, again=SOON_SECONDS)
    status = reported(restore, RestorePhase.FAILED, reason, text, facts.now)
    return RestorePlan(replace(status, completion_time=as_text(facts.now)), end=end)


def works(restore: RedisRestore, worker: Worker, does: str, facts: RestoreFacts) -> RestorePlan:
    """Say what a worker does, or why it does not start."""
    held, again = held_up(worker, facts.now)
    reason = "WorkerWaits" if held else "Working"
    text = held or f"worker {worker.job} {does}"
    return RestorePlan(reported(restore, None, reason, text, facts.now), again=again)


def waits(restore: RedisRestore, facts: RestoreFacts) -> RedisRestore:
    """Return the restore with the time since when the next worker has not been started."""
    since = restore.status.waiting_time or as_text(facts.now)
    return replace(restore, status=replace(restore.status, waiting_time=since))


def restoring_of(restore: RedisRestore, facts: RestoreFacts) -> RestoringStatus | None:
    """Return what the database says of this very restore."""
    restoring = facts.redis.status.restoring if facts.redis is not None else None
    return restoring if restoring is not None and restoring.uid == restore.metadata.uid else None


def message_of(redis: Redis | None) -> str:
    """Return what a database says of itself: what is wrong with it, or else how it is."""
    if redis is None:
        return "there is no database"
    for found in redis.status.conditions:
        if (found.type, found.status) in _WRONG:
            return found.message
    return redis.status.message or f"Redis {redis.metadata.name} has not been observed yet"


def kept_text(status: RedisRestoreStatus) -> str:
    """Return where the data that was replaced is, for people."""
    return f"RedisBackup {status.kept} ({status.kept_location})"


def is_late(since: str, now: datetime) -> bool:
    """Tell whether a step that clients wait for has taken too long."""
    return bool(since) and now - read_time(since) > _PATIENCE


def reason_reported(status: RedisRestoreStatus) -> str:
    """Return the reason of what was said last."""
    return next((c.reason for c in status.conditions if c.type == "Complete"), "")


def reported(
    restore: RedisRestore, phase: RestorePhase | None, reason: str, text: str, now: datetime
) -> RedisRestoreStatus:
    """Return the status with a phase (None: the one that it has) and what there is to say."""
    known, generation = restore.status, restore.metadata.generation
    done = "True" if phase is RestorePhase.COMPLETED else "False"
    complete = Condition(
        type="Complete",
        status=done,
        reason=reason,
        message=bounded(text),
        observed_generation=generation,
    )
    return replace(
        known,
        observed_generation=generation,
        phase=phase or known.phase,
        message=bounded(text),
        conditions=tuple(with_condition(known.conditions, complete, as_text(now))),
    )


def as_text(moment: datetime) -> str:
    """Return a time as the API has it."""
    return moment.strftime(_TIME)


def read_time(text: str) -> datetime:
    """Read a time of the API."""
    return datetime.strptime(text, _TIME).replace(tzinfo=UTC)
