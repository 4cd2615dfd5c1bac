"""The four ways a reconcile can end."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

__all__ = ["Again", "Done", "Outcome", "Retry", "Stop"]


class Done(Struct, frozen=True):
    """All is as wanted; nothing to do until something changes."""


class Again(Struct, frozen=True):
    """All is well, but look again after so many seconds.

    The key keeps its priority unless another one is given.
    """

    after: float
    priority: int | None = None


class Retry(Struct, frozen=True):
    """It did not work: try again after a wait that grows with each failure in a row."""

    error: Exception | str
    priority: int | None = None


class Stop(Struct, frozen=True):
    """It cannot work until something changes: say so, and do not try again by yourself."""

    error: Exception | str


Outcome: TypeAlias = Done | Again | Retry | Stop
