"""What is decided about a `RedisRestore`: at any moment the data are in the database or kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from redis_operator.api.redis import Redis
from redis_operator.api.redisbackup import RedisBackup
from redis_operator.api.redisbackup_validation import load_redisbackup
from redis_operator.api.redisrestore import RedisRestore, RestorePhase
from redis_operator.api.redisrestore_validation import load_redisrestore
from redis_operator.api.validation import load
from redis_operator.backup.task import Report
from redis_operator.planning.backups.attempts import State, Worker
from redis_operator.planning.backups.origins import Limitation, Origin, origin_of
from redis_operator.planning.backups.redisrestores import (
    RestoreFacts,
    RestorePlan,
    is_whole,
    plan_restore,
)
from redis_operator.planning.backups.replacing import kept_backup, start_limitation
from redis_operator.redis.versions import Version

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
TEXT = "2030-01-01T12:00:00Z"
STORE: dict[str, Any] = {"claim": {"name": "backups"}}


def restore(*, deleted: bool = False, spec: Any = None, **status: Any) -> RedisRestore:
    document = {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "RedisRestore",
        "metadata": {"namespace": "ns", "name": "back", "uid": "11112222-3", "generation": 1},
        "spec": {
            "redis": "cache",
            "from": {"name": "monday"},
            "discard": {"database": "cache"},
            **(spec or {}),
        },
        "status": status,
    }
    if deleted:
        document["metadata"]["deletionTimestamp"] = TEXT
    found = load_redisrestore(document)
    assert isinstance(found, RedisRestore), found
    return found


def database(restoring: dict[str, Any] | None = None, *, spec: Any = None, **status: Any) -> Redis:
    told = {"uid": "11112222-3", "name": "back", "servers": "s"} | (restoring or {})
    found = load(
        {
            "apiVersion": "redisoperator.dev/v1",
            "kind": "Redis",
            "metadata": {"namespace": "ns", "name": "cache", "uid": "u", "generation": 3},
            "spec": {"mode": "Standalone", **(spec or {})},
            "status": {
                "phase": "Ready",
                "observedGeneration": 3,
                "binding": {"name": "cache-conn"},
                "engine": "valkey",
                "version": "8.1.1",
                "message": "all is well",
                **({"restoring": told} if restoring is not None else {}),
                **status,
            },
        }
    )
    assert isinstance(found, Redis), found
    return found


def backup(name: str = "kept", **status: Any) -> RedisBackup:
    told = {"phase": "Completed", "engine": "valkey", "version": "8.1.1", "rdb": "REDIS0011"}
    found = load_redisbackup(
        {
            "metadata": {"namespace": "ns", "name": name, "uid": "k"},
            "spec": {"redis": "cache", "storage": STORE},
            "status": {**told, "path": "p", "location": "there", **status},
        }
    )
    assert isinstance(found, RedisBackup), found
    return found


def origin() -> Origin:
    found = origin_of(restore().spec.source, backup("monday"), None, Version("valkey", 8, 1, 1))
    assert isinstance(found, Origin)
    return found


def worker(state: State, error: str = "", reason: str = "", keys: int = 7) -> Worker:
    report = Report(error=error, reason=reason, keys=0 if error else keys)
    ended = NOW - timedelta(minutes=5) if state is not State.ACTIVE else None
    return Worker(1, "job-1", state, report, ended=ended)


def decide(what: RedisRestore, **facts: Any) -> RestorePlan:
    given: dict[str, Any] = {"redis": database(), "origin": origin(), "now": NOW, **facts}
    return plan_restore(what, RestoreFacts(**given))


def said(plan: RestorePlan) -> tuple[str, str]:
    assert plan.status.phase is not None
    return plan.status.phase.value, plan.status.conditions[0].reason


@pytest.mark.parametrize(
    ("redis", "reason"),
    [
        pytest.param(None, "NoDatabase", id="there is none"),
        pytest.param(database(binding=None), "NotFormed", id="never in use"),
        pytest.param(database(phase="Hibernated"), "NotRunning", id="hibernates"),
        pytest.param(database(spec={"paused": True}), "Paused", id="paused"),
    ],
)
def test_a_database_that_cannot_be_restored_into_is_refused_for_good(
    redis: Redis | None, reason: str
) -> None:
    plan = decide(restore(), redis=redis)
    assert said(plan) == ("Failed", reason)
    assert "spec.redis" in plan.status.message
    assert not plan.start
    assert not plan.save


def test_a_database_that_was_created_again_is_refused_where_the_uid_is_named() -> None:
    other = restore(spec={"discard": {"database": "cache", "uid": "another"}})
    plan = decide(other)
    assert said(plan) == ("Failed", "OtherDatabase")
    assert "spec.discard.uid" in plan.status.message


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"earlier": "first"}, "AnotherRestore"),
        ({"busy": ("nightly-1",)}, "BackupRuns"),
        ({"redis": database(phase="Updating")}, "NotReady"),
        ({"redis": database(phase="Scaling")}, "NotReady"),
        ({"redis": database(observedGeneration=2)}, "NotReady"),
        ({"origin": Limitation("NoBackup", "not yet", passing=True)}, "NoBackup"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_passes_is_waited_for(facts: dict[str, Any], reason: str) -> None:
    plan = decide(restore(), **facts)
    assert said(plan) == ("Pending", reason)
    assert plan.again
    assert not plan.start


@pytest.mark.parametrize(
    ("status", "reason", "text"),
    [
        ({"phase": "Failed", "message": "the store is full"}, "NoBackup", "the store is full"),
        (
            {
                "verified": "False",
                "conditions": [
                    {
                        "type": "Verified",
                        "status": "False",
                        "reason": "BackupDamaged",
                        "message": "shard-0-1.rdb.zst has 5 of 9 bytes",
                    }
                ],
            },
            "BackupDamaged",
            "was verified and is damaged: shard-0-1.rdb.zst has 5 of 9 bytes",
        ),
        ({"version": "9.1.0", "rdb": "VALKEY080"}, "TargetFailed", "cannot load"),
    ],
)
def test_a_backup_that_cannot_be_restored_is_refused_before_anything_is_touched(
    status: dict[str, Any], reason: str, text: str
) -> None:
    found = origin_of(
        restore().spec.source, backup("monday", **status), None, Version("valkey", 8, 1, 1)
    )
    assert isinstance(found, Limitation)
    plan = decide(restore(), origin=found)
    assert said(plan) == ("Failed", reason)
    assert "spec.from: RedisBackup monday" in plan.status.message
    assert text in plan.status.message


def test_a_backup_that_is_missing_is_refused() -> None:
    found = origin_of(restore().spec.source, None, None, None)
    assert found == Limitation(
        "NoBackup", "spec.from: RedisBackup monday does not exist in this namespace"
    )


def test_clients_are_shut_out_only_after_the_backup_was_loaded() -> None:
    plan = decide(restore())
    assert said(plan) == ("Checking", "Checking")
    assert plan.start
    checking = restore(phase="Checking", attempt=1, startTime=TEXT)
    assert said(decide(checking, worker=worker(State.ACTIVE)))[0] == "Checking"
    plan = decide(checking, worker=worker(State.SUCCEEDED))
    assert said(plan)[0] == "Closing"
    assert (plan.status.keys, plan.end) == (7, ("job-1",))


@pytest.mark.parametrize("reason", ["BackupDamaged", "TargetFailed", "KeyMissing"])
def test_a_backup_that_cannot_be_loaded_changes_nothing(reason: str) -> None:
    checking = restore(phase="Checking", attempt=1)
    plan = decide(checking, worker=worker(State.FAILED, "part 1 is damaged", reason))
    assert said(plan) == ("Failed", reason)
    assert "part 1 is damaged; nothing was changed" in plan.status.message


def test_a_store_that_fails_is_tried_three_times() -> None:
    failed = worker(State.FAILED, "no route", "StoreFailed")
    plan = decide(restore(phase="Checking", attempt=1), worker=failed)
    assert (plan.status.attempt, plan.status.failures) == (2, 1)
    plan = decide(restore(phase="Checking", attempt=3, failures=2), worker=failed)
    assert said(plan) == ("Failed", "StoreFailed")


CLOSED = {"shut": True, "closed": True}


def test_the_present_data_are_backed_up_when_every_client_is_shut_out() -> None:
    closing = restore(phase="Closing", closedTime=TEXT, saves=1)
    assert not decide(closing).save
    assert not decide(closing, redis=database({"shut": True})).save
    assert not decide(closing, redis=database(CLOSED | {"uid": "another"})).save
    plan = decide(closing, redis=database(CLOSED))
    assert said(plan)[0] == "Saving"
    assert plan.save
    assert (plan.status.kept, plan.status.servers) == ("back-kept-11112222", "s")


def test_a_database_that_does_not_close_is_opened_again_after_a_while() -> None:
    closing = restore(phase="Closing", closedTime="2030-01-01T11:50:00Z", saves=1)
    plan = decide(closing)
    assert said(plan) == ("Opening", "NotClosed")
    assert "clients of Redis cache can connect again" in plan.status.message


def saving(**more: Any) -> RedisRestore:
    known = {"kept": "kept", "servers": "s", "saves": 1, "closedTime": TEXT}
    return restore(phase="Saving", **known | more)


def test_nothing_is_replaced_before_the_backup_of_the_present_data_is_complete() -> None:
    assert decide(saving(), redis=database(CLOSED)).save
    for phase in ("Pending", "Running"):
        plan = decide(saving(), redis=database(CLOSED), kept=backup(phase=phase))
        assert said(plan)[0] == "Saving"
    plan = decide(saving(), redis=database(CLOSED), kept=backup())
    assert said(plan)[0] == "Restoring"
    assert (plan.status.kept_uid, plan.status.attempt, plan.start) == ("k", 1, False)


@pytest.mark.parametrize(
    ("facts", "spec"),
    [
        ({"kept": backup(phase="Failed", message="full")}, {}),
        ({"kept": backup(verified="False")}, {"keep": {"verify": True}}),
    ],
    ids=["it failed", "it is damaged"],
)
def test_data_that_could_not_be_saved_are_not_replaced(
    facts: dict[str, Any], spec: dict[str, Any]
) -> None:
    known = {"kept": "kept", "servers": "s", "saves": 1, "closedTime": TEXT}
    plan = decide(restore(spec=spec, phase="Saving", **known), redis=database(CLOSED), **facts)
    assert said(plan) == ("Opening", "NotSaved")
    assert not is_whole(plan.status)  # nothing was replaced: there is nothing to say of it


def test_a_backup_is_waited_for_until_it_is_verified_where_that_is_asked() -> None:
    asked = restore(
        spec={"keep": {"verify": True}}, phase="Saving", kept="kept", servers="s", saves=1
    )
    assert said(decide(asked, redis=database(CLOSED), kept=backup()))[0] == "Saving"
    plan = decide(asked, redis=database(CLOSED), kept=backup(verified="True"))
    assert said(plan)[0] == "Restoring"


def test_a_server_that_began_again_has_the_data_backed_up_again() -> None:
    again = database(CLOSED | {"servers": "other"})
    plan = decide(saving(), redis=again, kept=backup())
    assert said(plan)[0] == "Closing"
    assert plan.status.saves == 2
    assert said(decide(saving(saves=5), redis=again, kept=backup())) == ("Opening", "NotSaved")


@pytest.mark.parametrize("kept", [None, backup(phase=None), backup(phase="Pending")])
def test_clients_do_not_wait_for_ever_for_a_backup_that_does_not_begin(
    kept: RedisBackup | None,
) -> None:
    late = saving(closedTime="2030-01-01T11:50:00Z")
    plan = decide(late, redis=database(CLOSED), kept=kept)
    assert said(plan) == ("Opening", "NotSaved")
    running = decide(late, redis=database(CLOSED), kept=backup(phase="Running"))
    assert said(running)[0] == "Saving"


def test_another_backup_that_is_being_read_ends_before_data_are_replaced() -> None:
    plan = decide(saving(), redis=database(CLOSED), kept=backup(), busy=("nightly",))
    assert said(plan)[0] == "Saving"


HALFWAY = CLOSED | {"replacing": True}


def replacing(phase: str = "Restoring", **more: Any) -> RedisRestore:
    known = {"kept": "kept", "keptUid": "k", "servers": "s", "saves": 1, "attempt": 1}
    known |= {"location": "monday's place", "keptLocation": "there", "started": True}
    return restore(deleted=more.pop("deleted", False), phase=phase, **known | more)


@pytest.mark.parametrize("phase", ["Restoring", "RollingBack"])
def test_a_worker_starts_when_the_database_says_so_and_no_other_may_run(phase: str) -> None:
    asked = replacing(phase)
    assert decide(asked, redis=database(HALFWAY)).start
    assert not decide(asked, redis=database(HALFWAY), living=True).start
    assert not decide(asked, redis=database(CLOSED)).start
    assert not decide(asked, redis=database(HALFWAY | {"closed": False})).start
    assert not decide(asked, redis=database(HALFWAY | {"uid": "another"})).start


def test_jobs_of_earlier_attempts_end_whoever_was_to_end_them() -> None:
    plan = decide(replacing(), redis=database(HALFWAY), others=("back-check-1",), living=True)
    assert plan.end == ("back-check-1",)
    assert not plan.start
    assert decide(restore(phase="Completed"), others=("back-replace-1",)).end == ("back-replace-1",)


def test_clients_are_let_in_when_the_database_says_that_it_has_everything() -> None:
    done = worker(State.SUCCEEDED)
    plan = decide(replacing(), redis=database(HALFWAY), worker=done)
    assert said(plan)[0] == "Restoring"
    plan = decide(replacing(), redis=database(HALFWAY | {"filled": "job-0"}), worker=done)
    assert said(plan)[0] == "Restoring"
    plan = decide(replacing(), redis=database(HALFWAY | {"filled": "job-1"}), worker=done)
    assert said(plan) == ("Opening", "Opening")
    assert plan.end == ("job-1",)
    assert (plan.status.completion_time, is_whole(plan.status)) == ("", True)


def opening(**more: Any) -> RedisRestore:
    return replacing("Opening", keys=7, **more)


@pytest.mark.parametrize("told", [None, {"opened": False}, {"opened": True, "uid": "another"}])
def test_it_is_not_over_before_clients_are_let_in(told: dict[str, Any] | None) -> None:
    plan = decide(opening(), redis=database(told))
    assert said(plan) == ("Opening", "Opening")
    assert "clients of Redis cache cannot connect yet: all is well" in plan.status.message
    assert plan.again
    failed = decide(opening(failure="it is damaged", failureReason="x"), redis=database(told))
    assert said(failed) == ("Opening", "x")
    assert failed.status.message.startswith("it is damaged; clients")


OPENED = {"opened": True}


def test_it_is_over_when_clients_are_let_in() -> None:
    plan = decide(opening(), redis=database(OPENED))
    assert said(plan) == ("Completed", "Completed")
    assert "7 keys of monday's place" in plan.status.message
    assert "RedisBackup kept (there)" in plan.status.message
    assert plan.status.completion_time == TEXT
    failed = decide(opening(failure="it is damaged", failureReason="x"), redis=database(OPENED))
    assert said(failed) == ("Failed", "x")
    assert failed.status.message == "it is damaged"


def test_it_is_over_where_no_client_can_be_let_in() -> None:
    gone = restore(deleted=True, phase="Opening", failure="why", failureReason="x")
    assert said(decide(gone, redis=None)) == ("Failed", "x")
    halfway = restore(phase="Opening", failure="why", failureReason="x")
    assert not is_whole(halfway.status)  # an earlier one left the database in the middle
    plan = decide(halfway, redis=database(HALFWAY), orphaned=True)
    assert said(plan) == ("Failed", "x")


def test_a_primary_that_changed_is_given_everything_again_and_that_is_not_a_failure() -> None:
    for state in (State.SUCCEEDED, State.FAILED):
        found = worker(state, "it is not the primary" if state is State.FAILED else "")
        plan = decide(replacing(failures=2), redis=database(HALFWAY), worker=found, outdated=True)
        assert said(plan)[0] == "Restoring"
        assert (plan.status.attempt, plan.status.failures) == (2, 2)


@pytest.mark.parametrize(
    ("failures", "reason", "phase"),
    [
        (0, "BackupDamaged", "RollingBack"),
        (0, "StoreFailed", "Restoring"),
        (1, "StoreFailed", "Restoring"),
        (2, "StoreFailed", "RollingBack"),
        (2, "TargetFailed", "RollingBack"),
    ],
)
def test_what_cannot_be_restored_is_rolled_back(failures: int, reason: str, phase: str) -> None:
    failed = worker(State.FAILED, "it is so", reason)
    plan = decide(replacing(failures=failures), redis=database(HALFWAY), worker=failed)
    assert said(plan)[0] == phase
    assert plan.status.attempt == 2
    if phase == "RollingBack":
        assert plan.status.failures == 0
        assert "RedisBackup kept (there)" in plan.status.message


def test_a_roll_back_is_tried_until_it_is_done_and_ends_as_a_failure() -> None:
    asked = replacing("RollingBack", failures=8, failure="it is damaged", failureReason="x")
    failed = worker(State.FAILED, "no route", "BackupDamaged")
    plan = decide(asked, redis=database(HALFWAY), worker=failed)
    assert said(plan)[0] == "RollingBack"
    done = database(HALFWAY | {"filled": "job-1"})
    plan = decide(asked, redis=done, worker=worker(State.SUCCEEDED))
    assert said(plan) == ("Opening", "x")
    assert "it is damaged; the database has again what it had" in plan.status.failure
    assert is_whole(plan.status)


def test_one_that_is_deleted_changes_nothing_or_is_rolled_back() -> None:
    for phase, after in (("Checking", "Failed"), ("Closing", "Opening"), ("Saving", "Opening")):
        plan = decide(restore(deleted=True, phase=phase), redis=database(CLOSED))
        assert said(plan) == (after, "Deleted")
        assert not is_whole(plan.status)
    plan = decide(replacing(deleted=True, started=False), redis=database(HALFWAY))
    assert said(plan) == ("Opening", "Deleted")
    assert is_whole(plan.status)
    plan = decide(replacing(deleted=True), redis=database(HALFWAY))
    assert said(plan) == ("RollingBack", "Deleted")
    plan = decide(replacing("RollingBack", deleted=True), redis=database(HALFWAY))
    assert plan.status.phase is RestorePhase.ROLLING_BACK


def test_a_database_that_is_gone_ends_it() -> None:
    for asked in (restore(phase="Closing"), saving(), replacing()):
        assert said(decide(asked, redis=None)) == ("Failed", "NoDatabase")


def test_a_database_that_was_left_halfway_is_restored_though_it_is_not_ready() -> None:
    halfway = database(HALFWAY | {"uid": "gone"}, phase="Updating")
    assert said(decide(restore(), redis=halfway)) == ("Pending", "NotReady")
    assert said(decide(restore(), redis=halfway, orphaned=True))[0] == "Checking"


def test_what_ended_stays_so() -> None:
    for phase in (RestorePhase.COMPLETED, RestorePhase.FAILED):
        ended = restore(phase=phase.value, message="as it was")
        plan = decide(ended, redis=None)
        assert plan.status == ended.status


def live() -> dict[str, Any]:
    return {
        "mine": {
            "metadata": {"uid": "11112222-3"},
            "status": {"phase": "Restoring", "attempt": 1, "keptUid": "k", "database": "u"},
        },
        "kept": {"metadata": {"uid": "k"}, "status": {"phase": "Completed"}},
        "redis": {
            "metadata": {"uid": "u"},
            "status": {"restoring": {"name": "back", "uid": "11112222-3", **HALFWAY}},
        },
    }


def test_a_worker_may_start_by_what_the_api_says() -> None:
    assert start_limitation(replacing(), **live()) is None


@pytest.mark.parametrize(
    ("what", "where", "value"),
    [
        ("mine", ("metadata", "uid"), "another"),
        ("mine", ("status", "phase"), "Completed"),
        ("mine", ("status", "phase"), "RollingBack"),
        ("mine", ("status", "attempt"), 2),
        ("mine", ("status", "keptUid"), ""),
        ("kept", ("metadata", "uid"), "another"),
        ("kept", ("status", "phase"), "Running"),
        ("kept", ("metadata", "deletionTimestamp"), TEXT),
        ("redis", ("metadata", "uid"), "another"),
        ("redis", ("status", "restoring"), None),
        ("redis", ("status", "restoring", "uid"), "another"),
        ("redis", ("status", "restoring", "closed"), False),
        ("redis", ("status", "restoring", "replacing"), False),
    ],
)
def test_no_worker_starts_where_the_api_says_otherwise(
    what: str, where: tuple[str, ...], value: Any
) -> None:
    found = live()
    place = found[what]
    for name in where[:-1]:
        place = place[name]
    place[where[-1]] = value
    assert start_limitation(replacing(), **found) is not None


def test_the_backup_of_the_present_data_is_kept_where_the_other_one_is() -> None:
    made = kept_backup(replace(saving(), spec=restore().spec), origin())
    assert made["spec"]["storage"] == STORE
    assert made["metadata"]["labels"] == {"redisoperator.dev/kept-for": "11112222-3"}
    assert made["metadata"]["annotations"] == {"redisoperator.dev/keep": "true"}
    assert "ownerReferences" not in made["metadata"]
    elsewhere = restore(spec={"keep": {"storage": {"claim": {"name": "other"}}}}, phase="Saving")
    encrypted = replace(origin(), encryption=None)
    assert kept_backup(elsewhere, encrypted)["spec"]["storage"] == {"claim": {"name": "other"}}


def test_clients_are_served_until_every_pod_has_had_time_for_the_file_that_shuts_them_out() -> None:
    plan = decide(restore(phase="Checking", attempt=1), worker=worker(State.SUCCEEDED))
    assert said(plan) == ("Closing", "Preparing")
    assert (plan.status.closing_time, plan.status.closed_time) == (TEXT, "")
    refresh = timedelta(seconds=90)
    early = restore(phase="Closing", closingTime="2030-01-01T11:59:00Z", saves=1)
    plan = decide(early, redis=database(CLOSED), refresh=refresh)
    assert said(plan) == ("Closing", "Preparing")
    assert (plan.status.closed_time, plan.save, plan.again) == ("", False, 30.0)
    later = restore(phase="Closing", closingTime="2030-01-01T11:58:00Z", saves=1)
    plan = decide(later, redis=database(CLOSED), refresh=refresh)
    assert said(plan) == ("Closing", "Closing")
    assert (plan.status.closed_time, plan.save) == (TEXT, False)


LONG_AGO = "2030-01-01T11:50:00Z"
REFUSED = {"type": "Complete", "status": "False", "reason": "ChildRefused", "message": "a quota"}
HELD = {"waitingTime": LONG_AGO, "message": "a quota", "conditions": [REFUSED]}


def test_a_worker_that_cannot_be_started_has_its_time_noted() -> None:
    for asked in (restore(phase="Checking", attempt=1), replacing(started=False)):
        plan = decide(asked, redis=database(HALFWAY))
        assert (plan.start, plan.status.waiting_time) == (True, TEXT)
        runs = decide(
            replace(asked, status=replace(asked.status, waiting_time=LONG_AGO)),
            redis=database(HALFWAY),
            worker=worker(State.ACTIVE),
        )
        assert runs.status.waiting_time == ""


def test_clients_do_not_wait_for_ever_for_a_worker_that_is_refused() -> None:
    """A quota that refuses the first worker also refuses one that would give the data back."""
    plan = decide(restore(phase="Checking", attempt=1, **HELD))
    assert said(plan) == ("Failed", "ChildRefused")
    assert plan.status.message == "a quota; nothing was changed"
    plan = decide(replacing(started=False, **HELD), redis=database(HALFWAY))
    assert said(plan) == ("Opening", "ChildRefused")
    assert plan.status.failure == "a quota; no data was replaced"
    assert is_whole(plan.status)


@pytest.mark.parametrize("more", [{"started": True}, {"started": False, "attempt": 2}])
def test_data_that_may_have_been_replaced_are_given_back(more: dict[str, Any]) -> None:
    plan = decide(replacing(**HELD | more), redis=database(HALFWAY))
    assert said(plan) == ("RollingBack", "ChildRefused")
    assert "a quota" in plan.status.message
    assert plan.status.waiting_time == ""
    plan = decide(replacing("RollingBack", **HELD), redis=database(HALFWAY))
    assert said(plan) == ("RollingBack", "ChildRefused")
    assert plan.start


def test_a_database_that_stays_unready_is_opened_again_where_no_data_were_replaced() -> None:
    waits = decide(replacing(started=False), redis=database(CLOSED))
    assert said(waits) == ("Restoring", "WorkerWaits")
    asked = replacing(started=False, waitingTime=LONG_AGO, message="x", conditions=[REFUSED])
    assert said(decide(asked, redis=database(CLOSED)))[0] == "Opening"


@pytest.mark.parametrize("reason", ["ChildRefused", "WorkerWaits"])
def test_a_backup_of_the_present_data_that_is_held_up_is_not_waited_for_ever(reason: str) -> None:
    held = backup(phase="Running", message="a quota", conditions=[REFUSED | {"reason": reason}])
    plan = decide(saving(), redis=database(CLOSED), kept=held)
    assert (said(plan)[0], plan.status.waiting_time) == ("Saving", TEXT)
    plan = decide(saving(waitingTime=LONG_AGO), redis=database(CLOSED), kept=held)
    assert said(plan) == ("Opening", "NotSaved")
    assert "a quota; that took too long" in plan.status.failure
    reads = backup(phase="Running", conditions=[REFUSED | {"reason": "Reading"}])
    plan = decide(saving(waitingTime=LONG_AGO), redis=database(CLOSED), kept=reads)
    assert (said(plan)[0], plan.status.waiting_time) == ("Saving", "")


def test_a_backup_of_the_present_data_that_is_being_deleted_keeps_nothing() -> None:
    kept = backup()
    kept = replace(kept, metadata=replace(kept.metadata, deletion_timestamp=TEXT))
    plan = decide(saving(), redis=database(CLOSED), kept=kept)
    assert said(plan) == ("Opening", "NotSaved")
    assert "it is being deleted; nothing was changed" in plan.status.failure
