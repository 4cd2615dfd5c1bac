"""What becomes of a restore point that an annotation asks for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from redis_operator.api.backup_storage import BackupStorage, ClaimStorage
from redis_operator.api.metadata import Condition, Metadata
from redis_operator.api.redisbackup import BackupPhase, BackupTemplate
from redis_operator.api.redisbackupschedule import (
    RedisBackupSchedule,
    RedisBackupScheduleSpec,
    RedisBackupScheduleStatus,
    RestorePoint,
    RestorePointRequest,
)
from redis_operator.backup.task import Report, ShardTask, Source
from redis_operator.planning.backups.attempts import State, Worker
from redis_operator.planning.backups.points import POINT_ANNOTATION, PointPlan, plan_point_request

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SHARDS = (ShardTask("server-0", (Source("cache-0", "10.0.0.1"),)),)
GOING = Condition(type="Archiving", status="True", reason="Archiving", message="")
PENDING = RestorePointRequest("release", BackupPhase.PENDING, "2026-01-31T11:59:59Z")


def asked(
    name: str, status: RedisBackupScheduleStatus, *, continuous: bool = True
) -> RedisBackupSchedule:
    storage = BackupStorage(claim=ClaimStorage("backups"))
    return RedisBackupSchedule(
        RedisBackupScheduleSpec(
            redis="cache",
            schedule="@daily",
            template=BackupTemplate(storage=storage),
            continuous=continuous,
        ),
        Metadata(
            namespace="ns",
            name="nightly",
            uid="u",
            annotations={POINT_ANNOTATION: name} if name else {},
        ),
        status,
    )


def planned(
    name: str,
    known: RestorePointRequest | None = None,
    worker: Worker | None = None,
    *,
    points: tuple[RestorePoint, ...] = (),
    continuous: bool = True,
    going: bool = True,
    shards: tuple[ShardTask, ...] = SHARDS,
) -> PointPlan:
    condition = GOING if going else replace(GOING, status="False", message="the worker starts")
    status = RedisBackupScheduleStatus(
        conditions=(condition,), restore_point=known, restore_points=points
    )
    return plan_point_request(
        asked(name, status, continuous=continuous), status, shards, worker, NOW
    )


def worker(state: State, report: Report | None = None, ago: float = 0.0) -> Worker:
    ended = NOW - timedelta(seconds=ago) if state is not State.ACTIVE else None
    return Worker(0, "nightly-point", state, report, ended=ended)


def request(plan: PointPlan) -> RestorePointRequest:
    assert plan.status.restore_point is not None
    return plan.status.restore_point


def test_a_request_is_written_down_before_a_worker_starts() -> None:
    plan = planned("release")
    assert (request(plan).name, request(plan).phase, plan.start) == (
        "release",
        BackupPhase.PENDING,
        "",
    )
    assert planned("release", PENDING).start == "u/2026-01-31T11:59:59Z"


@pytest.mark.parametrize(
    ("name", "words", "more"),
    [
        ("../x", "cannot be the name", {}),
        ("x" * 64, "cannot be the name", {}),
        ("y" * 100_000, "cannot be the name", {}),
        ("release", "spec.continuous is false", {"continuous": False}),
        (
            "release",
            "there is a restore point release of 2026-01-01T00:00:00Z already",
            {"points": (RestorePoint("release", "2026-01-01T00:00:00Z"),)},
        ),
    ],
    ids=["path", "long", "very long", "not archived", "taken"],
)
def test_what_cannot_be_taken_has_failed_and_says_why_once(
    name: str, words: str, more: dict[str, object]
) -> None:
    plan = planned(name, **more)  # type: ignore[arg-type]
    assert request(plan).phase is BackupPhase.FAILED
    assert words in request(plan).message
    again = planned(name, request(plan), **more)  # type: ignore[arg-type]
    assert (again.start, again.status.restore_point) == ("", request(plan))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"going": False}, "the archive is not running: the worker starts"),
        ({"shards": ()}, "known"),
    ],
    ids=["no archive", "no shards"],
)
def test_no_worker_starts_while_nothing_is_archived(more: dict[str, object], words: str) -> None:
    plan = planned("release", PENDING, **more)  # type: ignore[arg-type]
    assert plan.start == ""
    assert words in request(plan).message


def test_a_point_that_was_taken_is_listed_with_its_time() -> None:
    done = worker(State.SUCCEEDED, Report(time="2026-01-31T11:59:59.250Z"))
    plan = planned("release", PENDING, done)
    assert request(plan).phase is BackupPhase.COMPLETED
    assert plan.status.restore_points == (RestorePoint("release", "2026-01-31T11:59:59.250Z"),)
    assert plan.remove
    after = planned("release", request(plan), points=plan.status.restore_points)
    assert (after.start, after.remove) == ("", False)


def test_a_worker_that_failed_is_followed_by_another_unless_the_name_is_taken() -> None:
    slow = Report(error="the primaries took longer than 500 ms", reason="SourceFailed")
    first = planned("release", PENDING, worker(State.FAILED, slow))
    assert (request(first).phase, first.remove) == (BackupPhase.PENDING, False)
    assert "took longer" in request(first).message
    assert planned("release", PENDING, worker(State.FAILED, slow, ago=11)).remove
    taken = Report(error="there is a restore point release already", reason="PointTaken")
    last = planned("release", PENDING, worker(State.FAILED, taken))
    assert (request(last).phase, last.remove) == (BackupPhase.FAILED, True)


def test_a_worker_that_has_not_ended_is_waited_for() -> None:
    plan = planned("release", PENDING, worker(State.ACTIVE))
    assert (plan.start, plan.remove, request(plan).phase) == ("", False, BackupPhase.PENDING)


def test_a_request_that_is_taken_back_ends_its_worker_and_leaves_points_alone() -> None:
    kept = (RestorePoint("older", "2026-01-01T00:00:00Z"),)
    plan = planned("", PENDING, worker(State.ACTIVE), points=kept)
    assert (plan.status.restore_point, plan.remove) == (None, True)
    assert plan.status.restore_points == kept


def test_another_name_ends_the_worker_of_the_first() -> None:
    plan = planned("other", PENDING, worker(State.ACTIVE))
    assert (request(plan).name, plan.remove, plan.start) == ("other", True, "")


def test_the_oldest_points_are_no_longer_listed() -> None:
    many = tuple(RestorePoint(f"p{n}", "") for n in range(100))
    plan = planned("release", PENDING, worker(State.SUCCEEDED), points=many)
    assert len(plan.status.restore_points) == 100
    assert plan.status.restore_points[-1].name == "release"
