"""A queue of keys for workers: each key once, in order of priority, never twice at a time.

Guarantees:
- *Deduplication*: a key added many times before it is taken is taken once.
- *One at a time*: a key that is being processed is not handed out again before `done`; if it was
  added in the meantime, it is handed out once more afterwards.
- *Fairness*: keys of one priority come in the order they were added; a higher priority comes first.
- *Reserved workers*: a worker may request keys of a priority or higher only; keys below it never
  occupy that worker, and never take its wake-up from one that would work on them.
- *Earliest wins*: of several delays for a key the earliest holds, of priorities the highest.
- *Nothing is lost on shutdown*: ready keys are still handed out, then workers stop.

Assumptions: one event loop; `done` is called exactly once for each `get` (use try/finally).
Callers: triggers add, the controller takes.

Keys are in up to three places: `_ready` (added, not yet taken), `_waiting` (to be added later) and
`_working` (taken). A key both in `_ready` and in `_working` was added while it was processed; it
keeps its place in the order, but is skipped until `done`: only then does it enter the heap.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import Counter, deque
from collections.abc import Callable, Hashable
from enum import Enum
from typing import Final, Generic, TypeVar

from kubecontroller.runtime.backoff import ItemExponential, RateLimiter
from kubecontroller.runtime.measures import Buckets

__all__ = ["LOWEST_PRIORITY", "LOW_PRIORITY", "Delays", "QueueStopped", "WorkQueue"]

K = TypeVar("K", bound=Hashable)

LOW_PRIORITY: Final = -100
"""For keys that can wait: the first list, and resyncs."""

LOWEST_PRIORITY: Final = -(2**31)
_HEARTBEAT = 10.0  # a timer that was lost, or a clock that jumped, costs this much at most


class Delays(Enum):
    """What a plain `add` does to a delay that the key already has."""

    MERGED = "one entry per key: the add makes it ready now and its delay is gone"
    SEPARATE = "the delay stays and adds the key once more when it is over"


class QueueStopped(Exception):  # noqa: N818 - an end, not an error
    """The queue was shut down and has no more keys for this worker."""


class WorkQueue(Generic[K]):
    """A rate limited queue with priorities; see the module for its guarantees."""

    def __init__(
        self,
        *,
        limiter: RateLimiter[K] | None = None,
        delays: Delays = Delays.MERGED,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._limiter: RateLimiter[K] = limiter if limiter is not None else ItemExponential()
        self._delays = delays
        self._clock = clock if clock is not None else self._bind_clock
        self._ready: dict[K, tuple[int, int]] = {}  # key -> (-priority, order)
        self._order_heap: list[tuple[int, int, K]] = []
        self._waiting: dict[K, tuple[float, int]] = {}  # key -> (due, priority)
        self._due_heap: list[tuple[float, int, K]] = []
        self._working: dict[K, float] = {}  # key -> since
        self._added_at: dict[K, float] = {}
        self._taken_priority: dict[K, int] = {}
        self._order = 0
        self._takers: deque[tuple[asyncio.Future[None], int]] = deque()  # and lowest priority
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = float("inf")
        self._stopping = False
        self.adds = 0
        self.retries = 0
        self.latency = Buckets()
        self.work_duration = Buckets()

    def __len__(self) -> int:
        return len(self._ready)

    def depth(self) -> dict[int, int]:
        """Return how many keys are ready, by priority."""
        return dict(Counter(-negative for negative, _ in list(self._ready.values())))

    def working_seconds(self) -> list[float]:
        """Return for how long each key has been processed."""
        started = list(self._working.values())
        return [self._clock() - since for since in started]

    def waiting(self) -> int:
        """Return how many keys wait for their delay to pass."""
        return len(self._waiting)

    def add(self, key: K, *, priority: int = 0) -> None:
        """Make a key ready now. Ignored once shutting down."""
        if self._stopping:
            return
        if self._waiting and self._delays is Delays.MERGED:
            waiting = self._waiting.pop(key, None)
            if waiting is not None and waiting[1] > priority:
                priority = waiting[1]
        place = self._ready.get(key)
        if place is not None and place[0] <= -priority:
            return
        self._order += 1
        if place is None:
            self.adds += 1
            self._added_at[key] = self._clock()
        # A raised key goes to the tail of its new level; its old heap entry is now stale.
        self._ready[key] = (-priority, self._order)
        if key not in self._working:
            heapq.heappush(self._order_heap, (-priority, self._order, key))
            self._wake_one(priority)

    def add_after(self, key: K, delay: float, *, priority: int = 0) -> None:
        """Make a key ready after a delay; a delay it already has only moves earlier."""
        if not delay < math.inf:
            raise ValueError(f"a delay of {delay} s for {key!r}: pass a finite number of seconds")
        if self._stopping:
            return
        if delay <= 0:
            self.add(key, priority=priority)
            return
        if self._delays is Delays.MERGED and key in self._ready:
            self.add(key, priority=priority)  # earlier than any delay; may raise the priority
            return
        due = self._clock() + delay
        known = self._waiting.get(key)
        if known is not None:
            due, priority = min(due, known[0]), max(priority, known[1])
            if (due, priority) == known:
                return
        self._waiting[key] = (due, priority)
        self._order += 1
        heapq.heappush(self._due_heap, (due, self._order, key))
        self._arm(due)

    def add_rate_limited(self, key: K, *, priority: int = 0, at_most: float = 0.0) -> None:
        """Make a key ready after the limiter's wait, or `at_most` seconds if that is sooner."""
        self.retries += 1
        delay = self._limiter.when(key)
        if at_most > 0:
            delay = min(delay, at_most)
        self.add_after(key, delay, priority=priority)

    def forget(self, key: K) -> None:
        """Clear the key's failures; the key itself stays where it is."""
        self._limiter.forget(key)

    def failures(self, key: K) -> int:
        """Return how often the key was rate limited since it was last forgotten."""
        return self._limiter.failures(key)

    def priority_of(self, key: K) -> int:
        """Return the priority with which a key was taken; a requeue keeps it."""
        return self._taken_priority.get(key, 0)

    async def get(self, *, at_least: int = LOWEST_PRIORITY) -> K:
        """Take the next key of a priority or higher, waiting for one.

        Raises `QueueStopped` when there will be none.
        """
        while not self._has_ready(at_least):
            if self._stopping and not self._ready:
                raise QueueStopped
            taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append((taker, at_least))
            try:
                await taker
            except asyncio.CancelledError:
                self._pass_on(taker)
                raise
            if not self._has_ready(at_least):
                self._wake_next()  # it was woken for a key that is gone; another may be left
        negative, _, key = heapq.heappop(self._order_heap)
        del self._ready[key]
        now = self._clock()
        self._working[key] = now
        self._taken_priority[key] = -negative
        self.latency.observe(now - self._added_at.pop(key))
        return key

    def done(self, key: K) -> None:
        """Report that the work on a key taken with `get` is over."""
        since = self._working.pop(key, None)
        if since is None:
            raise ValueError(f"done({key!r}) without get: call it exactly once for each key taken")
        del self._taken_priority[key]
        self.work_duration.observe(self._clock() - since)
        place = self._ready.get(key)
        if place is not None:
            heapq.heappush(self._order_heap, (*place, key))
            self._wake_one(-place[0])
        if self._stopping:
            self._notify_stopped()

    def shut_down(self) -> None:
        """Take no more keys; hand out the ready ones, drop the waiting ones."""
        self._stopping = True
        self._drop_waiting()
        self._notify_stopped()

    def shut_down_now(self) -> None:
        """Take no more keys and hand out none; keys being processed still need `done`."""
        self._stopping = True
        self._ready.clear()
        self._added_at.clear()
        self._order_heap.clear()
        self._drop_waiting()
        self._notify_stopped()

    def _drop_waiting(self) -> None:
        self._waiting.clear()
        self._due_heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _bind_clock(self) -> float:
        """Use the time of the loop of the first use; the queue may be made outside of one."""
        self._clock = asyncio.get_running_loop().time
        return self._clock()

    def _has_ready(self, at_least: int) -> bool:
        heap = self._order_heap
        while heap:
            negative, order, key = heap[0]
            if self._ready.get(key) == (negative, order):
                return -negative >= at_least
            heapq.heappop(heap)  # stale: the key was raised to another level
        return False

    def _wake_one(self, priority: int) -> None:
        """Wake the first worker that would take a key of this priority."""
        for place, (taker, at_least) in enumerate(self._takers):
            if not taker.done() and at_least <= priority:
                del self._takers[place]
                taker.set_result(None)
                return

    def _wake_next(self) -> None:
        if self._has_ready(LOWEST_PRIORITY):
            self._wake_one(-self._order_heap[0][0])

    def _pass_on(self, taker: asyncio.Future[None]) -> None:
        """Give the wake-up of a cancelled worker to another one."""
        if taker.done() and not taker.cancelled():
            self._wake_next()
            return
        self._takers = deque(entry for entry in self._takers if entry[0] is not taker)

    def _notify_stopped(self) -> None:
        if self._ready:
            return
        for taker, _ in self._takers:
            if not taker.done():
                taker.set_result(None)
        self._takers.clear()

    def _arm(self, due: float) -> None:
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        delay = min(max(0.0, due - self._clock()), _HEARTBEAT)
        self._timer_due = due
        self._timer = loop.call_later(delay, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._clock()
        heap = self._due_heap
        while heap:
            due, _, key = heap[0]
            known = self._waiting.get(key)
            if known is not None and known[0] == due:
                if due > now + 1e-9:
                    break
                del self._waiting[key]
                self.add(key, priority=known[1])
            heapq.heappop(heap)
        if heap:
            self._arm(heap[0][0])
