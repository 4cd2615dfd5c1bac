"""The errors of a worker. Each has a word for machines, `reason`."""

from __future__ import annotations

__all__ = [
    "Damaged",
    "KeyMissing",
    "PointTaken",
    "SourceError",
    "StoreError",
    "TargetError",
    "WorkerError",
]


class WorkerError(Exception):
    """Why a worker could not carry out its task."""

    reason = "WorkerFailed"


class SourceError(WorkerError):
    """A server does not send its snapshot. `passing`: a retry may succeed."""

    reason = "SourceFailed"

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


class StoreError(WorkerError):
    """The store refuses, or is unreachable."""

    reason = "StoreFailed"


class PointTaken(StoreError):  # noqa: N818 - what it is
    """The archive has a restore point of that name."""

    reason = "PointTaken"


class KeyMissing(WorkerError):  # noqa: N818 - what it is
    """An encryption key is missing, or is not a key. It says nothing about the backup."""

    reason = "KeyMissing"


class Damaged(WorkerError):  # noqa: N818 - what it is
    """The content of the store differs from what was written."""

    reason = "BackupDamaged"


class TargetError(WorkerError):
    """A server refuses keys, or does not respond. `passing`: a retry may succeed."""

    reason = "TargetFailed"

    def __init__(self, message: str, *, passing: bool = False, answer: str = "") -> None:
        super().__init__(message)
        self.passing = passing
        self.answer = answer  # the server's own error message
