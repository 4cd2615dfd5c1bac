"""The four ways a reconcile can end."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

__all__ = ["Again", "Done", "Outcome", "Retry", "Stop"]


class Done(Struct, frozen=True):
    """The desired state is reached; nothing to do until something changes."""


class Again(Struct, frozen=True):
    """Nothing failed; reconcile again after so many seconds.

    The key keeps its priority unless another one is given.
    """

    after: float
    priority: int | None = None


class Retry(Struct, frozen=True):
    """The reconcile failed: retry after a wait that grows with each failure in a row."""

    error: Exception | str
    priority: int | None = None


class Stop(Struct, frozen=True):
    """The reconcile cannot succeed until something changes: log the error, do not retry."""

    error: Exception | str


Outcome: TypeAlias = Done | Again | Retry | Stop
