"""The phases of a `RedisRestore` in detail: what is written in each, and when it is looked at."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from planning.backups.test_redisrestores import (
    CLOSED,
    HALFWAY,
    NOW,
    TEXT,
    backup,
    database,
    decide,
    replacing,
    restore,
    said,
    saving,
    worker,
)
from redis_operator.api.redis import Redis
from redis_operator.planning.backups.attempts import State, Worker
from redis_operator.planning.backups.origins import Limitation
from redis_operator.planning.backups.redisrestores import RestorePlan, is_whole, kept_name

SECOND = timedelta(seconds=1)
CHECKING = restore(phase="Checking", attempt=1, startTime=TEXT)


def deleted(redis: Redis) -> Redis:
    return replace(redis, metadata=replace(redis.metadata, deletion_timestamp=TEXT))


def failed(seconds: float, reason: str = "StoreFailed") -> Worker:
    found = worker(State.FAILED, "no route", reason)
    return replace(found, ended=NOW - timedelta(seconds=seconds))


def looks_within(plan: RestorePlan, seconds: float) -> bool:
    return plan.again is not None and 0 < plan.again <= seconds


# Before anything is done


@pytest.mark.parametrize(
    ("redis", "reason"),
    [
        (deleted(database()), "NotRunning"),
        (database(spec={"hibernate": True, "storage": {"size": "1Gi"}}), "NotRunning"),
        (database(phase="Waking"), "NotRunning"),
    ],
    ids=["being deleted", "is to hibernate", "wakes"],
)
def test_a_database_that_goes_or_sleeps_is_refused(redis: Redis, reason: str) -> None:
    assert said(decide(restore(), redis=redis)) == ("Failed", reason)


def test_another_database_of_the_name_is_refused_only_where_a_uid_is_given() -> None:
    for uid, phase in (("u", "Checking"), ("", "Checking"), ("x", "Failed")):
        discard = {"database": "cache"} | ({"uid": uid} if uid else {})
        assert said(decide(restore(spec={"discard": discard})))[0] == phase


WAITS: dict[str, tuple[dict[str, Any], str]] = {
    "another restore": ({"earlier": "first"}, "AnotherRestore"),
    "a backup that may come": (
        {"origin": Limitation("NoBackup", "it is not there yet", passing=True)},
        "NoBackup",
    ),
    "a backup is being read": ({"busy": ("nightly",)}, "BackupRuns"),
    "it changes": ({"redis": database(phase="Updating")}, "NotReady"),
    "its change is not seen yet": ({"redis": database(observedGeneration=2)}, "NotReady"),
    "it has no phase": ({"redis": database(phase=None)}, "NotReady"),
}


@pytest.mark.parametrize("row", WAITS)
def test_what_passes_is_waited_for_before_and_after_the_check(row: str) -> None:
    facts, reason = WAITS[row]
    before = decide(restore(), **facts)
    assert said(before) == ("Pending", reason)
    assert looks_within(before, 10)
    assert not before.start
    after = decide(CHECKING, worker=worker(State.SUCCEEDED), **facts)
    assert said(after) == ("Checking", reason)
    assert looks_within(after, 10)
    assert after.end == ()


def test_a_backup_that_cannot_be_restored_is_refused_at_once() -> None:
    plan = decide(restore(), origin=Limitation("Damaged", "spec.from: it is damaged"))
    assert said(plan) == ("Failed", "Damaged")


def test_a_change_that_is_not_seen_is_called_so() -> None:
    assert "is changing" in decide(restore(), redis=database(observedGeneration=2)).status.message
    assert "is changing" in decide(restore(), redis=database(phase=None)).status.message
    assert "is Updating" in decide(restore(), redis=database(phase="Updating")).status.message


def test_the_check_is_written_down_before_its_worker_starts() -> None:
    plan = decide(restore())
    status = plan.status
    assert (status.start_time, status.attempt, status.location) == (TEXT, 1, "there")
    assert status.backup
    assert plan.start


def test_a_worker_that_checks_starts_when_no_other_may_run() -> None:
    first = decide(CHECKING)
    assert first.start
    assert looks_within(first, 10)
    assert not decide(CHECKING, living=True).start


def test_clients_are_shut_out_with_everything_counted_from_the_beginning() -> None:
    known = restore(phase="Checking", attempt=3, failures=2, job="job-1")
    status = decide(known, worker=worker(State.SUCCEEDED)).status
    assert (status.saves, status.failures, status.attempt, status.job) == (1, 0, 0, "")
    assert (status.closing_time, status.closed_time, status.keys) == (TEXT, "", 7)
    silent = replace(worker(State.SUCCEEDED), report=None)
    assert decide(known, worker=silent).status.keys is None


# Workers


def test_a_worker_that_does_not_start_is_told() -> None:
    held = replace(worker(State.ACTIVE), trouble="no node")
    for known, redis in ((CHECKING, database()), (replacing(), database(HALFWAY))):
        assert said(decide(known, redis=redis, worker=held))[1] == "WorkerWaits"
        made = replace(worker(State.ACTIVE), made=NOW - 10 * SECOND)
        plan = decide(known, redis=redis, worker=made)
        assert said(plan)[1] == "Working"
        assert plan.again == 50.0


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 10), (1, 20), (2, 30), (8, 30)], ids=["1st", "2nd", "3rd", "9th"]
)
def test_another_worker_follows_after_a_pause_that_grows(failures: int, seconds: int) -> None:
    known = replacing("RollingBack", failures=failures, attempt=4, job="job-1")
    redis = database(HALFWAY)
    early = decide(known, redis=redis, worker=failed(seconds - 1))
    assert early.again == 1.0
    assert (early.status.attempt, early.status.failures, early.end) == (4, failures, ())
    late = decide(known, redis=redis, worker=failed(seconds))
    assert (late.status.attempt, late.status.failures) == (5, failures + 1)
    assert (late.status.job, late.end) == ("", ("job-1",))
    assert looks_within(late, 1)
    assert said(late) == ("RollingBack", "StoreFailed")


def test_a_worker_whose_end_is_not_dated_is_followed_at_once() -> None:
    undated = replace(failed(0), ended=None)
    assert decide(CHECKING, worker=undated).status.attempt == 2


@pytest.mark.parametrize(
    ("failures", "reason", "phase"),
    [
        (1, "StoreFailed", "Checking"),
        (2, "StoreFailed", "Failed"),
        (0, "TargetFailed", "Failed"),
    ],
)
def test_a_check_is_given_up_after_three_failures_or_for_good(
    failures: int, reason: str, phase: str
) -> None:
    known = restore(phase="Checking", attempt=1, failures=failures)
    assert said(decide(known, worker=failed(60, reason))) == (phase, reason)


# Closed

FIVE_MINUTES = "2030-01-01T11:55:00Z"
LONGER = "2030-01-01T11:54:59Z"


@pytest.mark.parametrize(
    ("since", "phase"),
    [(FIVE_MINUTES, "Closing"), (LONGER, "Opening")],
    ids=["five minutes", "a second more"],
)
def test_clients_wait_for_five_minutes_at_most(since: str, phase: str) -> None:
    closing = restore(phase="Closing", closedTime=since, saves=1)
    plan = decide(closing, redis=database({"shut": True}))
    assert said(plan)[0] == phase
    assert looks_within(plan, 10)
    assert said(decide(closing, redis=database(CLOSED)))[0] == "Saving"
    begins = decide(saving(closedTime=since), redis=database(CLOSED), kept=backup(phase="Pending"))
    assert said(begins)[0] == ("Opening" if phase == "Opening" else "Saving")
    missing = decide(saving(closedTime=since), redis=database(CLOSED))
    assert missing.save is (phase == "Closing")


def test_a_database_that_is_being_deleted_ends_it_before_anything_is_replaced() -> None:
    gone = deleted(database(CLOSED))
    assert said(decide(restore(phase="Closing"), redis=gone)) == ("Opening", "NoDatabase")
    assert said(decide(saving(), redis=gone, kept=backup())) == ("Opening", "NoDatabase")


VERIFY = {"keep": {"verify": True}}
SAVED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "complete": ({}, {}, "Restoring"),
    "complete, and not verified": ({"verified": "Unknown"}, {}, "Restoring"),
    "complete, and found to be damaged, which was not asked": (
        {"verified": "False"},
        {},
        "Restoring",
    ),
    "running": ({"phase": "Running"}, {}, "Saving"),
    "complete, and verified": ({"verified": "True"}, VERIFY, "Restoring"),
    "complete, and yet to be verified": ({"verified": "Unknown"}, VERIFY, "Saving"),
    "complete, and found to be damaged": ({"verified": "False"}, VERIFY, "Opening"),
    "failed": ({"phase": "Failed"}, {}, "Opening"),
}


@pytest.mark.parametrize("row", SAVED)
def test_the_data_are_replaced_once_they_are_kept_as_was_asked(row: str) -> None:
    status, spec, phase = SAVED[row]
    known = {"kept": "kept", "servers": "s", "saves": 1, "closedTime": TEXT, "failures": 2}
    asked = restore(spec=spec, phase="Saving", **known)
    plan = decide(asked, redis=database(CLOSED), kept=backup(**status))
    assert said(plan)[0] == phase
    if phase == "Saving":
        assert looks_within(plan, 10)
        assert plan.status.kept_location == "there"
    if phase == "Restoring":
        assert (plan.status.attempt, plan.status.failures) == (1, 0)
        assert (plan.status.kept_uid, plan.status.kept_location) == ("k", "there")
        assert looks_within(plan, 1)


def test_the_data_are_not_replaced_while_the_database_does_not_say_that_it_is_closed() -> None:
    for redis in (database(), database({"shut": True}), database(CLOSED | {"uid": "another"})):
        plan = decide(saving(), redis=redis, kept=backup())
        assert said(plan)[0] == "Saving"
        assert looks_within(plan, 10)
    busy = decide(saving(), redis=database(CLOSED), kept=backup(), busy=("nightly",))
    assert busy.status.message == "RedisBackup nightly ends first"


@pytest.mark.parametrize(("saves", "phase"), [(1, "Closing"), (4, "Closing"), (5, "Opening")])
def test_data_are_kept_again_after_a_server_began_again(saves: int, phase: str) -> None:
    known = saving(saves=saves, closedTime="2030-01-01T11:58:00Z")
    plan = decide(known, redis=database(CLOSED | {"servers": "other"}), kept=backup())
    assert said(plan)[0] == phase
    if phase == "Closing":
        assert (plan.status.saves, plan.status.closed_time) == (saves + 1, TEXT)
        assert looks_within(plan, 1)


def test_each_backup_of_the_data_has_a_name_of_its_own() -> None:
    assert kept_name(restore(), 1) == "back-kept-11112222"
    assert kept_name(restore(), 2) == "back-kept-11112222-2"
    long = replace(restore(), metadata=replace(restore().metadata, name="n" * 40))
    assert kept_name(long, 1) == f"{'n' * 30}-kept-11112222"


# Replacing


def test_a_worker_that_replaces_starts_soon_once_the_database_is_prepared() -> None:
    ready = decide(replacing(), redis=database(HALFWAY))
    assert ready.start
    assert ready.status == replace(replacing().status, waiting_time=TEXT)
    assert looks_within(ready, 1)
    waits = decide(replacing(), redis=database(CLOSED))
    assert said(waits) == ("Restoring", "WorkerWaits")
    assert waits.again is not None
    assert 1 < waits.again <= 10


def test_a_worker_that_works_goes_on_though_a_primary_changed() -> None:
    redis = database(HALFWAY)
    plan = decide(replacing(), redis=redis, worker=worker(State.ACTIVE), outdated=True)
    assert (said(plan)[1], plan.end) == ("Working", ())
    after = decide(replacing(job="job-1"), redis=redis, worker=failed(0), outdated=True)
    assert (after.status.attempt, after.status.job, after.end) == (2, "", ("job-1",))
    assert looks_within(after, 1)


def test_a_roll_back_is_written_down_with_its_reason() -> None:
    known = replacing(attempt=3, failures=2, job="job-1")
    plan = decide(known, redis=database(HALFWAY), worker=failed(60))
    status = plan.status
    assert said(plan) == ("RollingBack", "StoreFailed")
    assert (status.attempt, status.failures, status.job) == (4, 0, "")
    assert status.failure == "the backup could not be restored: no route"
    assert status.failure_reason == "StoreFailed"
    assert plan.end == ("job-1",)
    assert looks_within(plan, 1)


def test_a_damaged_backup_of_the_data_does_not_end_a_roll_back() -> None:
    known = replacing("RollingBack", failures=0)
    damaged = failed(60, "BackupDamaged")
    assert said(decide(known, redis=database(HALFWAY), worker=damaged))[0] == "RollingBack"


def test_what_was_restored_is_counted() -> None:
    redis = database(HALFWAY | {"filled": "job-1"})
    plan = decide(replacing(keys=5), redis=redis, worker=worker(State.SUCCEEDED))
    assert (said(plan)[0], plan.status.keys) == ("Opening", 7)
    assert plan.status.conditions[0].status == "False", "clients cannot connect yet"
    silent = replace(worker(State.SUCCEEDED), report=None)
    assert decide(replacing(keys=5), redis=redis, worker=silent).status.keys == 5
    waits = decide(replacing(), redis=database(HALFWAY), worker=worker(State.SUCCEEDED))
    assert looks_within(waits, 10)


# The end


def test_what_ended_ends_its_worker() -> None:
    for phase in ("Completed", "Failed"):
        plan = decide(restore(phase=phase), worker=worker(State.SUCCEEDED))
        assert plan.end == ("job-1",)
        assert decide(restore(phase=phase)).end == ()
    plan = decide(CHECKING, worker=failed(0, "KeyMissing"))
    assert (plan.end, plan.status.completion_time) == (("job-1",), TEXT)
    assert plan.status.conditions[0].status == "False"


@pytest.mark.parametrize(
    ("phase", "kept", "whole"),
    [
        ("Completed", "k", True),
        ("Completed", "", True),
        ("Failed", "k", True),
        ("Failed", "", False),
        ("Restoring", "k", False),
        ("RollingBack", "k", False),
    ],
)
def test_a_database_is_whole_after_an_end_that_replaced_its_data(
    phase: str, kept: str, *, whole: bool
) -> None:
    assert is_whole(restore(phase=phase, keptUid=kept).status) is whole
