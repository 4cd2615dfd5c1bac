"""Backups in detail: bounds of waits, what is said, and which backups of a schedule stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from planning.backups import test_backup_endings as endings
from planning.backups.test_backups import NOW, PODS, backup, database, decide, ended
from redis_operator.api.backup_storage import BackupStorage
from redis_operator.api.redis import Mode, Redis
from redis_operator.api.redisbackup import BackupPhase, RedisBackup
from redis_operator.api.redisbackupschedule import BackupRetention
from redis_operator.api.redisrestore import KEPT_LABEL
from redis_operator.backup.task import Source, WorkerProgress
from redis_operator.planning.backups.attempts import State, Worker
from redis_operator.planning.backups.backup import is_due, plan_backup
from redis_operator.planning.backups.restores import is_same_store
from redis_operator.planning.backups.retention import Taken, surplus

TEXT = "2026-01-05T03:00:00Z"


def reason(what: RedisBackup | None = None, redis: Redis | None = None, **more: Any) -> str:
    return decide(what, redis, **more).status.conditions[0].reason


def failures(count: int, ago: float) -> list[Worker]:
    return [ended(State.FAILED, n + 1, ago=ago, error="no") for n in range(count)]


@pytest.mark.parametrize(("count", "pause"), [(1, 10), (2, 20), (3, 40), (4, 80)])
def test_each_failure_doubles_the_pause(count: int, pause: int) -> None:
    asked = backup(attempts=9)
    early = decide(asked, database(), *failures(count, pause - 0.5))
    assert (early.start, early.again) == (None, 0.5)
    assert early.status.phase is BackupPhase.RUNNING
    late = decide(asked, database(), *failures(count, pause))
    assert late.start is not None
    assert late.start.attempt == count + 1


@pytest.mark.parametrize(("count", "phase"), [(1, BackupPhase.RUNNING), (2, BackupPhase.FAILED)])
def test_a_backup_fails_after_as_many_attempts_as_are_asked(count: int, phase: BackupPhase) -> None:
    plan = decide(backup(attempts=2), database(), *failures(count, 3600))
    assert plan.status.phase is phase
    if phase is BackupPhase.FAILED:
        assert plan.status.completion_time == "2026-01-05T02:00:00Z"
        assert plan.status.attempt == count


def test_a_worker_without_an_end_is_followed_at_once() -> None:
    undated = replace(failures(1, 0)[0], ended=None)
    plan = decide(None, database(), undated)
    assert plan.start is not None
    assert decide(backup(attempts=1), database(), undated).status.completion_time == TEXT


def test_a_worker_that_succeeded_without_a_report_counts_as_an_attempt() -> None:
    silent = [replace(one, state=State.SUCCEEDED, report=None) for one in failures(3, 3600)]
    assert decide(backup(attempts=3), database(), *silent).status.phase is BackupPhase.FAILED
    failed = ended(State.FAILED, 2, size=9)
    assert decide(backup(attempts=3), database(), failed).status.phase is BackupPhase.RUNNING


def test_the_last_attempt_is_the_one_with_the_highest_number() -> None:
    workers = (Worker(2, "second", State.ACTIVE), ended(State.FAILED, 1, error="no"))
    for order in (workers, workers[::-1]):
        plan = decide(None, database(), *order)
        assert (plan.status.job, plan.status.attempt) == ("second", 2)


@pytest.mark.parametrize(
    ("redis", "found"),
    [
        (database(phase="Waking"), "NotRunning"),
        (database(phase="Deleting"), "NotRunning"),
        (database(phase="Updating"), "Reading"),
        (replace(database(), spec=replace(database().spec, hibernate=True)), "NotRunning"),
        (
            replace(database(phase="Scaling"), spec=replace(database().spec, mode=Mode.FAILOVER)),
            "Reading",
        ),
    ],
    ids=["wakes", "goes", "changes", "is to hibernate", "scales without slots"],
)
def test_a_database_is_read_while_it_runs_and_no_slot_moves(redis: Redis, found: str) -> None:
    assert reason(None, redis) == found


def test_a_database_that_is_not_formed_is_said_to_be_what_it_is() -> None:
    assert "it is new" in decide(None, database(binding=None, phase=None)).status.message
    creating = decide(None, database(binding=None, phase="Creating"))
    assert "it is Creating" in creating.status.message


def test_only_the_backup_that_a_restore_asked_for_is_taken_while_it_is_under_way() -> None:
    redis = database(restoring={"name": "back", "uid": "r"})
    for uid, found in (("r", "Reading"), ("q", "Restoring")):
        asked = backup()
        asked = replace(asked, metadata=replace(asked.metadata, labels={KEPT_LABEL: uid}))
        assert reason(asked, redis) == found


def test_pods_without_an_address_are_not_read() -> None:
    plan = decide(None, database(), pods=PODS | {"cache-0-2": ""})
    assert plan.start is not None
    assert plan.start.shards[0].sources == (Source("cache-0-1", "10.0.0.1"),)
    alone = database(replicas=0)
    assert reason(None, alone, pods=PODS | {"cache-1-0": ""}) == "NoSource"
    assert reason(None, database(replicas=1), pods=PODS | {"cache-1-1": ""}) == "NoSource"


def test_what_is_read_is_told_with_its_engine_and_image() -> None:
    redis = database(engine="")
    images = {"cache-0-2": "valkey:9"}
    plan = plan_backup(backup(), redis, (), pods=PODS, login=True, now=NOW, images=images)
    assert (plan.status.engine, plan.status.image, plan.status.shards) == ("valkey", "valkey:9", 3)
    assert (plan.status.mode, plan.status.start_time) == ("Cluster", TEXT)
    assert plan.again is None


def test_what_is_waited_for_is_looked_at_within_seconds_and_told_after_a_failure() -> None:
    waits = decide(None, None)
    assert waits.again is not None
    assert 0 < waits.again <= 10
    again = decide(None, None, *failures(1, 3600))
    assert again.status.phase is BackupPhase.RUNNING
    assert "attempt 1 failed: no; the next one waits:" in again.status.message


def test_slots_are_held_for_less_than_an_hour_and_that_is_looked_at() -> None:
    told = msgspec.to_builtins(decide(None, database()).status)
    worker = Worker(1, "j", State.ACTIVE)
    hour = NOW + timedelta(hours=1)
    before = decide(backup(told), database(), worker, now=hour - timedelta(seconds=1))
    assert before.status.holds_slots
    assert before.again is not None
    assert 10 < before.again <= 100
    assert not decide(backup(told), database(), worker, now=hour).status.holds_slots


def test_a_report_without_numbers_is_a_part_without_size() -> None:
    worker = ended(State.SUCCEEDED, size=9, parts=({"name": "shard-0"},))
    plan = decide(backup(), database(), worker)
    (part,) = plan.status.parts
    assert (part.offset, part.size, part.stored, part.pod, part.slots) == (0, 0, 0, "", "")
    assert plan.status.message == "9 bytes of 1 shards are stored"
    assert plan.status.paused_milliseconds is None
    assert (plan.status.job, plan.status.completion_time) == (
        "monday-backup-1",
        "2026-01-05T02:00:00Z",
    )
    undated = replace(worker, ended=None)
    assert decide(backup(), database(), undated).status.completion_time == TEXT


def test_progress_is_that_of_the_present_attempt() -> None:
    told = {"read": 1 << 20, "stored": 5, "parts": 2, "time": TEXT}
    known = {"phase": "Running", "attempt": 1, "shards": 3, "progress": told}
    same = decide(backup(known), database(), Worker(1, "j", State.ACTIVE))
    assert "1.0Mi so far, 2 of 3 shards are stored" in same.status.message
    assert same.status.progress is not None
    other = decide(backup(known), database(), Worker(2, "j", State.ACTIVE))
    assert other.status.message == "worker j is reading"
    assert other.status.progress is None
    unknown = decide(
        backup({"attempt": 1}),
        database(),
        Worker(1, "j", State.ACTIVE, progress=WorkerProgress(0, 0, 0)),
    )
    assert "0 of 1 shards are stored" in unknown.status.message


def test_a_worker_is_asked_every_ten_seconds() -> None:
    def known(time: str) -> RedisBackup:
        return backup({"progress": {"read": 1, "stored": 1, "parts": 1, "time": time}})

    assert is_due(backup(), NOW)
    assert is_due(known(""), NOW)
    assert not is_due(known("2026-01-05T02:59:51Z"), NOW)
    assert is_due(known("2026-01-05T02:59:50Z"), NOW)


# Which backups stay


def taken(name: str, day: int, hour: int = 3, recorded: int = 0) -> Taken:
    moment = datetime(2026, 1, day, hour, tzinfo=UTC)
    return Taken(name, moment, moment + timedelta(days=recorded))


DAYS = [taken(f"d{day:02}", day) for day in range(1, 16)]  # the 5th and the 12th are Mondays


def gone(found: list[Taken], *, now: int = 20, **rules: int) -> tuple[str, ...]:
    moment = datetime(2026, 1, now, tzinfo=UTC)
    return surplus(BackupRetention(**rules), found, now=moment, zone=UTC)


def stay(found: list[Taken], **rules: int) -> list[str]:
    lost = gone(found, **rules)
    assert list(lost) == sorted(lost)
    return [one.name for one in found if one.name not in lost]


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        ({}, [one.name for one in DAYS]),
        ({"keep_last": 2}, ["d14", "d15"]),
        ({"daily": 3}, ["d13", "d14", "d15"]),
        ({"weekly": 2}, ["d11", "d15"]),
        ({"monthly": 2}, ["d15"]),
        ({"keep_last": 1, "weekly": 3}, ["d04", "d11", "d15"]),
        ({"keep_last": 0}, ["d15"]),
        ({"max_age_days": 2}, ["d13", "d14", "d15"]),
        ({"keep_last": 5, "max_age_days": 1}, ["d14", "d15"]),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_field_keeps_backups_and_the_newest_always_stays(
    rules: dict[str, int], names: list[str]
) -> None:
    assert stay(DAYS, **rules) == names


def test_of_a_day_the_last_one_stays() -> None:
    found = [taken("a", 1, 3), taken("b", 1, 9), taken("c", 2, 3)]
    assert stay(found, daily=2) == ["b", "c"]


def test_ages_are_counted_up_to_the_newest_record_and_never_past_now() -> None:
    late = [taken("a", 1), taken("b", 2), taken("c", 3, recorded=9)]
    assert gone(late, max_age_days=5) == ("a", "b")
    assert gone(late, max_age_days=5, now=4) == ()
    assert gone([], max_age_days=1) == ()
    assert gone([taken("a", 1)], max_age_days=1) == ()


# One store or another

STORES: dict[str, dict[str, Any]] = {
    "s3": {"s3": {"bucket": "one", "endpoint": "https://a"}},
    "s3 of another bucket": {"s3": {"bucket": "two", "endpoint": "https://a"}},
    "s3 elsewhere": {"s3": {"bucket": "one", "endpoint": "https://b"}},
    "gcs": {"gcs": {"bucket": "one", "endpoint": "https://a"}},
    "gcs of another bucket": {"gcs": {"bucket": "two", "endpoint": "https://a"}},
    "azure": {"azure": {"account": "a", "container": "one"}},
    "azure of another container": {"azure": {"account": "a", "container": "two"}},
    "azure of another account": {"azure": {"account": "b", "container": "one"}},
    "claim": {"claim": {"name": "one"}},
    "another claim": {"claim": {"name": "two"}},
}


@pytest.mark.parametrize("one", STORES)
def test_each_store_is_the_same_as_itself_alone(one: str) -> None:
    def stored(raw: dict[str, Any]) -> BackupStorage:
        return msgspec.convert(raw, BackupStorage)

    found = [name for name in STORES if is_same_store(stored(STORES[one]), stored(STORES[name]))]
    assert found == [one]


def test_a_slash_at_its_end_makes_no_other_store() -> None:
    for kind in ("s3", "gcs"):
        one = {kind: {"bucket": "b", "endpoint": "https://a"}}
        other = {kind: {"bucket": "b", "endpoint": "https://a/"}}
        assert is_same_store(
            msgspec.convert(one, BackupStorage), msgspec.convert(other, BackupStorage)
        )


# The end of a backup


def test_a_worker_that_could_not_delete_is_followed_after_half_a_minute() -> None:
    early = endings.decide(deleting=endings.worker(State.FAILED, ago=29.5))
    assert (early.again, early.end) == (0.5, ())
    late = endings.decide(deleting=endings.worker(State.FAILED, ago=30))
    assert late.end == ("monday-delete",)
    assert late.again is not None
    assert late.again <= 2
    undated = replace(endings.worker(State.FAILED), ended=None)
    assert endings.decide(deleting=undated).end == ("monday-delete",)


def test_what_holds_the_end_of_a_backup_up_is_looked_at_within_seconds() -> None:
    used = endings.decide(in_use=frozenset({"monday"}))
    busy = endings.decide(endings.worker(State.ACTIVE, "monday-backup-1"))
    for plan in (used, busy):
        assert (plan.start, plan.release) == (False, False)
        assert plan.again is not None
        assert plan.again <= 10
    assert busy.end == ("monday-backup-1",)
    ended_one = endings.worker(State.FAILED, "monday-backup-1")
    assert endings.decide(ended_one).start
    assert endings.decide(ended_one, pods=1).end == ("monday-backup-1",)
    pod_alone = endings.decide(pods=1)
    assert (pod_alone.start, pod_alone.end) == (False, ())
    assert "its pod is still there" in pod_alone.status.message
