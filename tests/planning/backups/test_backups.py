"""What is done about a backup, decided by what is there: a table of situations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from redis_operator.api.backup_storage import BackupStorage
from redis_operator.api.redis import Mode, Redis
from redis_operator.api.redisbackup import BackupPhase, RedisBackup
from redis_operator.api.redisbackup_validation import load_redisbackup
from redis_operator.api.validation import load
from redis_operator.backup.task import Report, Source, WorkerProgress
from redis_operator.planning.backups.attempts import State, Worker
from redis_operator.planning.backups.backup import (
    PROGRESS_SECONDS,
    BackupPlan,
    is_due,
    location_of,
    path_of,
    plan_backup,
)
from redis_operator.planning.backups.restores import (
    is_same_store,
    mixed_limitation,
    newest_good,
    restore_limitation,
)
from redis_operator.redis.versions import Version

NOW = datetime(2026, 1, 5, 3, 0, tzinfo=UTC)
PODS = {f"cache-{shard}-{n}": f"10.0.{shard}.{n}" for shard in range(3) for n in range(3)}


def backup(status: dict[str, Any] | None = None, **spec: Any) -> RedisBackup:
    return msgspec.convert(
        {
            "metadata": {"namespace": "ns", "name": "monday", "uid": "0123456789", "generation": 1},
            "spec": {"redis": "cache", "storage": {"claim": {"name": "backups"}}, **spec},
            "status": status or {},
        },
        RedisBackup,
    )


def database(*, replicas: int = 2, link: str = "up", **status: Any) -> Redis:
    shards = [
        {
            "name": f"shard-{shard}",
            "slots": f"{shard}",
            "primary": f"cache-{shard}-0",
            "replicas": [
                {"pod": f"cache-{shard}-{n}", "link": link, "lagBytes": 10 - n}
                for n in range(1, replicas + 1)
            ],
        }
        for shard in range(3)
    ]
    return msgspec.convert(
        {
            "metadata": {"namespace": "ns", "name": "cache", "uid": "u"},
            "spec": {"mode": "Cluster", "shards": 3, "replicas": replicas},
            "status": {
                "phase": "Ready",
                "binding": {"name": "cache-conn"},
                "engine": "valkey",
                "version": "9.1.2",
                "shards": shards,
                **status,
            },
        },
        Redis,
    )


def decide(
    what: RedisBackup | None = None,
    redis: Redis | None = None,
    *workers: Worker,
    pods: dict[str, str] = PODS,
    login: bool = True,
    now: datetime = NOW,
) -> BackupPlan:
    return plan_backup(what or backup(), redis, workers, pods=pods, login=login, now=now)


def ended(state: State, attempt: int = 1, *, ago: float = 3600.0, **report: Any) -> Worker:
    told = Report(**report) if report else None
    return Worker(
        attempt, f"monday-backup-{attempt}", state, told, ended=NOW - timedelta(seconds=ago)
    )


def test_the_replica_nearest_to_its_primary_is_read_first() -> None:
    plan = decide(redis=database())
    assert plan.start is not None
    assert plan.start.attempt == 1
    first = plan.start.shards[0]
    assert [source.pod for source in first.sources] == ["cache-0-2", "cache-0-1"]
    assert first.slots == "0"
    assert plan.status.phase is BackupPhase.RUNNING
    assert (plan.status.engine, plan.status.version) == ("valkey", "9.1.2")
    assert plan.status.path == "ns/cache/monday-01234567"


@pytest.mark.parametrize(
    ("redis", "more", "reason"),
    [
        (None, {}, "NoDatabase"),
        (database(binding=None), {}, "NotFormed"),
        (database(phase="Hibernated"), {}, "NotRunning"),
        (database(phase="Scaling"), {}, "SlotsMove"),
        (database(restoring={"name": "back", "uid": "r"}), {}, "Restoring"),
        (database(shards=[]), {}, "NotSeen"),
        (database(version=""), {}, "NotSeen"),
        (database(), {"login": False}, "NoLogin"),
        (database(link="down"), {}, "NoSource"),
        (database(), {"pods": {}}, "NoSource"),
    ],
)
def test_what_is_missing_is_named_and_waited_for(
    redis: Redis | None, more: dict[str, Any], reason: str
) -> None:
    plan = decide(redis=redis, **more)
    assert plan.start is None
    assert plan.again is not None
    assert plan.status.phase is BackupPhase.PENDING
    [condition] = plan.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("Complete", "False", reason)


def test_a_primary_is_read_only_where_there_is_no_replica_by_the_spec() -> None:
    plan = decide(redis=database(replicas=0))
    assert plan.start is not None
    assert [source.pod for source in plan.start.shards[1].sources] == ["cache-1-0"]
    refused = decide(backup(allowPrimary=False), database(replicas=0))
    assert refused.start is None
    assert "spec.allowPrimary" in refused.status.message
    assert decide(redis=database(link="down")).start is None


def test_a_worker_whose_containers_are_not_made_is_not_said_to_read() -> None:
    """A Secret or a volume that is missing is told by events of the pod alone."""

    def at(seconds: float) -> BackupPlan:
        since = NOW - timedelta(seconds=seconds)
        return decide(None, database(), Worker(1, "monday-backup-1", State.ACTIVE, made=since))

    assert at(10).status.conditions[0].reason == "Reading"
    assert at(10).status.message == "worker monday-backup-1 starts"
    assert at(10).again == 50.0
    [condition] = at(70).status.conditions
    assert condition.reason == "WorkerWaits"
    assert "a Secret or a volume" in condition.message
    assert "kubectl describe pods -l job-name=monday-backup-1" in condition.message
    assert at(7000).status == at(70).status  # which is written once


def test_while_a_worker_reads_no_other_starts() -> None:
    plan = decide(None, database(), Worker(1, "monday-backup-1", State.ACTIVE))
    assert (plan.start, plan.status.phase) == (None, BackupPhase.RUNNING)
    stuck = Worker(1, "monday-backup-1", State.ACTIVE, trouble="pod waits: ErrImagePull")
    assert "ErrImagePull" in decide(None, database(), stuck).status.message


def test_the_words_of_a_worker_become_the_status_and_stay() -> None:
    parts = ({"name": "shard-0", "slots": "0", "pod": "cache-0-1", "offset": 7, "size": 9},)
    worker = ended(State.SUCCEEDED, size=9, stored=3, rdb="VALKEY080", parts=parts)
    plan = decide(backup({"shards": 1}), database(), worker)
    status = plan.status
    assert plan.start is None
    assert (status.phase, status.size, status.stored) == (BackupPhase.COMPLETED, 9, 3)
    assert (status.parts[0].pod, status.parts[0].offset) == ("cache-0-1", 7)
    assert status.conditions[0].status == "True"
    # whatever becomes of the database and the workers
    known = backup(msgspec.to_builtins(status))
    assert decide(known, None).status == status
    assert decide(known, database(), ended(State.FAILED, 2, error="no")).start is None


def test_a_failed_worker_is_followed_by_another_one_after_a_pause() -> None:
    failed = ended(State.FAILED, ago=1, error="the store is full", reason="StoreFailed")
    plan = decide(None, database(), failed)
    assert plan.start is None
    assert plan.again == pytest.approx(9)
    assert "the store is full" in plan.status.message
    later = decide(None, database(), failed, now=NOW + timedelta(seconds=10))
    assert later.start is not None
    assert later.start.attempt == 2


def test_the_last_failure_is_the_end() -> None:
    workers = [ended(State.FAILED, n, error=f"no {n}", reason="StoreFailed") for n in (1, 2, 3)]
    plan = decide(None, database(), *workers)
    assert plan.start is None
    assert plan.status.phase is BackupPhase.FAILED
    assert "no 3" in plan.status.message
    assert plan.status.conditions[0].reason == "StoreFailed"


def test_a_worker_that_ended_without_a_word_is_asked_again() -> None:
    """Its manifest is there: the next one tells of it and reads nothing."""
    plan = decide(None, database(), ended(State.SUCCEEDED))
    assert plan.start is not None
    assert plan.start.attempt == 2


def test_an_operator_that_died_after_it_said_so_starts_the_same_worker() -> None:
    first = decide(redis=database())
    told = backup(msgspec.to_builtins(first.status))
    again = decide(told, database(), now=NOW + timedelta(seconds=5))
    assert again.start == first.start
    assert again.status.start_time == first.status.start_time


def test_no_two_backups_share_a_folder() -> None:
    s3 = {"s3": {"bucket": "b", "prefix": "all/ours"}}
    assert path_of(backup(storage=s3)) == "all/ours/ns/cache/monday-01234567"


COMPLETED = {
    "phase": "Completed",
    "shards": 1,
    "engine": "valkey",
    "version": "9.1.2",
    "rdb": "VALKEY080",
}


@pytest.mark.parametrize(
    ("status", "ours", "words"),
    [
        (COMPLETED, Version("valkey", 9, 1, 2), None),
        (COMPLETED, Version("valkey", 9, 0), "cannot load"),
        (COMPLETED, Version("valkey", 8, 1), "cannot load"),
        (COMPLETED, Version("redis", 8, 6), "cannot load"),
        (
            {**COMPLETED, "engine": "redis", "version": "6.2.14", "rdb": "REDIS0009"},
            Version("valkey", 9, 1),
            None,
        ),
        (
            {**COMPLETED, "engine": "redis", "version": "7.4.0", "rdb": "REDIS0012"},
            Version("valkey", 9, 1),
            "cannot load",
        ),
        (
            {**COMPLETED, "engine": "redis", "version": "7.0.15", "rdb": "REDIS0010"},
            Version("redis", 6, 2),
            "cannot load",
        ),
        ({**COMPLETED, "shards": 3}, Version("valkey", 9, 1), None),
        ({**COMPLETED, "phase": "Running"}, Version("valkey", 9, 1), "is Running"),
        ({}, Version("valkey", 9, 1), "is new"),
    ],
)
def test_what_an_engine_cannot_load_is_refused_before_anything_is_touched(
    status: dict[str, Any], ours: Version, words: str | None
) -> None:
    found = restore_limitation(backup(status), "monday", ours)
    if words is None:
        assert found is None
    else:
        assert found is not None
        assert words in found
        assert "spec.bootstrap.fromBackup" in found


def test_a_backup_that_is_not_there_is_named() -> None:
    found = restore_limitation(None, "monday", Version("valkey", 9, 1))
    assert found is not None
    assert "RedisBackup monday does not exist" in found


def test_how_far_a_worker_is_stands_in_the_status_until_it_ends() -> None:
    running = {"phase": "Running", "attempt": 1, "shards": 3}
    worker = Worker(1, "j", State.ACTIVE, host="10.0.0.1", progress=WorkerProgress(5 << 20, 100, 1))
    plan = decide(backup(running), database(), worker)
    assert plan.again == PROGRESS_SECONDS
    assert plan.status.message == "worker j is reading: 5.0Mi so far, 1 of 3 shards are stored"
    told = msgspec.to_builtins(plan.status)
    assert told["progress"]["read"] == 5 << 20
    again = backup(told)
    assert not is_due(again, NOW + timedelta(seconds=9))  # writes are bounded
    assert is_due(again, NOW + timedelta(seconds=10))
    silent = decide(again, database(), replace(worker, progress=None))
    assert silent.status == plan.status  # who cannot be asked changes nothing
    done = decide(again, database(), ended(State.SUCCEEDED, size=9))
    assert done.status.progress is None
    second = decide(again, database(), Worker(2, "k", State.ACTIVE, host="10.0.0.2"))
    assert second.status.progress is None


def test_for_a_cut_every_primary_is_named_and_one_that_is_gone_is_waited_for() -> None:
    asked = backup(consistency="Cut")
    plan = decide(asked, database())
    assert plan.start is not None
    for number, shard in enumerate(plan.start.shards):
        assert shard.primary == Source(f"cache-{number}-0", f"10.0.{number}.0")
        assert shard.primary not in shard.sources
    alone = decide(asked, database(replicas=0))
    assert alone.start is not None
    assert alone.start.shards[0].sources == (alone.start.shards[0].primary,)
    without = {name: host for name, host in PODS.items() if name != "cache-1-0"}
    waits = decide(asked, database(), pods=without)
    assert waits.start is None
    assert "shard-1 has no primary" in waits.status.message
    told = ended(State.SUCCEEDED, size=9, paused=21)
    assert decide(asked, database(), told).status.paused_milliseconds == 21


def test_one_shard_needs_no_pause_for_a_cut() -> None:
    """Ending it would end that of a switchover, too: a write would be lost."""
    one = database()
    alone = msgspec.structs.replace(
        one, status=msgspec.structs.replace(one.status, shards=one.status.shards[:1])
    )
    plan = decide(backup(consistency="Cut"), alone)
    assert plan.start is not None
    assert not plan.start.cut
    [shard] = plan.start.shards
    assert shard.primary is not None  # whose writes it waits for


def test_a_backup_is_taken_where_the_primary_has_no_pod() -> None:
    """What it had acknowledged is not known then: the replica is the best there is."""
    one = database()
    shards = tuple(msgspec.structs.replace(s, primary="") for s in one.status.shards)
    gone = msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, shards=shards))
    plan = decide(backup(), gone)
    assert plan.start is not None
    assert {shard.primary for shard in plan.start.shards} == {None}


def test_no_cut_is_made_where_its_end_would_end_the_pause_of_a_failover() -> None:
    older = database(engine="redis", version="6.2.14")
    plan = decide(backup(consistency="Cut"), older)
    assert plan.start is None
    [condition] = plan.status.conditions
    assert condition.reason == "NoCut"
    assert "spec.consistency" in condition.message
    assert decide(redis=older).start is not None
    assert decide(backup(consistency="Cut"), database(engine="redis", version="7.0.15")).start


def test_slots_are_held_while_a_worker_reads_and_for_an_hour_at_most() -> None:
    plan = decide(redis=database())
    assert plan.status.holds_slots
    told = msgspec.to_builtins(plan.status)
    worker = Worker(1, "j", State.ACTIVE)
    reading = decide(backup(told), database(), worker, now=NOW + timedelta(minutes=59))
    assert reading.status.holds_slots
    assert reading.again is not None  # somebody has to look when the hour is over
    assert not decide(
        backup(told), database(), worker, now=NOW + timedelta(minutes=61)
    ).status.holds_slots
    waits = replace(worker, trouble="no volume")
    assert not decide(backup(told), database(), waits).status.holds_slots
    failed = decide(backup(told), database(), ended(State.FAILED, ago=0, error="x"))
    assert not failed.status.holds_slots  # slots may move before the next attempt
    done = decide(backup(told), database(), ended(State.SUCCEEDED, size=9))
    assert not done.status.holds_slots
    alone = replace(database().spec, mode=Mode.STANDALONE)
    assert not decide(redis=replace(database(), spec=alone)).status.holds_slots


def test_a_bandwidth_that_no_server_would_bear_is_refused() -> None:
    spec = {"redis": "cache", "storage": {"claim": {"name": "b"}}}
    for given, fits in (("64Ki", True), ("10M", True), ("1k", False), ("0", False)):
        found = load_redisbackup({"metadata": {}, "spec": {**spec, "bandwidth": given}})
        assert isinstance(found, RedisBackup) is fits, given


OWN = {"backup": "monday", "keys": 7}
PART = {**OWN, "startTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("bootstrap", "told", "words"),
    [
        ({"fromBackup": {"name": "monday"}}, None, None),
        ({"fromBackup": {"name": "monday"}}, PART, None),
        ({}, PART, "was removed before all keys of backup monday"),
        ({}, {"backup": "monday"}, None),
        ({}, {**PART, "completionTime": "2026-01-01T00:00:00Z"}, None),
        ({"fromBackup": {"name": "tuesday"}}, PART, "would be mixed"),
        ({"fromBackup": {"name": "monday"}}, OWN, "the database has data of its own"),
        ({}, OWN, None),
    ],
)
def test_a_part_of_a_backup_is_neither_served_nor_mixed_with_another(
    bootstrap: dict[str, Any], told: dict[str, Any] | None, words: str | None
) -> None:
    found = load(
        {
            "apiVersion": "redisoperator.dev/v1",
            "kind": "Redis",
            "metadata": {"namespace": "ns", "name": "copy", "uid": "u"},
            "spec": {"mode": "Cluster", "shards": 3, "bootstrap": bootstrap},
            "status": {"restore": told} if told else {},
        }
    )
    assert isinstance(found, Redis)
    told_limitation = mixed_limitation(found)
    assert told_limitation is None if words is None else words in str(told_limitation)


def test_the_newest_backup_of_a_schedule_is_one_that_can_be_restored() -> None:
    def one(name: str, time: str, **more: Any) -> RedisBackup:
        found = backup({**COMPLETED, "completionTime": time, **more})
        return replace(found, metadata=replace(found.metadata, name=name))

    backups = [
        one("a", "2026-01-01T00:00:00Z"),
        one("b", "2026-01-02T00:00:00Z", verified="Unknown"),
        one("damaged", "2026-01-03T00:00:00Z", verified="False"),
        one("unfinished", "2026-01-04T00:00:00Z", phase="Running"),
    ]
    assert newest_good(backups, "") == "b"
    assert newest_good(backups, "a") == "a"  # a restore that began with it goes on with it
    assert newest_good(backups, "of schedule nightly") == "b"
    assert newest_good([], "") == ""


GOOGLE = {"gcs": {"bucket": "b_1", "prefix": "all"}}
AZURE = {"azure": {"account": "ours", "container": "b-1", "prefix": "all"}}


@pytest.mark.parametrize(
    ("storage", "location"),
    [
        ({"s3": {"bucket": "b-1", "prefix": "all"}}, "s3://b-1/"),
        (GOOGLE, "gs://b_1/"),
        (AZURE, "az://ours/b-1/"),
        ({"claim": {"name": "b", "path": "all"}}, "persistentvolumeclaim/b:/"),
    ],
    ids=["s3", "gcs", "azure", "claim"],
)
def test_people_are_told_where_a_backup_is(storage: dict[str, Any], location: str) -> None:
    found = backup(storage=storage)
    assert path_of(found) == "all/ns/cache/monday-01234567"
    assert location_of(found) == f"{location}all/ns/cache/monday-01234567"


@pytest.mark.parametrize(
    "storage", [{}, GOOGLE | AZURE, {"claim": {"name": "b"}} | GOOGLE], ids=["none", "two", "both"]
)
def test_a_backup_has_one_store(storage: dict[str, Any]) -> None:
    raw = {"metadata": {"name": "b"}, "spec": {"redis": "cache", "storage": storage}}
    found = load_redisbackup(raw)
    assert isinstance(found, tuple)
    assert "spec.storage: use one of claim, s3, gcs and azure" in map(str, found)


def test_a_store_is_known_whatever_keys_and_folders_are_named() -> None:
    def stored(raw: dict[str, Any]) -> BackupStorage:
        return msgspec.convert(raw, BackupStorage)

    for one in (GOOGLE, AZURE):
        [(kind, place)] = one.items()
        same = {kind: {**place, "prefix": "", "secretName": "other"}}
        other = {kind: {**place, "endpoint": "https://elsewhere"}}
        assert is_same_store(stored(one), stored(same))
        assert not is_same_store(stored(one), stored(other))
