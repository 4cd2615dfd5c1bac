"""What to do about one `RedisRestore`, and what to say of it: a function of what is there. Pure.

The order keeps one promise: at any moment either the database has its data, or a backup has them
that is complete and holds every acknowledged write. The phases, each recorded before
anything is done in it:

1. Checking: the backup is read and loaded beside the database, which serves meanwhile.
2. Closing: servers are given a file of users that shuts clients out, while they serve. When every
   pod has it, clients cannot connect, and every replica has all that was written.
3. Saving: a backup of the present data is taken. Up to here a failure changes nothing.
4. Restoring: a worker has the primaries drop what they have, and gives them the backup.
5. RollingBack: that failed permanently: the same with the backup of step 3, until it is done.
6. Opening: the database has all of one backup, or still its own data: clients can connect again.

Completed or Failed is written when they are.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from redis_operator.api.redisbackup import BackupPhase
from redis_operator.api.redisrestore import RedisRestore, RestorePhase
from redis_operator.api.status import Phase

from .attempts import State, reason_of, why
from .origins import Limitation, Origin
from .restore_plans import (
    ATTEMPTS,
    CLOSED_PHASES,
    ENDED_PHASES,
    LOOK_SECONDS,
    REPLACING_PHASES,
    SOON_SECONDS,
    RestoreFacts,
    RestorePlan,
    as_text,
    fail,
    is_late,
    is_whole,
    message_of,
    read_time,
    reason_reported,
    reported,
    restoring_of,
    waits,
    works,
)
from .restore_replacing import plan_again, plan_opening, plan_replacing

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

_FOR_GOOD: Final = ("BackupDamaged", "TargetFailed", "KeyMissing")
"""Why a worker that checks fails in the same way again."""
_HELD_UP: Final = ("ChildRefused", "WorkerWaits")
"""Why a backup that has begun does not come further by itself."""
_SAVES: Final = 5


def kept_name(restore: RedisRestore, saves: int) -> str:
    """Return the name of the backup that keeps the data that are replaced."""
    meta = restore.metadata
    more = f"-{saves}" if saves > 1 else ""
    return f"{meta.name[:30]}-kept-{meta.uid[:8]}{more}"


def plan_restore(restore: RedisRestore, facts: RestoreFacts) -> RestorePlan:
    """Decide about one restore. Jobs of earlier attempts end, whoever was to end them."""
    plan = _plan(restore, facts)
    return replace(plan, end=(*plan.end, *facts.others)) if facts.others else plan


def _plan(restore: RedisRestore, facts: RestoreFacts) -> RestorePlan:
    phase = restore.status.phase
    if phase in ENDED_PHASES:
        end = (facts.worker.job,) if facts.worker is not None else ()
        return RestorePlan(restore.status, end=end)
    if phase in REPLACING_PHASES:
        return plan_replacing(restore, facts)
    if phase is RestorePhase.OPENING:
        return plan_opening(restore, facts)
    if restore.metadata.is_being_deleted:
        return fail(restore, facts, "Deleted", "it was deleted before any data was replaced")
    if phase is RestorePhase.CLOSING:
        return _closing(restore, facts)
    if phase is RestorePhase.SAVING:
        return _saving(restore, facts)
    reason, text = _refusal(restore, facts)
    if reason:
        return fail(restore, facts, reason, text)
    if phase is RestorePhase.CHECKING:
        return _checking(restore, facts)
    reason, text = _wait(restore, facts)
    if reason:
        status = reported(restore, RestorePhase.PENDING, reason, text, facts.now)
        return RestorePlan(status, again=LOOK_SECONDS)
    assert isinstance(facts.origin, Origin)
    status = reported(restore, RestorePhase.CHECKING, "Checking", "the backup is read", facts.now)
    return RestorePlan(
        replace(
            status,
            start_time=as_text(facts.now),
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
        restore = waits(restore, facts)
        if is_late(restore.status.waiting_time, facts.now):
            return fail(
                restore, facts, reason_reported(known), f"{known.message}; nothing was changed"
            )
        return RestorePlan(restore.status, start=not facts.living, again=LOOK_SECONDS)
    restore = replace(restore, status=replace(known, waiting_time=""))
    if worker.state is State.ACTIVE:
        return works(restore, worker, "loads the backup to see that it can be restored", facts)
    if worker.state is State.FAILED:
        failures = known.failures + 1
        if failures >= ATTEMPTS or reason_of(worker) in _FOR_GOOD:
            text = f"spec.from: {why(worker)}; nothing was changed"
            return fail(restore, facts, reason_of(worker), text)
        return plan_again(restore, facts, worker, failures)
    reason, text = _wait(restore, facts)
    if reason:
        status = reported(restore, RestorePhase.CHECKING, reason, text, facts.now)
        return RestorePlan(status, again=LOOK_SECONDS)
    status = reported(restore, RestorePhase.CLOSING, "Preparing", _prepared(restore), facts.now)
    status = replace(
        status,
        keys=worker.report.keys if worker.report is not None else None,
        closing_time=as_text(facts.now),
        saves=1,
        failures=0,
        attempt=0,
        job="",
    )
    return RestorePlan(status, end=(worker.job,), again=SOON_SECONDS)


def _prepared(restore: RedisRestore) -> str:
    return (
        f"servers of Redis {restore.spec.redis} get the ACL file with which they refuse clients "
        "when they start; until every pod has it, clients are served"
    )


def _closing(restore: RedisRestore, facts: RestoreFacts) -> RestorePlan:
    """Wait until no client can write, and nothing that was written is on a primary alone."""
    known = restore.status
    gone = _gone(restore, facts)
    if gone is not None:
        return gone
    left = facts.refresh.total_seconds()
    if known.closing_time:
        left -= (facts.now - read_time(known.closing_time)).total_seconds()
    if not known.closed_time and left > 0:
        status = reported(restore, None, "Preparing", _prepared(restore), facts.now)
        return RestorePlan(status, again=left)
    if not known.closed_time:
        text = f"clients of Redis {restore.spec.redis} cannot connect"
        status = reported(restore, None, "Closing", text, facts.now)
        return RestorePlan(replace(status, closed_time=as_text(facts.now)), again=SOON_SECONDS)
    restoring = restoring_of(restore, facts)
    if restoring is None or not restoring.closed:
        late = is_late(known.closed_time, facts.now)
        text = f"clients of Redis {restore.spec.redis} cannot connect: {message_of(facts.redis)}"
        if late:
            return fail(restore, facts, "NotClosed", f"{text}; that took too long")
        status = reported(restore, RestorePhase.CLOSING, "Closing", text, facts.now)
        return RestorePlan(status, again=LOOK_SECONDS)
    name = kept_name(restore, known.saves)
    text = f"RedisBackup {name} of the present data is taken"
    status = reported(restore, RestorePhase.SAVING, "Saving", text, facts.now)
    return RestorePlan(replace(status, servers=restoring.servers, kept=name), save=True)


def _saving(restore: RedisRestore, facts: RestoreFacts) -> RestorePlan:
    """Wait until the present data is in a backup that misses nothing."""
    known, kept = restore.status, facts.kept
    gone = _gone(restore, facts)
    if gone is not None:
        return gone
    late = is_late(known.closed_time, facts.now)
    if kept is None and late:
        return not_saved(restore, facts, "it cannot be created")
    if kept is not None and kept.metadata.is_being_deleted:
        return not_saved(restore, facts, "it is being deleted")
    if kept is None:
        return RestorePlan(known, save=True, again=LOOK_SECONDS)
    status, verify = kept.status, restore.spec.keep.verify
    text = f"RedisBackup {known.kept} of the present data: {status.message or 'it starts'}"
    if status.phase is BackupPhase.FAILED or (verify and status.verified == "False"):
        return fail(restore, facts, "NotSaved", f"{text}; nothing was changed")
    if late and status.phase in (None, BackupPhase.PENDING):
        return fail(restore, facts, "NotSaved", f"{text}; that took too long")
    if status.phase is not BackupPhase.COMPLETED or (verify and status.verified != "True"):
        held = any(c.status == "False" and c.reason in _HELD_UP for c in status.conditions)
        return _saves(restore, facts, text, held=held)
    restoring = restoring_of(restore, facts)
    if restoring is not None and restoring.servers != known.servers:
        return _close_again(restore, facts)
    if restoring is None or not restoring.closed or facts.busy:
        busy = ", ".join(facts.busy)
        text = f"RedisBackup {busy} ends first" if busy else message_of(facts.redis)
        return _saves(restore, facts, text, held=True)
    text = f"the data is in RedisBackup {known.kept}; those of the backup take their place"
    begins = reported(restore, RestorePhase.RESTORING, "Restoring", text, facts.now)
    return RestorePlan(
        replace(
            begins,
            kept_uid=kept.metadata.uid,
            kept_location=status.location,
            attempt=1,
            failures=0,
            waiting_time="",
        ),
        again=SOON_SECONDS,
    )


def _saves(restore: RedisRestore, facts: RestoreFacts, text: str, *, held: bool) -> RestorePlan:
    """Wait for the backup of the present data; what does not come further (`held`), not for ever.

    How long it takes to read the data has no bound.
    """
    since = restore.status.waiting_time
    if held and is_late(since, facts.now):
        return fail(restore, facts, "NotSaved", f"{text}; that took too long")
    status = reported(restore, None, "Saving", text, facts.now)
    location = facts.kept.status.location if facts.kept is not None else ""
    waiting = (since or as_text(facts.now)) if held else ""
    status = replace(status, kept_location=location, waiting_time=waiting)
    return RestorePlan(status, again=LOOK_SECONDS)


def not_saved(restore: RedisRestore, facts: RestoreFacts, why_not: str) -> RestorePlan:
    """Give up: the present data cannot be kept, so that they are not replaced."""
    text = f"RedisBackup {restore.status.kept} of the present data: {why_not}"
    return fail(restore, facts, "NotSaved", f"{text}; nothing was changed")


def _close_again(restore: RedisRestore, facts: RestoreFacts) -> RestorePlan:
    """Take another backup: a server that began again may have let clients in for a moment."""
    known = restore.status
    if known.saves >= _SAVES:
        text = f"servers of Redis {restore.spec.redis} restart repeatedly; nothing was changed"
        return fail(restore, facts, "NotSaved", text)
    text = "a server restarted since clients were locked out: the data is backed up again"
    status = reported(restore, RestorePhase.CLOSING, "Closing", text, facts.now)
    return RestorePlan(
        replace(status, saves=known.saves + 1, closed_time=as_text(facts.now), waiting_time=""),
        again=SOON_SECONDS,
    )


def _gone(restore: RedisRestore, facts: RestoreFacts) -> RestorePlan | None:
    if facts.redis is None or facts.redis.metadata.is_being_deleted:
        return fail(restore, facts, "NoDatabase", f"Redis {restore.spec.redis} was deleted")
    return None
