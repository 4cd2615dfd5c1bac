"""Events: recorded without waiting, aggregated when similar, rate limited.

Guarantees: `record` never blocks, never raises and never slows a reconcile; an event that cannot be
sent is dropped and counted. Memory is bounded.

Three limits keep a noisy controller from flooding the API server, in this order:
1. *Spam*: each (source, object, type) has a bucket of 25 events, refilled one every 300 s.
2. *Similar events*: from the tenth different message of one (source, object, type, reason) within
   600 s on, one "(combined from similar events)" event is sent for all of them.
3. *Same event*: an event that was sent before is patched and its count is increased.
"""

from __future__ import annotations

import asyncio
import logging
import random as randomness
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import Struct

from kubecontroller.client.api import Client
from kubecontroller.client.errors import ApiError, KubeError, NotFound, TooManyRequests
from kubecontroller.client.meta import Key, Manifest, meta_of
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.logs import fields

__all__ = ["EventType", "Recorder", "Regarding"]

_log = logging.getLogger(__name__)

EVENTS: Kind[Manifest] = Kind("", "v1", "Event", "events", True, dict)
_REMEMBERED = 4096
_SIMILAR = 10
_SIMILAR_SECONDS = 600.0
_SPAM_BURST = 25
_SPAM_REFILL_SECONDS = 300.0
_QUEUED = 1000
_TRIES = 12
_RETRY_SECONDS = 10.0
_LONGEST_MESSAGE = 1024

K = TypeVar("K")
V = TypeVar("V")


class EventType(StrEnum):
    """The type of an event."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Regarding(Struct, frozen=True):
    """The object of an event; `field_path` is a part of it, `host` where it happened."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""
    host: str = ""  # the recorder's own unless given

    @property
    def identity(self) -> tuple[str, ...]:
        """The identity of the object, whatever its version."""
        return (
            *(self.api_version, self.kind, self.namespace, self.name, self.uid),
            *(self.field_path, self.host),
        )

    @classmethod
    def of(cls, kind: Kind[Any], obj: Any) -> Regarding:
        """Return the reference to an object of a kind."""
        meta = meta_of(obj)
        return cls(
            kind.api_version, kind.kind, meta.namespace, meta.name, meta.uid, meta.resource_version
        )


class _Event(Struct, frozen=True):
    regarding: Regarding
    type: EventType
    reason: str
    message: str


class _Recent(OrderedDict[K, V], Generic[K, V]):
    """A mapping that drops the entries that were used least recently."""

    def touch(self, key: K, value: V) -> None:
        self[key] = value
        self.move_to_end(key)
        if len(self) > _REMEMBERED:
            self.popitem(last=False)


class Correlator:
    """Decides whether an event is sent. Pure but for its memory; the clock is an argument."""

    def __init__(self) -> None:
        self._buckets: _Recent[object, tuple[float, float]] = _Recent()
        self._similar: _Recent[object, tuple[float, set[str]]] = _Recent()

    def take(self, event: _Event, now: float) -> _Event | None:
        """Return the event to send, merged with similar ones, or nothing when it is spam."""
        if self._is_spam(event, now):
            return None
        return self._combined(event, now)

    def _is_spam(self, event: _Event, now: float) -> bool:
        key = (event.regarding.identity, event.type)
        tokens, as_of = self._buckets.get(key, (float(_SPAM_BURST), now))
        tokens = min(float(_SPAM_BURST), tokens + (now - as_of) / _SPAM_REFILL_SECONDS)
        spam = tokens < 1.0
        self._buckets.touch(key, (tokens if spam else tokens - 1.0, now))
        return spam

    def _combined(self, event: _Event, now: float) -> _Event:
        key = (event.regarding.identity, event.type, event.reason)
        since, messages = self._similar.get(key, (now, set()))
        if now - since > _SIMILAR_SECONDS:
            messages = set()
        if len(messages) < _SIMILAR:
            messages.add(event.message)
        self._similar.touch(key, (now, messages))
        if len(messages) < _SIMILAR:
            return event
        text = f"(combined from similar events): {event.message}"
        return _Event(event.regarding, event.type, event.reason, text)

    @staticmethod
    def identity(event: _Event) -> object:
        """Return what makes two events the same one."""
        if event.message.startswith("(combined from similar events)"):
            return (event.regarding.identity, event.type, event.reason)
        return (event.regarding.identity, event.type, event.reason, event.message)


class Recorder:
    """Takes events from reconciles and sends them from a task of its own (`run`)."""

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        host: str = "",
        clock: Callable[[], float] | None = None,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        name_suffix: Callable[[], int] = time.time_ns,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        self._client = client
        self._component = component
        self._host = host
        self._clock = clock
        self._wall_clock = wall_clock
        self._name_suffix = name_suffix
        self._random = random
        self._queue: asyncio.Queue[_Event] = asyncio.Queue(_QUEUED)
        self._correlator = Correlator()
        self._sent: _Recent[object, tuple[Key, int]] = _Recent()
        self.dropped = 0
        self.sent = 0

    def normal(self, regarding: Regarding, reason: str, message: str) -> None:
        """Record a normal event."""
        self._record(_Event(regarding, EventType.NORMAL, reason, message[:_LONGEST_MESSAGE]))

    def warning(self, regarding: Regarding, reason: str, message: str) -> None:
        """Record a warning."""
        self._record(_Event(regarding, EventType.WARNING, reason, message[:_LONGEST_MESSAGE]))

    def _record(self, event: _Event) -> None:
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self.dropped += 1
            _log.warning("event dropped: the queue is full", extra=fields(reason=event.reason))

    async def run(self) -> None:
        """Send events until cancelled."""
        while True:
            event = await self._queue.get()
            try:
                await self._handle(event)
            except (
                Exception
            ):  # one event, such as one that cannot be encoded, must not stop the others
                self.dropped += 1
                _log.exception("event dropped: it cannot be sent")
            finally:
                self._queue.task_done()

    async def drain(self, *, timeout: float = 5.0) -> None:
        """Wait until all recorded events are sent or dropped; give up after the timeout."""
        try:
            async with asyncio.timeout(timeout):
                await self._queue.join()
        except TimeoutError:
            _log.warning("events left unsent", extra=fields(events=self._queue.qsize()))

    async def _handle(self, event: _Event) -> None:
        clock = self._clock if self._clock is not None else asyncio.get_running_loop().time
        merged = self._correlator.take(event, clock())
        if merged is None:
            self.dropped += 1
            return
        for attempt in range(_TRIES):
            try:
                await self._send(merged)
            except KubeError as error:
                if not _is_worth_retrying(error):
                    _log.warning("event refused", extra=fields(error=error, reason=event.reason))
                    break
                # The first wait is random: recorders that failed together must not retry together.
                share = self._random() if attempt == 0 else 1.0
                await asyncio.sleep(_RETRY_SECONDS * share)
            else:
                self.sent += 1
                return
        self.dropped += 1

    async def _send(self, event: _Event) -> None:
        identity = Correlator.identity(event)
        known = self._sent.get(identity)
        count = 0
        if known is not None:
            key, count = known
            try:
                await self._client.patch(EVENTS, key, MergePatch(self._again(event, count + 1)))
            except NotFound:
                pass  # events expire: create it again, with its count
            else:
                self._sent.touch(identity, (key, count + 1))
                return
        body = {**self._body(event), "count": count + 1}
        await self._client.create(EVENTS, body)
        meta = body["metadata"]
        self._sent.touch(identity, ((meta["namespace"], meta["name"]), count + 1))

    def _again(self, event: _Event, count: int) -> Manifest:
        return {"count": count, "lastTimestamp": self._now(), "message": event.message}

    def _body(self, event: _Event) -> Manifest:
        regarding = event.regarding
        now = self._now()
        host = regarding.host or self._host
        part = {"fieldPath": regarding.field_path} if regarding.field_path else {}
        return {
            "metadata": {
                "namespace": regarding.namespace or "default",
                "name": f"{regarding.name[:230]}.{self._name_suffix():x}",
            },
            "involvedObject": {
                "apiVersion": regarding.api_version,
                "kind": regarding.kind,
                "namespace": regarding.namespace,
                "name": regarding.name,
                "uid": regarding.uid,
                "resourceVersion": regarding.resource_version,
                **part,
            },
            "type": event.type.value,
            "reason": event.reason,
            "message": event.message,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": self._component, "host": host},
            "reportingComponent": self._component,
            "reportingInstance": host,
        }

    def _now(self) -> str:
        return self._wall_clock().strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_worth_retrying(error: KubeError) -> bool:
    if isinstance(error, TooManyRequests):
        return True
    return not isinstance(error, ApiError) or error.status >= 500
