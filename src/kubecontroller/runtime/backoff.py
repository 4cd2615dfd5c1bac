"""How long to wait before trying again: per item, over all items, and for one broken stream.

Limiters answer "when may this item run again?" and remember failures; `Backoff` is the growing
wait of one connection that heals. Neither sleeps: the queue and the watcher do. The clock and the
source of randomness are arguments, so a wait can be computed in a test.

Guarantees: a wait is never negative, never above its cap times its jitter, and never overflows
however often an item has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

__all__ = [
    "Backoff",
    "Bucket",
    "FastSlow",
    "ItemExponential",
    "MaxOf",
    "MaxWait",
    "RateLimiter",
    "default_limiter",
]

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class RateLimiter(Protocol[K_contra]):
    """Says how long an item has to wait, and counts its failures."""

    def when(self, item: K_contra) -> float:
        """Return the seconds the item has to wait now, and count one more failure."""
        ...

    def forget(self, item: K_contra) -> None:
        """Start counting the item's failures from nothing."""
        ...

    def failures(self, item: K_contra) -> int:
        """Return how often `when` was asked since the item was last forgotten."""
        ...


class ItemExponential(Generic[K]):
    """A wait that doubles with each failure of an item: 5 ms, 10 ms, ... up to 1000 s.

    `jitter` is the largest share added at random (0.1: up to a tenth more), which keeps items
    that failed together from coming back together.
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


class FastSlow(Generic[K]):
    """A short wait for an item's first failures, a long one for all after."""

    def __init__(self, *, fast: float, slow: float, attempts: int) -> None:
        self._fast = fast
        self._slow = slow
        self._attempts = attempts
        self._failures: dict[K, int] = {}

    def when(self, item: K) -> float:
        """Return the short wait while the item has failed no more than `attempts` times."""
        count = self._failures.get(item, 0) + 1
        self._failures[item] = count
        return self._fast if count <= self._attempts else self._slow

    def forget(self, item: K) -> None:
        """Let the item have its short waits again."""
        self._failures.pop(item, None)

    def failures(self, item: K) -> int:
        """Return the item's failures in a row."""
        return self._failures.get(item, 0)


class Bucket(Generic[K]):
    """A token bucket over all items, by reservation.

    An item that finds no token takes one of the future and waits for it; the next item waits for
    the token after that one, so a burst is spread out in order and nothing is refused.
    """

    def __init__(self, *, rate: float = 10.0, burst: int = 100, clock: Callable[[], float]) -> None:
        if rate <= 0:
            raise ValueError(f"rate is {rate}: a bucket needs more than zero tokens a second")
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._as_of = clock()

    def when(self, item: K) -> float:  # noqa: ARG002 - the bucket does not tell items apart
        """Take a token, of the future if need be, and return the wait for it."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._as_of) * self._rate)
        self._as_of = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._rate)

    def forget(self, item: K) -> None:
        """Do nothing: tokens are not given back."""

    def failures(self, item: K) -> int:  # noqa: ARG002 - as above
        """Return zero: the bucket knows no items."""
        return 0


class MaxOf(Generic[K]):
    """The longest wait of several limiters."""

    def __init__(self, *limiters: RateLimiter[K]) -> None:
        self._limiters = limiters

    def when(self, item: K) -> float:
        """Ask every limiter, so that each counts, and return the longest wait."""
        return max(limiter.when(item) for limiter in self._limiters)

    def forget(self, item: K) -> None:
        """Forget the item everywhere."""
        for limiter in self._limiters:
            limiter.forget(item)

    def failures(self, item: K) -> int:
        """Return the largest count."""
        return max(limiter.failures(item) for limiter in self._limiters)


class MaxWait(Generic[K]):
    """Another limiter's wait, cut at a maximum."""

    def __init__(self, limiter: RateLimiter[K], longest: float) -> None:
        self._limiter = limiter
        self._longest = longest

    def when(self, item: K) -> float:
        """Return the inner wait, at most the longest allowed."""
        return min(self._longest, self._limiter.when(item))

    def forget(self, item: K) -> None:
        """Forget the item in the inner limiter."""
        self._limiter.forget(item)

    def failures(self, item: K) -> int:
        """Return the inner count."""
        return self._limiter.failures(item)


def default_limiter(clock: Callable[[], float]) -> MaxOf[Hashable]:
    """Return the classic controller limiter: per item exponential, and ten a second over all."""
    return MaxOf(ItemExponential(), Bucket(clock=clock))


class Backoff:
    """The wait of one thing that breaks and heals: doubles up to a cap, jittered, forgets.

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
        # Health is counted from the moment of the next attempt, not from this failure.
        self._last = now + wait
        return wait

    def reset(self) -> None:
        """Start from the shortest wait again."""
        self._step = self._initial
        self._last = None
