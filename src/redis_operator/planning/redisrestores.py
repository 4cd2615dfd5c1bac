"""What to do about one `RedisRestore`, and what to say of it: a function of what is there. Pure.

The order keeps one promise: at any moment either the database has its data, or a backup has them
that is complete and holds every write that a client was told of. The phases, each written down
before anything is done in it:

1. Checking: the backup is read and loaded beside the database, which serves meanwhile.
2. Closing: clients cannot connect, and every replica has all that was written.
3. Saving: a backup of the present data is taken. Up to here a failure changes nothing.
4. Restoring: a worker has the primaries drop what they have, and gives them the backup.
5. RollingBack: that failed for good: the same with the backup of step 3, until it is done.

Clients are let in when Completed or Failed is written.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller.custom.conditions import with_condition
from redis_operator.api.metadata import Condition
from redis_operator.api.redis import Redis
from redis_operator.api.redisbackup import BackupPhase, RedisBackup
from redis_operator.api.redisrestore import RedisRestore, RedisRestoreStatus, RestorePhase
from redis_operator.api.status import Phase, RestoringStatus

from .attempts import State, Worker, held_up, reason_of, why
from .conditions import bounded
from .origins import Limitation, Origin

__all__ = [
    "CLOSED_PHASES",
    "ENDED_PHASES",
    "REPLACING_PHASES",
    "RestoreFacts",
    "RestorePlan",
    "is_whole",
    "kept_name",
    "not_saved",
    "plan_restore",
]

CLOSED_PHASES: Final = (
    RestorePhase.CLOSING,
    RestorePhase.SAVING,
    RestorePhase.RESTORING,
    RestorePhase.ROLLING_BACK,
)
"""While a restore is in one of these, its database lets no client in."""
REPLACING_PHASES: Final = (RestorePhase.RESTORING, RestorePhase.ROLLING_BACK)
"""While it is in one of these, the database may have a part of its data, or none."""
ENDED_PHASES: Final = (RestorePhase.COMPLETED, RestorePhase.FAILED)
_FOR_GOOD: Final = ("BackupDamaged", "TargetFailed", "KeyMissing")
"""Why a worker that checks fails in the same way again."""
_ATTEMPTS: Final = 3
_SAVES: Final = 5
_PAUSE: Final = timedelta(seconds=10)
_PATIENCE: Final = timedelta(minutes=5)  # clients wait: who cannot be closed is opened again
_LOOK_SECONDS: Final = 5.0
_SOON_SECONDS: Final = 0.5
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


class RestoreFacts(Struct, frozen=True):
    """What is known besides the restore itself.

    `origin` is the backup that is restored, `kept` that of the data before. `earlier` is another
    restore of the same database that comes first, `busy` are backups of it that are being read.
    `worker` is that of the present attempt; `others` are Jobs of earlier ones, which are ended, and
    `living`: a worker of one may still run.
    `outdated`: primaries are others than those that the worker was named. `orphaned`: the database
    was left in the middle by a restore that is gone.
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


class RestorePlan(Struct, frozen=True):
    """What is said, and then done: take the backup, start the worker of the attempt, end Jobs."""

    status: RedisRestoreStatus
    save: bool = False
    start: bool = False
    end: tuple[str, ...] = ()
    again: float | None = None


def kept_name(restore: RedisRestore, saves: int) -> str:
    """Return the name of the backup that keeps the data that are replaced."""
    meta = restore.metadata
    more = f"-{saves}" if saves > 1 else ""
    return f"{meta.name[:30]}-kept-{meta.uid[:8]}{more}"


def is_whole(status: RedisRestoreStatus) -> bool:
    """Tell whether a restore has ended with all data of one backup in the database."""
    replaced = bool(status.kept_uid)
    return status.phase is RestorePhase.COMPLETED or (
        status.phase is RestorePhase.FAILED and replaced
    )


def plan_restore(restore: RedisRestore, facts: RestoreFacts) -> RestorePlan:
    """Decide about one restore. Jobs of earlier attempts end, whoever was to end them."""
    plan = _plan(restore, facts)
    return replace(plan, end=(*plan.end, *facts.others)) if facts.others else plan


def _plan(restore: RedisRestore, facts: RestoreFacts) -> RestorePlan:
    phase = restore.status.phase
    if phase in ENDED_PHASES:
        return RestorePlan(restore.status, end=_job_of(facts))
    if phase in REPLACING_PHASES:
        return _replacing(restore, facts)
    if restore.metadata.is_being_deleted:
        return _fail(restore, facts, "Deleted", "it was deleted before any data was replaced")
    if phase is RestorePhase.CLOSING:
        return _closing(restore, facts)
    if phase is RestorePhase.SAVING:
        return _saving(restore, facts)
    reason, text = _refusal(restore, facts)
    if reason:
        return _fail(restore, facts, reason, text)
    if phase is RestorePhase.CHECKING:
        return _checking(restore, facts)
    reason, text = _wait(restore, facts)
    if reason:
        status = _said(restore, RestorePhase.PENDING, reason, text, facts.now)
        return RestorePlan(status, again=_LOOK_SECONDS)
    assert isinstance(facts.origin, Origin)
    status = _said(restore, RestorePhase.CHECKING, "Checking", "the backup is read", facts.now)
    return RestorePlan(
        replace(
            status,
            start_time=_text(facts.now),
            backup=facts.origin.label,
            location=facts.origin.location,
            attempt=1,
        ),
        start=True,
    )


def _refusal(restore: RedisRestore, facts: RestoreFacts) -> tuple[str, str]:
    """Say why nothing can come of it without a person, in a word and a sentence; empty: it can.

    A restore that waited for a person would replace data at a time that surprises people.
    """
    redis, name, discard = facts.redis, restore.spec.redis, restore.spec.discard
    if redis is None:
        return "NoDatabase", f"spec.redis: there is no Redis {name} in this namespace"
    if discard is not None and discard.uid and discard.uid != redis.metadata.uid:
        return "OtherDatabase", (
            f"spec.discard.uid: the uid of Redis {name} is {redis.metadata.uid}: it is another "
            "database than the one to replace"
        )
    if redis.metadata.is_being_deleted:
        return "NotRunning", f"spec.redis: Redis {name} is being deleted"
    if redis.status.binding is None:
        return "NotFormed", (
            f"spec.redis: Redis {name} was never in use: a new database is given a backup by its "
            "own spec.bootstrap.fromBackup"
        )
    if redis.spec.hibernate or redis.status.phase in (Phase.HIBERNATED, Phase.WAKING):
        return "NotRunning", f"spec.redis: Redis {name} hibernates; wake it first"
    if redis.spec.paused:
        return "Paused", f"spec.redis: spec.paused of Redis {name} is set; remove it first"
    if isinstance(facts.origin, Limitation) and not facts.origin.passing:
        return facts.origin.reason, facts.origin.text
    return "", ""


def _wait(restore: RedisRestore, facts: RestoreFacts) -> tuple[str, str]:
    """Say what is waited for that passes by itself; empty: nothing."""
    redis = facts.redis
    assert redis is not None
    if facts.earlier:
        return "AnotherRestore", f"RedisRestore {facts.earlier} of the same database comes first"
    if isinstance(facts.origin, Limitation):
        return facts.origin.reason, facts.origin.text
    if facts.busy:
        return "BackupRuns", f"RedisBackup {', '.join(facts.busy)} of the database ends first"
    if facts.orphaned:
        return "", ""
    seen = redis.status.observed_generation == redis.metadata.generation
    if redis.status.phase is not Phase.READY or not seen:
        phase = redis.status.phase.value if redis.status.phase is not None and seen else "changing"
        return "NotReady", (
            f"Redis {restore.spec.redis} is {phase}: {redis.status.message}; the restore begins "
            "when it is Ready"
        )
    return "", ""


def _checking(restore: RedisRestore, facts: RestoreFacts) -> RestorePlan:
    """Have the backup read and loaded, while the database serves."""
    known, worker = restore.status, facts.worker
    if worker is None:
        return RestorePlan(known, start=not facts.living, again=_LOOK_SECONDS)
    if worker.state is State.ACTIVE:
        return _works(restore, worker, "loads the backup to see that it can be restored", facts)
    if worker.state is State.FAILED:
        failures = known.failures + 1
        if failures >= _ATTEMPTS or reason_of(worker) in _FOR_GOOD:
            text = f"spec.from: {why(worker)}; nothing was changed"
            return _fail(restore, facts, reason_of(worker), text)
        return _again(restore, facts, worker, failures)
    reason, text = _wait(restore, facts)
    if reason:
        status = _said(restore, RestorePhase.CHECKING, reason, text, facts.now)
        return RestorePlan(status, again=_LOOK_SECONDS)
    text = f"clients of Redis {restore.spec.redis} cannot connect"
    status = _said(restore, RestorePhase.CLOSING, "Closing", text, facts.now)
    keys = worker.report.keys if worker.report is not None else None
    status = replace(
        status, keys=keys, closed_time=_text(facts.now), saves=1, failures=0, attempt=0, job=""
    )
    return RestorePlan(status, end=(worker.job,))


def _closing(restore: RedisRestore, facts: RestoreFacts) -> RestorePlan:
    """Wait until no client can write, and nothing that was written is on a primary alone."""
    known = restore.status
    gone = _gone(restore, facts)
    if gone is not None:
        return gone
    told = _restoring(restore, facts)
    if told is None or not told.closed:
        late = _late(known.closed_time, facts.now)
        text = f"clients of Redis {restore.spec.redis} cannot connect: {_message(facts.redis)}"
        if late:
            return _fail(restore, facts, "NotClosed", f"{text}; that took too long")
        status = _said(restore, RestorePhase.CLOSING, "Closing", text, facts.now)
        return RestorePlan(status, again=_LOOK_SECONDS)
    name = kept_name(restore, known.saves)
    text = f"RedisBackup {name} of the present data is taken"
    status = _said(restore, RestorePhase.SAVING, "Saving", text, facts.now)
    return RestorePlan(replace(status, servers=told.servers, kept=name), save=True)


def _saving(restore: RedisRestore, facts: RestoreFacts) -> RestorePlan:
    """Wait until the present data are in a backup that misses nothing."""
    known, kept = restore.status, facts.kept
    gone = _gone(restore, facts)
    if gone is not None:
        return gone
    late = _late(known.closed_time, facts.now)
    if kept is None and late:
        return not_saved(restore, facts, "it cannot be created")
    if kept is None:
        return RestorePlan(known, save=True, again=_LOOK_SECONDS)
    status, verify = kept.status, restore.spec.keep.verify
    text = f"RedisBackup {known.kept} of the present data: {status.message or 'it starts'}"
    waits = _said(restore, RestorePhase.SAVING, "Saving", text, facts.now)
    waits = replace(waits, kept_location=status.location)
    if status.phase is BackupPhase.FAILED or (verify and status.verified == "False"):
        return _fail(restore, facts, "NotSaved", f"{text}; nothing was changed")
    if late and status.phase in (None, BackupPhase.PENDING):
        return _fail(restore, facts, "NotSaved", f"{text}; that took too long")
    if status.phase is not BackupPhase.COMPLETED or (verify and status.verified != "True"):
        return RestorePlan(waits, again=_LOOK_SECONDS)
    told = _restoring(restore, facts)
    if told is not None and told.servers != known.servers:
        return _close_again(restore, facts)
    if told is None or not told.closed or facts.busy:
        held = ", ".join(facts.busy)
        text = f"RedisBackup {held} ends first" if held else _message(facts.redis)
        return RestorePlan(
            _said(restore, RestorePhase.SAVING, "Saving", text, facts.now), again=_LOOK_SECONDS
        )
    text = f"the data is in RedisBackup {known.kept}; those of the backup take their place"
    begins = _said(restore, RestorePhase.RESTORING, "Restoring", text, facts.now)
    return RestorePlan(
        replace(
            begins,
            kept_uid=kept.metadata.uid,
            kept_location=status.location,
            attempt=1,
            failures=0,
        ),
        again=_SOON_SECONDS,
    )


def not_saved(restore: RedisRestore, facts: RestoreFacts, why_not: str) -> RestorePlan:
    """Give up: the present data cannot be kept, so that they are not replaced."""
    text = f"RedisBackup {restore.status.kept} of the present data: {why_not}"
    return _fail(restore, facts, "NotSaved", f"{text}; nothing was changed")


def _close_again(restore: RedisRestore, facts: RestoreFacts) -> RestorePlan:
    """Take another backup: a server that began again may have let clients in for a moment."""
    known = restore.status
    if known.saves >= _SAVES:
        text = f"servers of Redis {restore.spec.redis} restart repeatedly; nothing was changed"
        return _fail(restore, facts, "NotSaved", text)
    text = "a server restarted since clients were locked out: the data is backed up again"
    status = _said(restore, RestorePhase.CLOSING, "Closing", text, facts.now)
    return RestorePlan(
        replace(status, saves=known.saves + 1, closed_time=_text(facts.now)), again=_SOON_SECONDS
    )


def _replacing(restore: RedisRestore, facts: RestoreFacts) -> RestorePlan:
    """Have workers replace the data until one did that no primary has outlived."""
    known, worker = restore.status, facts.worker
    rolls_back = known.phase is RestorePhase.ROLLING_BACK
    if facts.redis is None:
        text = f"Redis {restore.spec.redis} was deleted; its data is in {_kept(known)}"
        return _fail(restore, facts, "NoDatabase", text)
    if restore.metadata.is_being_deleted and not rolls_back:
        return _roll_back(restore, facts, "Deleted", "it was deleted before it was done")
    told = _restoring(restore, facts)
    if worker is None:
        ready = told is not None and told.closed and told.replacing
        text = f"worker {known.attempt} starts when {_message(facts.redis)}"
        status = known if ready else _said(restore, None, "WorkerWaits", text, facts.now)
        again = _SOON_SECONDS if ready else _LOOK_SECONDS
        return RestorePlan(status, start=ready and not facts.living, again=again)
    if worker.state is State.ACTIVE:
        return _works(restore, worker, "restores the keys of the backup to the primaries", facts)
    if worker.state is State.FAILED and not facts.outdated:
        failures = known.failures + 1
        for_good = reason_of(worker) == "BackupDamaged" or failures >= _ATTEMPTS
        if for_good and not rolls_back:
            return _roll_back(restore, facts, reason_of(worker), why(worker))
        return _again(restore, facts, worker, failures)
    if facts.outdated:
        text = "a primary has changed since it was given keys: all are given again"
        status = _said(restore, None, "Restoring", text, facts.now)
        return RestorePlan(
            replace(status, attempt=known.attempt + 1, job=""),
            end=(worker.job,),
            again=_SOON_SECONDS,
        )
    if told is None or told.filled != worker.job:
        status = _said(restore, None, "Restoring", _message(facts.redis), facts.now)
        return RestorePlan(status, again=_LOOK_SECONDS)
    return _done(restore, facts, worker)


def _done(restore: RedisRestore, facts: RestoreFacts, worker: Worker) -> RestorePlan:
    known = restore.status
    if known.phase is RestorePhase.ROLLING_BACK:
        text = f"{known.failure}; the database has again what it had, which is in {_kept(known)}"
        return _fail(restore, facts, known.failure_reason, text)
    keys = worker.report.keys if worker.report is not None else known.keys
    text = f"Redis {restore.spec.redis} has {keys} keys of {known.location}; before: {_kept(known)}"
    status = _said(restore, RestorePhase.COMPLETED, "Completed", text, facts.now)
    ended = replace(status, keys=keys, completion_time=_text(facts.now))
    return RestorePlan(ended, end=(worker.job,))


def _roll_back(restore: RedisRestore, facts: RestoreFacts, reason: str, text: str) -> RestorePlan:
    """Have the database given back what it had."""
    known = restore.status
    failure = f"the backup could not be restored: {text}"
    said = f"{failure}; the database is given back what it had, from {_kept(known)}"
    status = _said(restore, RestorePhase.ROLLING_BACK, reason, said, facts.now)
    return RestorePlan(
        replace(
            status,
            failure=failure,
            failure_reason=reason,
            attempt=known.attempt + 1,
            failures=0,
            job="",
        ),
        end=_job_of(facts),
        again=_SOON_SECONDS,
    )


def _again(
    restore: RedisRestore, facts: RestoreFacts, worker: Worker, failures: int
) -> RestorePlan:
    """Have another worker try a little later."""
    pause = _PAUSE * min(failures, _ATTEMPTS)
    left = (worker.ended + pause - facts.now).total_seconds() if worker.ended is not None else 0.0
    text = f"attempt {worker.attempt} failed: {why(worker)}; another worker follows"
    status = _said(restore, None, reason_of(worker), text, facts.now)
    if left > 0:
        return RestorePlan(status, again=left)
    return RestorePlan(
        replace(status, attempt=restore.status.attempt + 1, failures=failures, job=""),
        end=(worker.job,),
        again=_SOON_SECONDS,
    )


def _works(restore: RedisRestore, worker: Worker, does: str, facts: RestoreFacts) -> RestorePlan:
    held, again = held_up(worker, facts.now)
    reason = "WorkerWaits" if held else "Working"
    text = held or f"worker {worker.job} {does}"
    return RestorePlan(_said(restore, None, reason, text, facts.now), again=again)


def _gone(restore: RedisRestore, facts: RestoreFacts) -> RestorePlan | None:
    if facts.redis is None or facts.redis.metadata.is_being_deleted:
        return _fail(restore, facts, "NoDatabase", f"Redis {restore.spec.redis} was deleted")
    return None


def _restoring(restore: RedisRestore, facts: RestoreFacts) -> RestoringStatus | None:
    """Return what the database says of this very restore."""
    told = facts.redis.status.restoring if facts.redis is not None else None
    return told if told is not None and told.uid == restore.metadata.uid else None


def _message(redis: Redis | None) -> str:
    return redis.status.message if redis is not None else "there is no database"


def _kept(status: RedisRestoreStatus) -> str:
    return f"RedisBackup {status.kept} ({status.kept_location})"


def _job_of(facts: RestoreFacts) -> tuple[str, ...]:
    return (facts.worker.job,) if facts.worker is not None else ()


def _late(since: str, now: datetime) -> bool:
    if not since:
        return False
    return now - datetime.strptime(since, _TIME).replace(tzinfo=UTC) > _PATIENCE


def _fail(restore: RedisRestore, facts: RestoreFacts, reason: str, text: str) -> RestorePlan:
    status = _said(restore, RestorePhase.FAILED, reason, text, facts.now)
    return RestorePlan(replace(status, completion_time=_text(facts.now)), end=_job_of(facts))


def _said(
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
        conditions=tuple(with_condition(known.conditions, complete, _text(now))),
    )


def _text(moment: datetime) -> str:
    return moment.strftime(_TIME)
