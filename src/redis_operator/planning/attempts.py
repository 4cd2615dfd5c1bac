"""Workers of backups as they were seen: each is one attempt. Pure."""

from __future__ import annotations

from datetime import datetime
from enum import Enum

from msgspec import Struct

from redis_operator.backup.task import Progress, Report

__all__ = ["State", "Worker", "reason_of", "why"]


class State(Enum):
    """How a worker is."""

    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Worker(Struct, frozen=True):
    """One attempt as it was seen; `trouble` is why its pod does not start.

    `host` is where a worker that runs can be asked, and `progress` what it answered.
    """

    attempt: int
    job: str
    state: State
    report: Report | None = None
    trouble: str = ""
    ended: datetime | None = None
    host: str = ""
    progress: Progress | None = None


def why(worker: Worker) -> str:
    """Return why a worker failed, for people."""
    if worker.report is not None and worker.report.error:
        return worker.report.error
    return worker.trouble or f"worker {worker.job} ended without a word; see its log"


def reason_of(worker: Worker) -> str:
    """Return why a worker failed, in one word."""
    return (worker.report.reason if worker.report is not None else "") or "WorkerFailed"
