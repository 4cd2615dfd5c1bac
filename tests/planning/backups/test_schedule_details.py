"""A schedule of backups in detail: what counts as taken, what stays, and what is said."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from planning.backups.test_schedules import NOW, decide, reason, schedule, taken, text, told
from redis_operator.api.redisbackup import BackupPhase
from redis_operator.planning.backups.schedules import DUE_ANNOTATION, KEEP_ANNOTATION, Scheduled

FAILED, RUNNING = BackupPhase.FAILED, BackupPhase.RUNNING
DUE = NOW.replace(hour=3, minute=0, second=0)
MADE = {"observedGeneration": 1, "schedule": "0 3 * * * UTC", "lastScheduleTime": text(DUE)}


def due_at(found: Scheduled, annotation: str) -> Scheduled:
    notes = {**found.metadata.annotations, DUE_ANNOTATION: annotation}
    return replace(found, metadata=replace(found.metadata, annotations=notes))


def verified(name: str, days: float, word: str, phase: BackupPhase | None = None) -> Scheduled:
    found = taken(name, days, phase or BackupPhase.COMPLETED)
    return replace(found, verify=True, status=replace(found.status, verified=word))


def kept(**rules: Any) -> Any:
    return schedule(MADE, retention=rules)


# What was taken


def test_a_backup_counts_as_taken_by_the_name_and_the_time_that_the_schedule_gave_it() -> None:
    name = "nightly-202601050300"
    assert decide(schedule(), due_at(taken(name, 0), text(DUE))).create is None
    for other in (
        due_at(taken("by-hand", 0), text(DUE)),
        due_at(taken(name, 0), "last night"),
        due_at(taken(name, 0), "2026-01-05T03:00:00"),
    ):
        assert decide(schedule(), other).create is not None


def test_a_time_that_is_more_than_an_hour_ahead_was_written_by_a_wrong_clock() -> None:
    for ahead, made in ((timedelta(hours=1), False), (timedelta(hours=1, seconds=1), True)):
        known = schedule({**MADE, "lastScheduleTime": text(NOW + ahead)})
        assert (decide(known).create is not None) is made


def test_a_time_that_cannot_be_read_counts_for_nothing() -> None:
    assert decide(schedule({**MADE, "lastScheduleTime": "yesterday"})).create is not None


@pytest.mark.parametrize(("late", "made"), [(32430, True), (32429, False)])
def test_a_backup_begins_until_its_deadline_has_passed(late: int, *, made: bool) -> None:
    """It is nine hours and thirty seconds late."""
    plan = decide(schedule(startingDeadlineSeconds=late))
    assert (plan.create is not None) is made
    assert (plan.missed is None) is made
    assert plan.status.last_schedule_time == text(DUE)


# One at a time

ACTIVE = taken("running", 0.1, RUNNING)


def test_the_next_one_waits_for_those_that_run_and_says_so() -> None:
    plan = decide(schedule(), taken("b", 0.1, None), taken("a", 0.2, RUNNING))
    assert plan.create is None
    assert reason(plan) == "StillRunning"
    assert "starts when a, b has ended" in plan.status.message
    assert plan.status.next_time == text(DUE)
    assert plan.status.active == ("a", "b")
    allowed = decide(schedule(concurrencyPolicy="Allow"), ACTIVE)
    assert allowed.create is not None
    assert allowed.delete == ()


def test_one_that_is_replaced_goes_unless_it_is_used_or_held() -> None:
    what = schedule(concurrencyPolicy="Replace")
    held = taken("held", 0.1, RUNNING, annotations={KEEP_ANNOTATION: "true"})
    plan = decide(what, ACTIVE, held, taken("used", 0.1, RUNNING), in_use=frozenset({"used"}))
    assert plan.create is not None
    assert plan.delete == ("running",)
    loose = taken("loose", 0.1, RUNNING, annotations={KEEP_ANNOTATION: "false"})
    assert decide(what, loose).delete == ("loose",)


# What stays


def test_failed_backups_stay_as_many_as_are_asked_the_newest_ones() -> None:
    found = [taken(f"f{n}", n, FAILED) for n in (3, 1, 2)]
    assert decide(kept(keepFailed=1), *found).delete == ("f3", "f2")
    assert decide(kept(keepFailed=3), *found).delete == ()
    assert decide(kept(keepFailed=0), *found).delete == ("f3", "f2", "f1")
    running = taken("r", 9, RUNNING)
    assert decide(kept(keepFailed=0), running).delete == ()


def test_what_is_being_deleted_counts_for_nothing() -> None:
    going = taken("going", 0.5, deletion_timestamp=text(NOW))
    plan = decide(kept(keepLast=1), taken("a", 2), taken("b", 1), going)
    assert plan.delete == ("a",)
    assert (plan.status.kept, plan.status.last_success) == (2, "b")


def test_the_newest_that_was_verified_stays() -> None:
    proven, plain = verified("proven", 3, "True"), taken("plain", 2)
    waits, fails = verified("waits", 1, "Unknown"), verified("fails", 1, "", FAILED)
    rules = kept(keepLast=1, keepFailed=9)
    assert decide(rules, proven, plain, waits).delete == ("plain",)
    assert decide(rules, proven, plain, fails).delete == ()
    assert decide(rules, proven, plain).delete == ()
    assert decide(rules, proven, verified("good", 1, "True")).delete == ("proven",)
    older = verified("older", 4, "True")
    assert decide(rules, older, proven, waits).delete == ("older",)
    assert decide(rules, plain, waits).delete == ("plain",)


def test_it_is_looked_at_again_while_something_goes_or_is_in_use() -> None:
    quiet = decide(kept(keepLast=2), taken("a", 1), taken("b", 2))
    wait = (DUE + timedelta(days=1) - NOW).total_seconds()
    assert quiet.again == wait
    used = decide(kept(), taken("a", 1), in_use=frozenset({"a"}))
    gone = decide(kept(keepLast=1), taken("a", 1), taken("b", 2))
    assert used.again == gone.again == 60.0
    paused = schedule(MADE, suspend=True)
    assert decide(paused, taken("a", 1)).again is None
    assert decide(paused, taken("a", 1), in_use=frozenset({"a"})).again == 60.0


# What is said


def test_the_last_that_ended_and_the_last_good_one_are_told() -> None:
    plan = decide(kept(), taken("good", 2), taken("bad", 1, FAILED), taken("runs", 0.1, RUNNING))
    status = plan.status
    assert (status.last_success, status.kept, status.active) == ("good", 1, ("runs",))
    assert status.last_success_time == text(NOW - timedelta(days=2))
    (last,) = (c for c in status.conditions if c.type == "LastSucceeded")
    assert (last.status, last.reason) == ("False", "BackupFailed")
    assert last.message.startswith("bad: ")
    after = decide(kept(), taken("bad", 2, FAILED), taken("good", 1))
    (last,) = (c for c in after.status.conditions if c.type == "LastSucceeded")
    assert (last.status, last.reason) == ("True", "BackupCompleted")


def test_what_retention_took_away_is_still_known_to_have_succeeded() -> None:
    known = {**MADE, "lastSuccess": "before", "lastSuccessTime": "2026-01-02T00:00:00Z"}
    status = decide(schedule(known)).status
    assert (status.last_success, status.last_success_time) == ("before", "2026-01-02T00:00:00Z")
    assert not [c for c in status.conditions if c.type == "LastSucceeded"]


def test_a_schedule_that_is_suspended_or_goes_on_says_so() -> None:
    paused = decide(schedule(MADE, suspend=True)).status
    (said,) = (c for c in paused.conditions if c.type == "Scheduled")
    assert (said.status, said.reason, paused.next_time) == ("False", "Suspended", "")
    goes = decide(schedule(MADE)).status
    (said,) = (c for c in goes.conditions if c.type == "Scheduled")
    assert (said.status, said.reason) == ("True", "Scheduled")
    assert goes.schedule == "0 3 * * * UTC"


def test_a_backup_that_begins_is_told_with_whether_it_is_verified() -> None:
    plan = decide(schedule(verify="Always"))
    assert plan.create is not None
    assert plan.create.verify
    assert (plan.status.last_backup, plan.status.last_verify_time) == (
        "nightly-202601050300",
        text(DUE),
    )
    never = decide(schedule(verify="Never"))
    assert never.create is not None
    assert not never.create.verify
    assert never.status.last_verify_time == ""
    template = {"storage": {"claim": {"name": "b"}}, "verify": True}
    asked = decide(schedule(verify="Never", template=template))
    assert asked.create is not None
    assert asked.create.verify


def test_starts_are_spread_over_no_more_than_the_jitter() -> None:
    def begins(seconds: int, uid: str) -> float:
        found = schedule(MADE, jitterSeconds=seconds)
        found = replace(found, metadata=replace(found.metadata, uid=uid))
        plan = decide(found)
        wait = DUE + timedelta(days=1) - NOW
        assert plan.again is not None
        return plan.again - wait.total_seconds()

    drawn = {begins(2, f"u-{n}") for n in range(20)}
    assert drawn == {0.0, 1.0, 2.0}
    assert begins(0, "u-1") == 0.0


OF_OTHER = {
    **MADE,
    "redis": "earlier",
    "lastSuccess": "nightly-before",
    "lastSuccessTime": "2026-01-05T03:01:00Z",
    "lastBackup": "nightly-before",
    "lastVerifyTime": "2026-01-05T03:00:00Z",
    "kept": 3,
    "window": {"newest": "2026-01-05T11:59:00Z", "shards": [{"name": "shard-0"}]},
    "restorePoints": [{"name": "release", "time": "2026-01-04T00:00:00Z"}],
    "conditions": [
        {
            "type": kind,
            "status": "False",
            "reason": "BackupFailed",
            "message": "nightly-before: the store is full",
            "lastTransitionTime": "2026-01-05T03:00:00Z",
        }
        for kind in ("LastSucceeded", "Archiving")
    ],
}


def test_nothing_is_said_of_the_database_that_a_schedule_named_before() -> None:
    asked = {"name": "release", "phase": "Completed"}
    status = decide(schedule({**OF_OTHER, "restorePoint": asked})).status
    assert (status.redis, status.since) == ("cache", text(NOW))
    assert (status.last_success, status.last_success_time, status.last_backup) == ("", "", "")
    assert (status.kept, status.window, status.restore_points) == (0, None, ())
    assert [c.type for c in status.conditions] == ["Scheduled"]
    assert status.next_time == text(DUE + timedelta(days=1))
    assert status.restore_point is not None  # what was asked for is not asked for again
    again = decide(told(decide(schedule(OF_OTHER)), redis="cache")).status
    assert again.since == text(NOW)


def test_a_restore_point_that_was_not_taken_yet_is_not_that_of_another_database() -> None:
    asked = {"name": "release", "phase": "Pending"}
    assert decide(schedule({**OF_OTHER, "restorePoint": asked})).status.restore_point is None


def test_the_first_backup_of_another_database_is_verified() -> None:
    """The one of this week was of the previous one."""
    first = decide(schedule(OF_OTHER), now=NOW)
    following = decide(told(first), now=DUE + timedelta(days=1, minutes=1))
    assert following.create is not None
    assert following.create.verify


def test_a_status_that_names_no_database_is_of_the_one_that_is_named() -> None:
    status = decide(schedule({**OF_OTHER, "redis": ""})).status
    assert (status.redis, status.last_success) == ("cache", "nightly-before")
