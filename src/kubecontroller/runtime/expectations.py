"""Writes that a cache has not shown yet: creations counted, deletions by uid.

A controller that created three pods and does not see them yet would create three more. It records
what it expects *before* it acts, handlers record what they observe, and no new decision is taken
until everything was observed or the expectation has expired.

Most controllers do not need counts: fixed names and server-side apply make a second creation
harmless. Deletions do: the response to a delete has no version to wait for, so they are tracked by
uid, each counted once however often its end is observed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

__all__ = ["Expectations"]

K = TypeVar("K", bound=Hashable)

_TTL = 300.0


class _Expected:
    """What is expected for one owner."""

    __slots__ = ("creations", "deletions", "since")

    def __init__(self, since: float) -> None:
        self.creations = 0
        self.deletions: set[str] = set()
        self.since = since


class Expectations(Generic[K]):
    """Expectations by owner. The clock is loop time; nothing here waits."""

    def __init__(self, clock: Callable[[], float], *, ttl: float = _TTL) -> None:
        self._clock = clock
        self._ttl = ttl
        self._by_owner: dict[K, _Expected] = {}

    def expect_creations(self, owner: K, count: int) -> None:
        """Record, before creating, how many objects will be created."""
        self._renewed(owner).creations += count

    def expect_deletions(self, owner: K, uids: Iterable[str]) -> None:
        """Record, before deleting, which objects will be deleted."""
        self._renewed(owner).deletions.update(uids)

    def creation_observed(self, owner: K) -> None:
        """Record that a creation was observed."""
        expected = self._by_owner.get(owner)
        if expected is not None and expected.creations > 0:
            expected.creations -= 1

    creation_failed = creation_observed
    """Record that a creation failed, and so will never be observed."""

    def deletion_observed(self, owner: K, uid: str) -> None:
        """Record that an object is deleted, or terminating: only the first observation counts."""
        expected = self._by_owner.get(owner)
        if expected is not None:
            expected.deletions.discard(uid)

    deletion_failed = deletion_observed
    """Record that a deletion failed, and so will never be observed."""

    def limitation(self, owner: K) -> str | None:
        """Return what has not been observed yet, or nothing when a decision may be taken.

        An expectation older than its time to live counts as met: an event that was lost must not
        stop a controller for ever.
        """
        expected = self._by_owner.get(owner)
        if expected is None:
            return None
        if self._clock() - expected.since > self._ttl:
            return None
        parts = []
        if expected.creations > 0:
            parts.append(f"{expected.creations} creations")
        if expected.deletions:
            parts.append(f"deletions of {', '.join(sorted(expected.deletions))}")
        return f"not observed yet: {' and '.join(parts)}" if parts else None

    def forget(self, owner: K) -> None:
        """Drop the expectations of a deleted owner."""
        self._by_owner.pop(owner, None)

    def _renewed(self, owner: K) -> _Expected:
        """Return the owner's expectations, new ones if they were met or have expired."""
        expected = self._by_owner.get(owner)
        now = self._clock()
        if expected is None or now - expected.since > self._ttl or not _is_open(expected):
            expected = self._by_owner[owner] = _Expected(now)
        return expected


def _is_open(expected: _Expected) -> bool:
    return expected.creations > 0 or bool(expected.deletions)
