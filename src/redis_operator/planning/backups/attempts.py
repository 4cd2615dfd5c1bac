"""Workers of backups as they were seen: each is one attempt. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from msgspec import Struct

from redis_operator.backup.task import Report, WorkerProgress

__all__ = ["State", "Worker", "held_up", "not_created", "reason_of", "why"]

_MADE_WITHIN: Final = timedelta(seconds=60)


class State(Enum):
    """How a worker is."""

    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Worker(Struct, frozen=True):
    """One attempt as it was seen; `trouble` is why its pod does not start.

    `made` is since when its containers are being made, as long as they are.

    `host` is where a worker that runs can be asked, and `progress` what it answered.
    """

    attempt: int
    job: str
    state: State
    report: Report | None = None
    trouble: str = ""
    ended: datetime | None = None
    host: str = ""
    progress: WorkerProgress | None = None
    made: datetime | None = None


def held_up(worker: Worker, now: datetime) -> tuple[str, float | None]:
    """Return why a worker does not start, or empty, and in how many seconds to check again.

    What is missing (a Secret, a volume) is only in the events of its pod.
    """
    if worker.trouble or worker.made is None:
        return worker.trouble, None
    return not_created(worker.made, now, f"pods -l job-name={worker.job}")


def not_created(made: datetime, now: datetime, pods: str) -> tuple[str, float | None]:
    """Return what keeps containers from being created since `made`, and when to check again."""
    left = (made + _MADE_WITHIN - now).total_seconds()
    if left > 0:
        return "", left
    return (
        "the containers of its pod were not created within a minute: their image is still being "
        f"pulled, or a Secret or a volume that they need is missing; see kubectl describe {pods}"
    ), None


def why(worker: Worker) -> str:
    """Return why a worker failed, for people."""
    if worker.report is not None and worker.report.error:
        return worker.report.error
    return worker.trouble or f"worker {worker.job} ended without a message; see its log"


def reason_of(worker: Worker) -> str:
    """Return why a worker failed, in one word."""
    return (worker.report.reason if worker.report is not None else "") or "WorkerFailed"
