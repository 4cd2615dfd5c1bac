"""What can go wrong in a worker. Each has a word for machines, `reason`."""

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
    """Why a worker could not do what it was asked."""

    reason = "WorkerFailed"


class SourceError(WorkerError):
    """A server does not give its snapshot. `passing`: the same server may a little later."""

    reason = "SourceFailed"

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


class StoreError(WorkerError):
    """The store refuses, or cannot be reached."""

    reason = "StoreFailed"


class PointTaken(StoreError):  # noqa: N818 - what it is
    """The archive has a restore point of that name."""

    reason = "PointTaken"


class KeyMissing(WorkerError):  # noqa: N818 - what it is
    """A key of encryption is not there, or is not a key. It says nothing about the backup."""

    reason = "KeyMissing"


class Damaged(WorkerError):  # noqa: N818 - what it is
    """What the store holds is not what was written."""

    reason = "BackupDamaged"


class TargetError(WorkerError):
    """A server that is given keys refuses, or does not answer. `passing`: it may a little later."""

    reason = "TargetFailed"

    def __init__(self, message: str, *, passing: bool = False, answer: str = "") -> None:
        super().__init__(message)
        self.passing = passing
        self.answer = answer  # the server's own words
