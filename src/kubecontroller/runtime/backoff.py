"""How long to wait before a retry: of one item, and of one broken stream.

Limiters answer "when may this item run again?" and count failures; `Backoff` is the growing wait
of one connection that recovers. Neither sleeps: the queue and the watcher do. The clock and the
source of randomness are arguments, so a wait can be computed in a test.

Guarantees: a wait is never negative, never above its cap times its jitter, and never overflows
however often an item has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

__all__ = [
    "Backoff",
    "ItemExponential",
    "RateLimiter",
]

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class RateLimiter(Protocol[K_contra]):
    """Returns how long an item has to wait, and counts its failures."""

    def when(self, item: K_contra) -> float:
        """Return the seconds that the item has to wait now, and count one more failure."""
        ...

    def forget(self, item: K_contra) -> None:
        """Reset the item's failures to zero."""
        ...

    def failures(self, item: K_contra) -> int:
        """Return how often `when` was called since the item was last forgotten."""
        ...


class ItemExponential(Generic[K]):
    """A wait that doubles with each failure of an item: 5 ms, 10 ms, ... up to 1000 s.

    `jitter` is the largest share added at random (0.1: up to a tenth more), which keeps items
    that failed together from being retried together.
    """

    def __init__(
        self,
        *,
        base: float = 0.005,
        cap: float = 1000.0,
        jitter: float = 0.0,
        random: Callable[[], float] | None = None,
    ) -> None:
        if jitter and random is None:
            raise ValueError("jitter needs a source of randomness: pass random=random.random")
        self._base = base
        self._cap = cap
        self._jitter = jitter
        self._random = random
        self._failures: dict[K, int] = {}

    def when(self, item: K) -> float:
        """Return the item's wait; the next one is twice as long."""
        count = self._failures.get(item, 0)
        self._failures[item] = count + 1
        # 2.0**1024 overflows; past 64 doublings every sensible cap is reached.
        wait = self._cap if count > 64 else min(self._cap, self._base * 2.0**count)
        if self._random is not None:
            wait *= 1.0 + self._jitter * self._random()
        return wait

    def forget(self, item: K) -> None:
        """Let the item start from the shortest wait again."""
        self._failures.pop(item, None)

    def failures(self, item: K) -> int:
        """Return the item's failures in a row."""
        return self._failures.get(item, 0)


class Backoff:
    """The wait of one connection: doubles up to a cap, jittered, resets after a while.

    The wait starts from `initial` again when the last failure is `reset_after` seconds ago. With
    the default jitter of 1.0 a wait is between its step and twice its step.
    """

    def __init__(
        self,
        *,
        random: Callable[[], float],
        initial: float = 0.8,
        cap: float = 30.0,
        factor: float = 2.0,
        jitter: float = 1.0,
        reset_after: float = 120.0,
    ) -> None:
        self._random = random
        self._initial = initial
        self._cap = cap
        self._factor = factor
        self._jitter = jitter
        self._reset_after = reset_after
        self._step = initial
        self._last: float | None = None

    def next(self, now: float) -> float:
        """Return how long to wait after a failure at `now`."""
        if self._last is not None and now - self._last >= self._reset_after:
            self._step = self._initial
        step = self._step
        self._step = min(self._cap, step * self._factor)
        wait = step * (1.0 + self._jitter * self._random())
        # The time without failures is counted from the next attempt, not from this failure.
        self._last = now + wait
        return wait

    def reset(self) -> None:
        """Start from the shortest wait again."""
        self._step = self._initial
        self._last = None
