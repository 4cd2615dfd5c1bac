"""What to do about a `RedisRestore` whose data is being replaced, and how it ends. Pure.

Restoring and RollingBack are the same with another backup. Opening follows, whatever came of it:
clients can connect again, and only then it is over.
"""

from __future__ import annotations

from msgspec.structs import replace

from redis_operator.api.redisrestore import RedisRestore, RestorePhase

from ..reporting.conditions import bounded
from .attempts import State, Worker, reason_of, why
from .restore_plans import (
    ATTEMPTS,
    LOOK_SECONDS,
    PAUSE,
    SOON_SECONDS,
    RestoreFacts,
    RestorePlan,
    as_text,
    fail,
    is_late,
    kept_text,
    message_of,
    reason_reported,
    reported,
    restoring_of,
    waits,
    works,
)

__all__ = ["plan_again", "plan_opening", "plan_replacing"]


def plan_replacing(restore: RedisRestore, facts: RestoreFacts) -> RestorePlan:
    """Have workers replace the data until one did that no primary has outlived."""
    known, worker = restore.status, facts.worker
    rolls_back = known.phase is RestorePhase.ROLLING_BACK
    if facts.redis is None:
        text = f"Redis {restore.spec.redis} was deleted; its data is in {kept_text(known)}"
        return fail(restore, facts, "NoDatabase", text)
    if restore.metadata.is_being_deleted and not rolls_back:
        return _end_early(restore, facts, "Deleted", "it was deleted before it was done")
    if worker is None:
        return _begin(waits(restore, facts), facts)
    restore = replace(restore, status=replace(known, waiting_time=""))
    if worker.state is State.ACTIVE:
        return works(restore, worker, "gives the primaries the keys of the backup", facts)
    if worker.state is State.FAILED and not facts.outdated:
        failures = known.failures + 1
        for_good = reason_of(worker) == "BackupDamaged" or failures >= ATTEMPTS
        if for_good and not rolls_back:
            return _roll_back(restore, facts, reason_of(worker), why(worker))
        return plan_again(restore, facts, worker, failures)
    if facts.outdated:
        text = "a primary has changed since it was given keys: all are given again"
        status = reported(restore, None, "Restoring", text, facts.now)
        return RestorePlan(
            replace(status, attempt=known.attempt + 1, job=""),
            end=(worker.job,),
            again=SOON_SECONDS,
        )
    restoring = restoring_of(restore, facts)
    if restoring is None or restoring.filled != worker.job:
        status = reported(restore, None, "Restoring", message_of(facts.redis), facts.now)
        return RestorePlan(status, again=LOOK_SECONDS)
    return _open(restore, facts, worker)


def _begin(restore: RedisRestore, facts: RestoreFacts) -> RestorePlan:
    """Start the worker of the attempt, or give up: clients do not wait for ever for one.

    `started` is written before the first worker is: as long as it is not, the data is untouched.
    """
    known, restoring = restore.status, restoring_of(restore, facts)
    rolls_back = known.phase is RestorePhase.ROLLING_BACK
    if is_late(known.waiting_time, facts.now) and not rolls_back:
        return _end_early(restore, facts, reason_reported(known), known.message)
    ready = restoring is not None and restoring.closed and restoring.replacing
    if not ready:
        text = f"worker {known.attempt} does not start yet: {message_of(facts.redis)}"
    elif facts.living:
        text = f"worker {known.attempt} does not start yet: a pod of an earlier one may still run"
    else:
        return RestorePlan(known, start=True, again=SOON_SECONDS)
    status = reported(restore, None, "WorkerWaits", text, facts.now)
    return RestorePlan(status, again=SOON_SECONDS if ready else LOOK_SECONDS)


def _end_early(restore: RedisRestore, facts: RestoreFacts, reason: str, text: str) -> RestorePlan:
    """Give up before the data is replaced, or have what was replaced restored."""
    known = restore.status
    if known.started or known.attempt > 1 or facts.worker is not None:
        return _roll_back(restore, facts, reason, text)
    return fail(restore, facts, reason, f"{text}; no data was replaced")


def _open(restore: RedisRestore, facts: RestoreFacts, worker: Worker) -> RestorePlan:
    """Allow clients again: the database has all of one backup. Nothing more is replaced."""
    known = restore.status
    if known.phase is RestorePhase.ROLLING_BACK:
        text = (
            f"{known.failure}; the database has again what it had, which is in {kept_text(known)}"
        )
        return fail(restore, facts, known.failure_reason, text)
    keys = worker.report.keys if worker.report is not None else known.keys
    name = restore.spec.redis
    text = f"Redis {name} has {keys} keys of {known.location}; its clients can connect again"
    status = reported(restore, RestorePhase.OPENING, "Opening", text, facts.now)
    return RestorePlan(replace(status, keys=keys), end=(worker.job,), again=SOON_SECONDS)


def plan_opening(restore: RedisRestore, facts: RestoreFacts) -> RestorePlan:
    """Wait until clients can connect; then it is over."""
    known, name, restoring = restore.status, restore.spec.redis, restoring_of(restore, facts)
    end = (facts.worker.job,) if facts.worker is not None else ()
    gone = facts.redis is None or facts.redis.metadata.is_being_deleted
    if not gone and not facts.orphaned and not (restoring is not None and restoring.opened):
        text = f"clients of Redis {name} cannot connect yet: {message_of(facts.redis)}"
        text = f"{known.failure}; {text}" if known.failure else text
        reason = known.failure_reason or "Opening"
        status = reported(restore, None, reason, text, facts.now)
        return RestorePlan(status, end=end, again=LOOK_SECONDS)
    if known.failure:
        reason, text, phase = known.failure_reason, known.failure, RestorePhase.FAILED
    else:
        reason, phase = "Completed", RestorePhase.COMPLETED
        text = f"Redis {name} has {known.keys} keys of {known.location}; before: {kept_text(known)}"
    status = reported(restore, phase, reason, text, facts.now)
    return RestorePlan(replace(status, completion_time=as_text(facts.now)), end=end)


def _roll_back(restore: RedisRestore, facts: RestoreFacts, reason: str, text: str) -> RestorePlan:
    """Have the database given back what it had."""
    known = restore.status
    failure = f"the backup could not be restored: {text}"
    message = f"{failure}; the database is given back what it had, from {kept_text(known)}"
    status = reported(restore, RestorePhase.ROLLING_BACK, reason, message, facts.now)
    return RestorePlan(
        replace(
            status,
            failure=bounded(failure),
            failure_reason=reason,
            attempt=known.attempt + 1,
            failures=0,
            job="",
            waiting_time="",
        ),
        end=(facts.worker.job,) if facts.worker is not None else (),
        again=SOON_SECONDS,
    )


def plan_again(
    restore: RedisRestore, facts: RestoreFacts, worker: Worker, failures: int
) -> RestorePlan:
    """Have another worker try a little later."""
    pause = PAUSE * min(failures, ATTEMPTS)
    left = (worker.ended + pause - facts.now).total_seconds() if worker.ended is not None else 0.0
    text = f"attempt {worker.attempt} failed: {why(worker)}; another one follows"
    status = reported(restore, None, reason_of(worker), text, facts.now)
    if left > 0:
        return RestorePlan(status, again=left)
    return RestorePlan(
        replace(status, attempt=restore.status.attempt + 1, failures=failures, job=""),
        end=(worker.job,),
        again=SOON_SECONDS,
    )
