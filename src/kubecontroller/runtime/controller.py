"""Workers that reconcile objects, one key at a time.

A reconciler is one function: `async def reconcile(key) -> Done | Again | Retry | Stop`. It gets
only the key, never the event: what to do is derived from the current state.

Guarantees:
- One key is never reconciled twice at a time; different keys are, by up to `workers` workers.
- A worker never dies: an error of a reconcile or of the gate is a `Retry`, logged with its
  reconcile id; an error of the API as one line, a bug with its traceback. So is a cancellation
  that was not meant for the worker (the reconcile awaited something that another task cancelled),
  and a result that is not an outcome, or has a wait or a priority that is not a number. A key whose
  outcome cannot be applied (a rate limiter that raises) is retried after half a minute.
- A reconcile that exceeds its deadline is cancelled and retried, so a key that hangs costs one
  worker for that long and a key that fails costs nothing but its own growing wait.
- Urgent keys find a worker even if all others hang: `urgent_workers` take nothing else.
- Keys of the first list and of resyncs wait behind keys of real events.
- Nothing is reconciled before every cache has synced.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, assert_never

from msgspec import Struct

from kubecontroller.client.errors import KubeError
from kubecontroller.client.meta import Key, meta_of
from kubecontroller.runtime.backoff import ItemExponential, RateLimiter
from kubecontroller.runtime.changes import Added, Change, Updated
from kubecontroller.runtime.fairness import Turn
from kubecontroller.runtime.informer import Informer, Subscription
from kubecontroller.runtime.logs import bound, fields
from kubecontroller.runtime.measures import Buckets
from kubecontroller.runtime.outcomes import Again, Done, Outcome, Retry, Stop
from kubecontroller.runtime.triggers import Predicate, Trigger, itself
from kubecontroller.runtime.workqueue import (
    LOW_PRIORITY,
    LOWEST_PRIORITY,
    QueueStopped,
    WorkQueue,
)

__all__ = ["URGENT_PRIORITY", "CachesNotSynced", "Controller", "Reconcile", "Watch"]

_log = logging.getLogger(__name__)

Reconcile: TypeAlias = Callable[[Key], Awaitable[Outcome]]
Gate: TypeAlias = Callable[[Key], str | None]
"""Why a key cannot be reconciled yet, or nothing: such as a cache behind the last own write."""

_RECONCILE_BOUNDS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50,
    60,
)  # fmt: skip
URGENT_PRIORITY: Final = 10
"""The priority of keys that must not wait; `urgent_workers` take these and no others."""
_JITTER = 0.1
_GATE_SECONDS = 1.0
_UNSETTLED_SECONDS = 30.0


class CachesNotSynced(RuntimeError):  # noqa: N818 - the state of affairs
    """Some cache could not be filled in time; the message says which, and why."""


class Watch(Struct, frozen=True):
    """One source of keys: an informer, which of its changes count, and the keys they trigger."""

    informer: Informer[Any]
    trigger: Trigger[Any] = itself
    when: Predicate[Any] | None = None


class Tally:
    """Counters of a controller, for metrics."""

    def __init__(self) -> None:
        self.results: dict[str, int] = dict.fromkeys(
            ("success", "requeue_after", "error", "terminal"), 0
        )
        self.timeouts = 0
        self.panics = 0
        self.active = 0
        self.duration = Buckets(_RECONCILE_BOUNDS)


class Controller:
    """A reconciler with its queue, its watches and its workers."""

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        watches: Sequence[Watch],
        *,
        workers: int = 1,
        urgent_workers: int = 0,
        deadline: float | None = 300.0,
        limiter: RateLimiter[Key] | None = None,
        gate: Gate | None = None,
        needs_leader: bool = True,
    ) -> None:
        if workers < 1:
            raise ValueError(f"controller {name!r} needs at least one worker, not {workers}")
        self.name = name
        self.workers = workers
        self.urgent_workers = urgent_workers
        self.needs_leader = needs_leader
        self.watches = tuple(watches)
        self.tally = Tally()
        self._reconcile = reconcile
        self._deadline = deadline
        self._gates = [gate] if gate is not None else []
        self.queue: WorkQueue[Key] = WorkQueue(
            limiter=limiter
            if limiter is not None
            else ItemExponential(jitter=_JITTER, random=random.random)
        )
        self._reasons: dict[Key, str] = {}
        self._subscriptions: list[Subscription[Any]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def add_gate(self, gate: Gate) -> None:
        """Hold keys back for another reason too: a gate returns what a key waits for."""
        self._gates.append(gate)

    def enqueue(self, key: Key, *, reason: str = "asked for", priority: int = 0) -> None:
        """Enqueue a key; the reason is for the log only."""
        self._reasons.setdefault(key, reason)
        self.queue.add(key, priority=priority)

    def listen(self) -> None:
        """Begin to collect keys from the watches; workers may start later (warm-up)."""
        if self._subscriptions:
            return
        for watch in self.watches:
            self._subscriptions.append(watch.informer.subscribe(self._handler(watch)))

    async def wait_synced(self, *, timeout: float = 120.0) -> None:
        """Return when every watch has delivered its first list; an optional one may do so later.

        Errors: `CachesNotSynced` after the timeout, with what is missing and the last error.
        """
        try:
            async with asyncio.timeout(timeout):
                for watch, subscription in zip(self.watches, self._subscriptions, strict=True):
                    if watch.informer.optional:
                        await watch.informer.wait_answered()
                        if not watch.informer.has_synced:
                            continue
                    await subscription.wait_synced()
        except TimeoutError:
            raise CachesNotSynced(self._missing(timeout)) from None

    async def run(self) -> None:
        """Work until stopped; cancelling cancels the reconciles too."""
        self.listen()
        await self.wait_synced()
        kinds = [LOWEST_PRIORITY] * self.workers + [URGENT_PRIORITY] * self.urgent_workers
        self._tasks = [
            asyncio.create_task(self._work(at_least), name=f"{self.name}-{number}")
            for number, at_least in enumerate(kinds)
        ]
        _log.info("workers started", extra=fields(controller=self.name, workers=self.workers))
        try:
            await asyncio.gather(*self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._unlisten()

    async def stop(self, *, grace: float) -> None:
        """Take no more keys, let running reconciles end within `grace` seconds, then cancel them.

        Keys that were not started are dropped: the process that takes over lists them again.
        """
        self._unlisten()
        self.queue.shut_down_now()
        running = [task for task in self._tasks if not task.done()]
        if running:
            await asyncio.wait(running, timeout=max(grace, 0.0))
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _unlisten(self) -> None:
        for subscription in self._subscriptions:
            subscription.cancel()
        self._subscriptions.clear()

    def _missing(self, timeout: float) -> str:
        parts = []
        for watch, subscription in zip(self.watches, self._subscriptions, strict=True):
            if not subscription.has_synced:
                trouble = watch.informer.last_error
                because = f" ({trouble})" if trouble else ""
                parts.append(f"{watch.informer.kind.resource}{because}")
        missing = ", ".join(parts)
        return f"controller {self.name}: no first list within {timeout:g} s of: {missing}"

    # From events to keys

    def _handler(self, watch: Watch) -> Callable[[Change[Any]], None]:
        kind = watch.informer.kind.kind

        def handle(change: Change[Any]) -> None:
            if watch.when is not None and not watch.when(change):
                return
            priority = LOW_PRIORITY if _is_initial_or_resync(change) else 0
            for key in watch.trigger(change):
                self._reasons.setdefault(key, f"{kind} {type(change).__name__.lower()}")
                self.queue.add(key, priority=priority)

        return handle

    # From keys to outcomes

    async def _work(self, at_least: int) -> None:
        turn = Turn()
        while True:
            try:
                key = await self.queue.get(at_least=at_least)
            except QueueStopped:
                return
            try:
                await self._process(key)
            finally:
                self.queue.done(key)
            await turn.step()  # a reconcile that never awaits must not starve the loop

    async def _process(self, key: Key) -> None:
        reason = self._reasons.pop(key, "requeued")
        with bound(
            controller=self.name, namespace=key[0], name=key[1], reconcileID=str(uuid.uuid4())
        ):
            try:
                found = (gate(key) for gate in self._gates)
                waiting_for = next((reason for reason in found if reason is not None), None)
            except (Exception, asyncio.CancelledError) as error:  # it cannot await
                _log.exception("the gate raised; will retry")
                self._settle(key, Retry(error if isinstance(error, Exception) else repr(error)))
                return
            if waiting_for is not None:
                _log.debug("waiting for a cache", extra=fields(waiting_for=waiting_for))
                # Not a failure: a change that opens the gate enqueues the key; this is for safety.
                self.queue.add_after(key, _GATE_SECONDS, priority=self.queue.priority_of(key))
                return
            _log.debug("reconcile", extra=fields(reason=reason))
            loop = asyncio.get_running_loop()
            begun = loop.time()
            self.tally.active += 1
            try:
                outcome = await self._outcome(key)
            finally:
                self.tally.active -= 1
                self.tally.duration.observe(loop.time() - begun)
            self._settle(key, outcome)

    async def _outcome(self, key: Key) -> Outcome:
        try:
            async with asyncio.timeout(self._deadline) as deadline:
                found: object = await self._reconcile(key)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the controller stops
            self.tally.panics += 1
            _log.exception("the reconcile awaited something that was cancelled; will retry")
            return Retry("the reconcile awaited something that another task cancelled")
        except TimeoutError as error:
            if not deadline.expired():
                return Retry(error)
            self.tally.timeouts += 1
            return Retry(f"the reconcile did not end within {self._deadline:g} s")
        except KubeError as error:
            return Retry(error)  # an error of the API is not a bug: one line, no traceback
        except Exception as error:
            self.tally.panics += 1
            _log.exception("the reconcile raised; will retry")
            return Retry(error)
        if isinstance(found, Done | Again | Retry | Stop) and _has_numbers(found):
            return found
        self.tally.panics += 1
        return Retry(
            f"the reconcile returned {found!r}: return Done(), Again, Retry or Stop,"
            " with numbers as their waits and priorities"
        )

    def _settle(self, key: Key, outcome: Outcome) -> None:
        try:
            self._apply(key, outcome)
        except (Exception, asyncio.CancelledError):  # such as one of a rate limiter
            self.tally.panics += 1
            _log.exception("the outcome of a reconcile could not be applied; will retry")
            priority = self.queue.priority_of(key)
            self.queue.add_after(key, _UNSETTLED_SECONDS, priority=priority)

    def _apply(self, key: Key, outcome: Outcome) -> None:
        queue = self.queue
        priority = queue.priority_of(key)
        match outcome:
            case Done():
                self.tally.results["success"] += 1
                queue.forget(key)
            case Again(after, wanted):
                self.tally.results["requeue_after"] += 1
                queue.forget(key)
                queue.add_after(key, after, priority=priority if wanted is None else wanted)
            case Retry(error, wanted):
                self.tally.results["error"] += 1
                queue.add_rate_limited(key, priority=priority if wanted is None else wanted)
                failures = queue.failures(key)
                _log.warning(
                    "reconcile failed, will retry", extra=fields(error=error, failures=failures)
                )
            case Stop(error):
                self.tally.results["error"] += 1
                self.tally.results["terminal"] += 1
                queue.forget(key)
                _log.error("reconcile failed, waiting for a change", extra=fields(error=error))
            case _:
                assert_never(outcome)


def _has_numbers(outcome: Outcome) -> bool:
    """Whether the fields that the queue computes with are of their types: nothing checked it."""
    wait: object = outcome.after if isinstance(outcome, Again) else 0.0
    priority: object = outcome.priority if isinstance(outcome, Again | Retry) else None
    if not isinstance(wait, int | float) or not -math.inf < wait < math.inf:
        return False
    return priority is None or isinstance(priority, int)


def _is_initial_or_resync(change: Change[Any]) -> bool:
    match change:
        case Added(_, initial):
            return initial
        case Updated(old, new):
            return old is new or meta_of(old).resource_version == meta_of(new).resource_version
        case _:
            return False
