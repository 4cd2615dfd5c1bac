"""The archive of a schedule: where it lies, and what is done and said about it, as tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from redis_operator.api.redis import Redis
from redis_operator.api.redisbackupschedule import RedisBackupSchedule
from redis_operator.api.redisbackupschedule_validation import load_schedule
from redis_operator.backup.task import ArchiverReport, ReportedGap
from redis_operator.planning.backups.archives import (
    ARCHIVING,
    BASE_ANNOTATION,
    ArchivePlan,
    ArchiverSeen,
    archive_path,
    is_ask_due,
    plan_archive,
)


def raw_schedule(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ns", "name": "nightly", "uid": "0123456789", "generation": 1},
        "spec": {
            "redis": "cache",
            "schedule": "0 3 * * *",
            "template": {"storage": {"claim": {"name": "backups"}}},
            "continuous": True,
            **spec,
        },
    }


def schedule(**spec: Any) -> RedisBackupSchedule:
    found = load_schedule(raw_schedule(**spec))
    assert isinstance(found, RedisBackupSchedule), found
    return found


@pytest.mark.parametrize(
    ("storage", "path"),
    [
        ({"claim": {"name": "b"}}, "ns/cache/nightly-01234567/archive"),
        ({"claim": {"name": "b", "path": "a/b"}}, "a/b/ns/cache/nightly-01234567/archive"),
        ({"s3": {"bucket": "b"}}, "ns/cache/nightly-01234567/archive"),
        ({"s3": {"bucket": "b", "prefix": "p"}}, "p/ns/cache/nightly-01234567/archive"),
    ],
    ids=["volume", "folder", "bucket", "prefix"],
)
def test_an_archive_has_a_folder_of_its_own(storage: dict[str, Any], path: str) -> None:
    assert archive_path(schedule(template={"storage": storage})) == path


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"continuous": "yes"}, "spec.continuous"),
        ({"archive": {"keepHours": 0}}, "spec.archive.keepHours"),
        ({"archive": {"spoolSize": "1Mi"}}, "spec.archive.spoolSize"),
        ({"archive": {"spoolSize": "much"}}, "spec.archive.spoolSize"),
    ],
    ids=str,
)
def test_what_is_refused_names_its_field(spec: dict[str, Any], field: str) -> None:
    found = load_schedule(raw_schedule(**spec))
    assert isinstance(found, tuple)
    assert [problem.path for problem in found] == [field]


NOW = datetime(2026, 1, 5, 12, 0, 30, tzinfo=UTC)
_DAY = 86_400_000_000  # microseconds
PODS = {"cache-0-0": "10.0.0.1", "cache-0-1": "10.0.0.2", "cache-0-2": "10.0.0.3"}
RUNNING = ArchiverSeen(exists=True, host="10.0.0.9")
SHARD = {
    "name": "server-0",
    "primary": "cache-0-1",
    "replicas": [{"pod": "cache-0-2", "link": "up"}, {"pod": "cache-0-0", "link": "down"}],
}


def database(*, status: dict[str, Any] | None = None, **spec: Any) -> Redis:
    raw = {
        "metadata": {"namespace": "ns", "name": "cache", "uid": "u-1", "generation": 1},
        "spec": {"mode": "Failover", "replicas": 2, **spec},
        "status": {
            "phase": "Ready",
            "engine": "valkey",
            "version": "9.1.2",
            "binding": {"name": "cache-conn"},
            "shards": [SHARD],
            **(status or {}),
        },
    }
    return msgspec.convert(raw, Redis)


def told(*, newest: int = 5, oldest: int = 3600, **more: Any) -> ArchiverReport:
    """Return what a worker says: so many seconds ago."""
    now = int(NOW.timestamp() * 1e6)
    base = ArchiverReport(
        attached="cache-0-2",
        line=1,
        oldest=now - oldest * 1_000_000,
        newest=now - newest * 1_000_000,
        based=now - 600_000_000,
    )
    return replace(base, **more)


def plan(
    redis: Redis | None,
    seen: ArchiverSeen = RUNNING,
    *,
    wanted: RedisBackupSchedule | None = None,
    login: bool = True,
    pods: dict[str, str] = PODS,
) -> ArchivePlan:
    given = wanted or schedule()
    return plan_archive(given, given.status, redis, seen, pods=pods, login=login, now=NOW)


def state(found: ArchivePlan) -> tuple[str, str]:
    [condition] = [c for c in found.status.conditions if c.type == ARCHIVING]
    return condition.status, condition.reason


def message(found: ArchivePlan) -> str:
    [condition] = [c for c in found.status.conditions if c.type == ARCHIVING]
    return condition.message


@pytest.mark.parametrize(
    ("wanted", "redis", "reason"),
    [
        ({"continuous": False}, database(), "TurnedOff"),
        ({"suspend": True}, database(), "Suspended"),
        ({}, None, "NoDatabase"),
        ({}, database(status={"phase": "Hibernated"}), "NotRunning"),
        ({}, database(status={"phase": "Deleting"}), "NotRunning"),
        ({}, database(replicas=0), "NoReplica"),
        (
            {},
            database(mode="Standalone", replicas=0, durability={"minReplicasToWrite": 1}),
            "NoReplica",
        ),
        (
            {"template": {"storage": {"claim": {"name": "b"}}, "allowPrimary": False}},
            database(mode="Standalone", replicas=0),
            "NoReplica",
        ),
    ],
    ids=[
        "off",
        "suspended",
        "no database",
        "hibernated",
        "going",
        "sentinels",
        "min-replicas",
        "not allowed",
    ],
)
def test_there_is_no_worker_where_there_is_nothing_to_archive(
    wanted: dict[str, Any], redis: Redis | None, reason: str
) -> None:
    found = plan(redis, wanted=schedule(**wanted))
    assert found.remove
    assert found.archive is None
    assert state(found) == ("False", reason)
    assert not plan(redis, ArchiverSeen(), wanted=schedule(**wanted)).remove


@pytest.mark.parametrize(
    ("status", "login", "reason"),
    [
        ({"binding": None}, True, "NotFormed"),
        ({"shards": []}, True, "NotSeen"),
        ({"version": ""}, True, "NotSeen"),
        ({}, False, "NoLogin"),
    ],
    ids=["new", "no shards", "no version", "no password"],
)
def test_what_is_not_known_yet_neither_starts_nor_removes_a_worker(
    status: dict[str, Any], login: bool, reason: str
) -> None:
    found = plan(database(status=status), login=login)
    assert (found.remove, found.archive) == (False, None)
    assert state(found) == ("False", reason)
    assert found.again is not None  # a Secret does not wake a schedule


def test_what_is_written_until_servers_sleep_is_archived() -> None:
    found = plan(database(hibernate=True))
    assert not found.remove
    assert found.archive is not None


def test_a_schedule_that_never_archived_says_nothing_of_it() -> None:
    given = schedule(continuous=False)
    found = plan(database(), ArchiverSeen(), wanted=given)
    assert found == ArchivePlan(given.status)


def test_the_worker_is_given_every_server_of_a_shard_that_runs() -> None:
    archive = plan(database(), pods={**PODS, "cache-0-0": ""}).archive
    assert archive is not None
    assert not archive.allow_primary
    [shard] = archive.shards
    assert [(one.pod, one.host) for one in shard.sources] == [
        ("cache-0-1", "10.0.0.2"),
        ("cache-0-2", "10.0.0.3"),
    ]


def test_a_primary_that_is_meant_to_be_alone_may_be_attached_to() -> None:
    archive = plan(database(mode="Standalone", replicas=0)).archive
    assert archive is not None
    assert archive.allow_primary


@pytest.mark.parametrize(
    ("spec", "bridge", "gapless"),
    [
        ({"mode": "Cluster", "replicas": 1}, True, True),
        ({"mode": "Cluster", "replicas": 2}, True, True),
        ({"mode": "Failover", "replicas": 2}, False, True),
        ({"mode": "Failover", "replicas": 1}, False, False),
        (
            {"mode": "Cluster", "replicas": 1, "durability": {"minReplicasToWrite": 1}},
            False,
            False,
        ),
        ({"mode": "Standalone", "replicas": 0}, True, False),
    ],
    ids=["one", "two", "sentinels", "sentinels and one", "least replicas", "alone"],
)
def test_what_a_single_replica_lacks_is_read_from_its_primary_where_that_is_harmless(
    spec: dict[str, Any], bridge: bool, gapless: bool
) -> None:
    found = plan(database(**spec), answered(server_0=told()))
    assert found.archive is not None
    assert found.archive.bridge is bridge
    assert found.archive.cluster is (spec["mode"] == "Cluster")  # for restore points
    [text] = [c.message for c in found.status.conditions if c.type == "Archiving"]
    assert ("fewer than two replicas" not in text) is gapless


@pytest.mark.parametrize(
    ("last", "asked", "base"),
    [
        ("", "", ""),
        ("2026-01-05T03:00:00Z", "", "2026-01-05T03:00:00Z"),
        ("2026-01-05T03:00:00Z", "2026-01-05T12:00:00+01:00", "2026-01-05T11:00:00Z"),
        ("2026-01-05T03:00:00Z", "2026-01-04T12:00:00Z", "2026-01-05T03:00:00Z"),
        ("2026-01-05T03:00:00Z", "now, please", "2026-01-05T03:00:00Z"),
    ],
    ids=["never", "due", "on request", "before", "no time"],
)
def test_a_base_is_wanted_when_a_backup_was_due_and_on_request(
    last: str, asked: str, base: str
) -> None:
    given = schedule()
    meta = replace(given.metadata, annotations={BASE_ANNOTATION: asked})
    given = replace(given, metadata=meta, status=replace(given.status, last_schedule_time=last))
    archive = plan(database(), wanted=given).archive
    assert archive is not None
    assert archive.base == base


def answered(**shards: ArchiverReport) -> ArchiverSeen:
    named = {name.replace("_", "-"): one for name, one in shards.items()}
    return replace(RUNNING, asked=True, told=named)


def test_the_window_is_of_all_shards_together() -> None:
    two = database(mode="Cluster", status={"shards": [{"name": "shard-0"}, {"name": "shard-1"}]})
    seen = answered(shard_0=told(newest=5, oldest=100), shard_1=told(newest=9, oldest=50))
    found = plan(two, seen)
    window = found.status.window
    assert window is not None
    assert (window.oldest, window.newest) == ("2026-01-05T11:59:40Z", "2026-01-05T12:00:21Z")
    assert window.lag_seconds == 9
    assert window.location == f"persistentvolumeclaim/backups:/{window.path}"
    assert state(found) == ("True", "Archiving")
    late = answered(shard_0=told(oldest=100), shard_1=told(oldest=50, began_empty=True))
    scaled = plan(two, late).status.window
    assert scaled is not None
    assert scaled.oldest == "2026-01-05T11:58:50Z"  # the other was archived before there was this
    half = plan(two, answered(shard_0=told()))  # the other has nothing
    assert half.status.window is not None
    assert (half.status.window.oldest, half.status.window.newest) == ("", "")
    assert state(half) == ("False", "Starting")
    assert "shard-1" in message(half)


def test_times_are_rounded_to_what_can_be_gone_back_to() -> None:
    now = int(NOW.timestamp() * 1e6)
    found = plan(database(), answered(server_0=told(oldest=60, newest=10)))
    odd = replace(told(), oldest=now - 60_500_000, newest=now - 9_500_000)
    window, known = plan(database(), answered(server_0=odd)).status.window, found.status.window
    assert window is not None
    assert known is not None
    assert window.oldest == known.oldest == "2026-01-05T11:59:30Z"  # never before it
    assert window.newest == known.newest == "2026-01-05T12:00:20Z"  # never after it


@pytest.mark.parametrize(("replicas", "warned"), [(1, True), (2, False)])
def test_that_one_replica_is_not_enough_is_said_before_it_ends(replicas: int, warned: bool) -> None:
    found = plan(database(replicas=replicas), answered(server_0=told()))
    assert state(found) == ("True", "Archiving")
    assert ("a gap when" in message(found)) is warned


def with_window(redis: Redis) -> RedisBackupSchedule:
    return replace(schedule(), status=plan(redis, answered(server_0=told())).status)


def test_a_silent_worker_leaves_the_window_as_it_was_said_last() -> None:
    known = with_window(database())
    found = plan(database(), replace(RUNNING, asked=True), wanted=known)
    assert state(found) == ("Unknown", "WorkerSilent")
    assert found.status.window == known.status.window
    assert not found.remove
    starts = plan(database(), replace(RUNNING, asked=True, ready=False))
    assert state(starts) == ("False", "Starting")  # its port is not open yet
    hangs = plan(database(), replace(RUNNING, asked=True, ready=False), wanted=known)
    assert state(hangs) == ("Unknown", "WorkerSilent")
    gone = plan(database(), ArchiverSeen(exists=True, trouble="no node"), wanted=known)
    assert state(gone) == ("False", "WorkerWaits")
    assert gone.status.window == known.status.window
    off = plan(database(), wanted=replace(known, spec=replace(known.spec, continuous=False)))
    assert off.status.window == known.status.window


def test_an_archive_whose_worker_is_not_created_names_what_may_be_missing() -> None:
    """A Secret or a volume that is missing is only in the events of the pod."""

    def after(seconds: float) -> ArchivePlan:
        since = NOW - timedelta(seconds=seconds)
        return plan(database(), ArchiverSeen(exists=True, made=since, pod="nightly-archive-x"))

    assert state(after(10)) == ("False", "Starting")
    late = after(70)
    assert state(late) == ("False", "WorkerWaits")
    assert "a Secret or a volume" in message(late)
    assert "kubectl describe pod nightly-archive-x" in message(late)
    assert after(7000).status == late.status  # which is written once


def test_an_archive_that_falls_behind_says_why() -> None:
    seen = answered(server_0=told(newest=90, trouble="the store is full"))
    found = plan(database(), seen)
    assert state(found) == ("False", "Behind")
    assert "server-0 is archived up to" in message(found)
    assert "the store is full" in message(found)
    old = plan(database(), answered(server_0=told(based=int(NOW.timestamp() * 1e6) - 3 * _DAY)))
    assert state(old) == ("False", "Behind")
    assert "no base was taken since" in message(old)


def test_a_gap_is_told_once() -> None:
    now = int(NOW.timestamp() * 1e6)
    gap = ReportedGap(now - 90_000_000, now - 60_000_000, "repl-backlog-size is too small")
    seen = answered(server_0=told(gaps=(gap,)))
    known = with_window(database())
    found = plan(database(), seen, wanted=known)
    assert found.gap is not None
    assert (found.gap.shard, found.gap.reason) == ("server-0", gap.reason)
    assert found.status.window is not None
    assert found.status.window.gaps == 1
    again = plan(database(), seen, wanted=replace(known, status=found.status))
    assert again.gap is None


def test_nothing_is_written_where_only_time_has_passed() -> None:
    known = with_window(database())
    later = NOW + timedelta(seconds=30)
    seen = answered(server_0=told())
    found = plan_archive(known, known.status, database(), seen, pods=PODS, login=True, now=later)
    assert found.status == known.status


@pytest.mark.parametrize(
    ("passed", "due"), [(0, False), (19, False), (20, True), (-30, True)], ids=str
)
def test_a_worker_is_asked_every_20_seconds(passed: int, due: bool) -> None:
    known = with_window(database())
    assert is_ask_due(known, NOW + timedelta(seconds=passed)) is due
    assert is_ask_due(schedule(), NOW)
