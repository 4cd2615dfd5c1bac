"""A restore point that a person requests by an annotation of the schedule. Pure.

The name is the request: it can be given once, so the annotation may stay. What was asked for is
written down before a worker starts, and the worker is given that as the name of the request: one
that follows it finds the point that it had taken, and takes no second one.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from redis_operator.api.limits import POINT_NAME
from redis_operator.api.redisbackup import BackupPhase
from redis_operator.api.redisbackupschedule import (
    RedisBackupSchedule,
    RedisBackupScheduleStatus,
    RestorePoint,
    RestorePointRequest,
)
from redis_operator.backup.task import ShardTask

from .attempts import State, Worker, held_up, reason_of, why

__all__ = ["POINT_ANNOTATION", "PointPlan", "plan_point_request", "point_refused"]

POINT_ANNOTATION: Final = "redisoperator.dev/restore-point"
"""On a schedule with `continuous`: the name of a restore point that is to be taken now."""
_NAME: Final = re.compile(POINT_NAME.removesuffix("$") + r"\Z")
_LONGEST: Final = 63
_KEPT: Final = 100
_RETRY: Final = timedelta(seconds=10)
_REFUSED_SECONDS: Final = 30.0  # rights and quotas come back without a sign
_SOON: Final = 0.5  # once this is written, the worker starts
_FINAL: Final = ("PointTaken",)
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


class PointPlan(Struct, frozen=True):
    """What is said; the request for which a worker is started, or whether one is removed."""

    status: RedisBackupScheduleStatus
    start: str = ""
    remove: bool = False
    again: float | None = None


def plan_point_request(
    schedule: RedisBackupSchedule,
    status: RedisBackupScheduleStatus,
    shards: tuple[ShardTask, ...],
    worker: Worker | None,
    now: datetime,
) -> PointPlan:
    """Decide about the restore point that is asked for; `status` is what else is said.

    `shards`: those that are archived now; none: the archive is not going on. `worker`: the one of
    the last request, if there is one.
    """
    name = schedule.metadata.annotations.get(POINT_ANNOTATION, "")[: _LONGEST + 1]
    known = status.restore_point
    if not name:
        return _without(status, worker)
    if known is None or known.name != name:
        return _asked(schedule, status, name, worker, now)
    if known.phase is not BackupPhase.PENDING:
        return PointPlan(status, remove=worker is not None)
    request = f"{schedule.metadata.uid}/{known.start_time}"
    if worker is None:
        held = _held(schedule, shards)
        return PointPlan(_reported(status, held), start="" if held else request)
    return _of_worker(status, known, worker, now)


def point_refused(plan: PointPlan, text: str) -> PointPlan:
    """Say that the API server does not take the worker; it is retried."""
    return PointPlan(_reported(plan.status, text), again=_REFUSED_SECONDS)


def _without(status: RedisBackupScheduleStatus, worker: Worker | None) -> PointPlan:
    """Nothing is asked for: what was not taken yet is given up."""
    known = status.restore_point
    if known is not None and known.phase is BackupPhase.PENDING:
        status = replace(status, restore_point=None)
    return PointPlan(status, remove=worker is not None)


def _asked(
    schedule: RedisBackupSchedule,
    status: RedisBackupScheduleStatus,
    name: str,
    worker: Worker | None,
    now: datetime,
) -> PointPlan:
    """Write down what is asked for, or why it cannot be. A worker of another one ends first."""
    taken = next((point for point in status.restore_points if point.name == name), None)
    wrong = ""
    if len(name) > _LONGEST or not _NAME.match(name):
        wrong = (
            f"{name!r} cannot be the name of a restore point: use lower case letters, "
            "digits, dots and dashes, at most 63"
        )
    elif taken is not None:
        wrong = f"there is a restore point {name} of {taken.time} already; give another name"
    elif not schedule.spec.continuous:
        wrong = "spec.continuous is false, so nothing is archived that could be gone back to"
    phase = BackupPhase.FAILED if wrong else BackupPhase.PENDING
    request = RestorePointRequest(name, phase, now.strftime(_TIME), wrong)
    return PointPlan(replace(status, restore_point=request), remove=worker is not None, again=_SOON)


def _held(schedule: RedisBackupSchedule, shards: tuple[ShardTask, ...]) -> str:
    """Say why no worker can start yet; empty: it can."""
    archiving = next((c for c in schedule.status.conditions if c.type == "Archiving"), None)
    if archiving is None or archiving.status != "True":
        return f"the archive is not running: {archiving.message if archiving else 'it starts'}"
    return "" if shards else "the servers of the database are not known"


def _of_worker(
    status: RedisBackupScheduleStatus, known: RestorePointRequest, worker: Worker, now: datetime
) -> PointPlan:
    if worker.state is State.ACTIVE:
        held, again = held_up(worker, now)
        return PointPlan(_reported(status, held), again=again)
    if worker.state is State.SUCCEEDED:
        time = worker.report.time if worker.report is not None else ""
        point = RestorePoint(known.name, time or known.start_time)
        points = (*status.restore_points, point)[-_KEPT:]
        done = replace(known, phase=BackupPhase.COMPLETED, message=f"taken at {point.time}")
        return PointPlan(replace(status, restore_point=done, restore_points=points), remove=True)
    if reason_of(worker) in _FINAL:
        failed = replace(known, phase=BackupPhase.FAILED, message=why(worker))
        return PointPlan(replace(status, restore_point=failed), remove=True)
    left = (_RETRY - (now - worker.ended)).total_seconds() if worker.ended is not None else 0.0
    reported = _reported(status, f"{why(worker)}; it is retried")
    return PointPlan(reported, remove=left <= 0, again=max(left, _SOON))


def _reported(status: RedisBackupScheduleStatus, message: str) -> RedisBackupScheduleStatus:
    known = status.restore_point
    assert known is not None
    return replace(status, restore_point=replace(known, message=message))
