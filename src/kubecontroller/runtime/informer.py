"""A cache of one kind that is kept up to date, and notifies its handlers of changes.

Guarantees:
- The cache and `version` are updated first, then handlers are notified, in order, of each change
  once: a reconcile that a change triggers finds that the cache has reached it.
- A relist replaces the cache in one piece; missing objects are reported as `Deleted(assumed)`.
- An object deleted and created again under the same name is reported as `Deleted` and `Added`, even
  when only the last state was seen: the uid differs.
- A handler has synced when it received every object of the first list; one that subscribes late
  receives the present objects at once.
- An object that cannot be decoded does not stop the others: it is kept apart and logged once. Its
  last known state stays in the cache, since it still exists.
- A burst of events does not starve the loop: it yields every half millisecond or 256 events.

- A handler that raises is logged and called again with the object as it is then, after growing
  waits: an event is not lost because the code that maps it to a key failed once.

Assumptions: one event loop; handlers only enqueue; cached objects are never changed.
Errors: those of the server are logged, counted and retried, and so are those of code that is called
(handlers, indexes, callbacks); `run` ends only by cancellation.
"""

from __future__ import annotations

import asyncio
import logging
import random as randomness
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Generic, TypeVar

from kubecontroller.client.api import Client
from kubecontroller.client.decode import Page, Unreadable
from kubecontroller.client.errors import Forbidden, KubeError, NotFound
from kubecontroller.client.meta import Key, is_at_least, key_of, meta_of
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.changes import Added, Change, Deleted, Handler, Updated
from kubecontroller.runtime.fairness import Turn
from kubecontroller.runtime.store import Index, Reader, Store, by_namespace, by_owner
from kubecontroller.runtime.watch_states import (
    Applied,
    Event,
    Failed,
    Progress,
    Removed,
    Replaced,
    State,
    Undecodable,
    Unlisted,
)
from kubecontroller.runtime.watcher import OpenStream, Watcher

__all__ = ["Informer", "Subscription"]

T = TypeVar("T")

_log = logging.getLogger(__name__)
_RESYNC_SPREAD = 0.1
_LIST_SECONDS = 600.0  # a large list over a slow connection takes long; silence has its own limit
_RETRY_SECONDS, _RETRY_MOST_SECONDS = 1.0, 300.0
_SHOWN_WITHIN_SECONDS, _TOLD_WITHIN_MOST = 5.0, 60.0


class Subscription(Generic[T]):
    """The subscription of a handler to an informer, and whether it has received the first list."""

    def __init__(self, handler: Handler[T], cancel: Callable[[Subscription[T]], None]) -> None:
        self._handler = handler
        self._cancel = cancel
        self._cancelled = False
        self._synced = asyncio.Event()

    @property
    def has_synced(self) -> bool:
        """Whether the handler received everything in the first list. Never becomes false again."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return once `has_synced`."""
        await self._synced.wait()

    def cancel(self) -> None:
        """Unsubscribe; also from within the handler."""
        self._cancelled = True
        self._cancel(self)

    def deliver(self, change: Change[T]) -> bool:
        """Pass one change to the handler; whether it succeeded. Errors are logged."""
        if self._cancelled:
            return True
        try:
            self._handler(change)
        except (Exception, asyncio.CancelledError):  # of what it asked for: it cannot await
            _log.exception("a handler failed on %s; it is called again later", type(change))
            return False
        return True

    def mark_synced(self) -> None:
        """Record that the handler has received the first list."""
        self._synced.set()


class _Collection(Generic[T]):
    """One collection of the API, in the form that the watcher needs."""

    def __init__(
        self, client: Client, kind: Kind[T], namespace: str, labels: str, fields: str
    ) -> None:
        self._client = client
        self._kind = kind
        self._namespace = namespace
        self._labels = labels
        self._fields = fields

    async def list_page(self, *, version: str, limit: int, continue_: str) -> Page[T]:
        return await self._client.list_page(
            self._kind,
            namespace=self._namespace,
            labels=self._labels,
            fields=self._fields,
            resource_version=version,
            limit=limit,
            continue_=continue_,
            timeout=_LIST_SECONDS,
        )

    def watch(
        self, *, version: str, initial_events: bool, server_timeout: int, idle: float
    ) -> OpenStream[T]:
        return self._client.watch(
            self._kind,
            namespace=self._namespace,
            labels=self._labels,
            fields=self._fields,
            resource_version=version,
            initial_events=initial_events,
            server_timeout=server_timeout,
            idle=idle,
        )


class Informer(Generic[T]):
    """The cache of one kind in one namespace (or all), narrowed by selectors.

    `cache` is for readers. `transform` runs once before an object is stored, to drop fields that
    are not read; it must keep the metadata. `resync` replays the cache to the handlers at that
    interval in seconds, give or take a tenth, without a request. An `optional` informer is not
    waited for where the server refuses it or has no such kind: readers of such a cache check
    `has_synced` first.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, Index] | None = None,
        transform: Callable[[T], T] | None = None,
        resync: float = 0.0,
        page_size: int = 500,
        watch_list: bool = True,
        optional: bool = False,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        self.kind = kind
        self.optional = optional
        self.namespace = namespace
        self.labels = labels
        self.fields = fields
        self._store: Store[T] = Store(
            {"namespace": by_namespace, "owner": by_owner, **(indexes or {})}
        )
        self.cache: Reader[T] = self._store.reader
        self._transform = transform
        self._resync = resync
        self._random = random
        self._subscriptions: list[Subscription[T]] = []
        self._version = ""
        self._version_waiters: list[tuple[str, asyncio.Future[None]]] = []
        self.on_progress: list[Callable[[], None]] = []
        self._synced = asyncio.Event()
        self._answered = asyncio.Event()
        self._turn = Turn()
        self.aside: dict[Key, Unreadable] = {}
        self.on_unreadable: Callable[[Unreadable], None] | None = None
        self.last_error: Exception | None = None
        self.failures = 0
        source = _Collection(client, kind, namespace, labels, fields)
        self._watcher = Watcher(source, random=random, page_size=page_size, watch_list=watch_list)

    def __repr__(self) -> str:
        place = f" in {self.namespace}" if self.namespace else ""
        return f"<Informer of {self.kind.resource}{place}: {len(self.cache)} objects>"

    @property
    def version(self) -> str:
        """The version that the cache has reached, by changes and bookmarks; empty at first."""
        return self._version

    @property
    def has_synced(self) -> bool:
        """Whether the first list is in the cache and every handler received it."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return once `has_synced`."""
        await self._synced.wait()

    async def wait_answered(self) -> None:
        """Return once `has_synced`, or once the server refused to list this kind, or has none."""
        await self._answered.wait()

    def add_index(self, name: str, index: Index) -> None:
        """Add an index, by another property of objects."""
        self._store.add_index(name, index)

    def owned_by(self, uid: str) -> list[T]:
        """Return the cached objects that name this uid as an owner."""
        return self.cache.find("owner", uid)

    def subscribe(self, handler: Handler[T]) -> Subscription[T]:
        """Call a handler with every change from now on, and first with the present objects."""
        subscription = Subscription(handler, self._unsubscribe)
        if self.has_synced or len(self.cache):
            for obj in self.cache:
                change = Added(obj, initial=True)
                if not subscription.deliver(change):
                    self._retry(subscription, change)
        if self.has_synced:
            subscription.mark_synced()
        self._subscriptions.append(subscription)
        return subscription

    async def wait_for(self, version: str, *, timeout: float = 5.0) -> bool:
        """Wait until the cache has reached a version; false when it did not in time.

        A version that cannot be compared counts as reached: waiting for it could never end.
        """
        if self._has_reached(version):
            return True
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (version, reached)
        self._version_waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout):
                await reached
        except TimeoutError:
            return False
        finally:
            with suppress(ValueError):
                self._version_waiters.remove(waiter)
        return True

    def expect(self, version: str, *, within: float = _SHOWN_WITHIN_SECONDS) -> None:
        """Record a written version: a stream that does not show it soon is opened again."""
        if not version or self._has_reached(version):
            return

        def check() -> None:
            if not self._has_reached(version):
                self.suspect(
                    f"{version} was written and did not arrive from the watch after {within:g} s"
                )
                self.expect(version, within=min(2 * within, _TOLD_WITHIN_MOST))

        asyncio.get_running_loop().call_later(within, check)

    def suspect(self, why: str) -> None:
        """Consider the watch dead: it is opened again at the version reached."""
        _log.warning("the watch of %s is opened again: %s", self.kind.resource, why)
        self._watcher.suspect()

    async def run(self) -> None:
        """Keep the cache up to date until cancelled."""
        resync = asyncio.create_task(self._replay_for_ever()) if self._resync > 0 else None
        state: State = Unlisted()
        try:
            while True:
                events, state = await self._watcher.step(state)
                for event in events:
                    await self._take(event)
        finally:
            if resync is not None:
                resync.cancel()
            await self._watcher.close()

    # Events of the watcher

    async def _take(self, event: Event[T]) -> None:
        if not isinstance(event, Failed):
            self.last_error = None
        match event:
            case Applied(obj):
                changes = self._put(obj)
                self._reach(meta_of(obj).resource_version)  # type: ignore[arg-type]
                await self._notify(self._subscriptions, changes)
            case Removed(obj):
                changes = self._remove(obj)
                self._reach(meta_of(obj).resource_version)  # type: ignore[arg-type]
                await self._notify(self._subscriptions, changes)
            case Undecodable(what, gone):
                changes = self._keep_apart(what, gone=gone)
                self._reach(what.resource_version)
                await self._notify(self._subscriptions, changes)
            case Progress(version):
                self._reach(version)
            case Replaced():
                await self._replace(event)
            case Failed(error, wait):
                self._note(error, wait)

    async def _replace(self, event: Replaced[T]) -> None:
        """Replace the whole cache, then notify the handlers; no reader ever sees half a list."""
        initial = not self.has_synced
        changes: list[Change[T]] = []
        present = {what.key for what in event.unreadable}
        for obj in event.objects:
            present.add(key_of(obj))  # type: ignore[arg-type]
            changes.extend(self._put(obj, initial=initial))
        for key in self.aside.keys() - present:
            del self.aside[key]
        for what in event.unreadable:
            changes.extend(self._keep_apart(what))
        for key in self.cache.keys():  # noqa: SIM118 - a reader is not a mapping
            if key not in present:
                old = self._store.remove(key)
                if old is not None:
                    changes.append(Deleted(old, assumed=True))
        # A list is authoritative, also in a cluster restored from a backup of older versions.
        self._version = ""
        self._reach(event.version)
        # A handler that subscribes meanwhile received the new cache already: not twice.
        subscriptions = list(self._subscriptions)
        await self._notify(subscriptions, changes)
        for subscription in self._subscriptions:
            subscription.mark_synced()
        self._synced.set()
        self._answered.set()

    async def _notify(self, subscriptions: list[Subscription[T]], changes: list[Change[T]]) -> None:
        for change in changes:
            for subscription in tuple(subscriptions):
                if not subscription.deliver(change):
                    self._retry(subscription, change)
            await self._turn.step()

    def _retry(
        self, subscription: Subscription[T], change: Change[T], wait: float = _RETRY_SECONDS
    ) -> None:
        """Call a handler that raised once more later, unless the object has changed since."""

        def again() -> None:
            if not self._is_current(change) or subscription.deliver(change):
                return
            if wait < _RETRY_MOST_SECONDS:
                self._retry(subscription, change, 4 * wait)

        asyncio.get_running_loop().call_later(wait, again)

    def _is_current(self, change: Change[T]) -> bool:
        obj = change.new if isinstance(change, Updated) else change.obj
        cached = self.cache.get(key_of(obj))  # type: ignore[arg-type]
        return cached is None if isinstance(change, Deleted) else cached is obj

    def _put(self, obj: T, *, initial: bool = False) -> list[Change[T]]:
        obj = self._transformed(obj)
        meta = meta_of(obj)  # type: ignore[arg-type]
        if not meta.name:
            _log.warning("%s without a name is left out of the cache", self.kind.kind)
            return []
        self.aside.pop(meta.key, None)
        old = self._store.put(meta.key, obj)
        if old is None:
            return [Added(obj, initial=initial)]
        before = meta_of(old)  # type: ignore[arg-type]
        if before.uid and meta.uid and before.uid != meta.uid:
            return [Deleted(old, assumed=True), Added(obj)]
        if before.resource_version == meta.resource_version and meta.resource_version:
            return []  # a relist shows the cached version: nothing happened
        return [Updated(old, obj)]

    def _keep_apart(self, what: Unreadable, *, gone: bool = False) -> list[Change[T]]:
        """Keep an object that cannot be decoded apart, and report it once.

        Its last decoded state stays while it is the same object: that it cannot be decoded now
        does not mean that it is deleted.
        """
        known = self.aside.pop(what.key, None)
        if not gone:
            self.aside[what.key] = what
            if known is None or (known.uid, str(known.error)) != (what.uid, str(what.error)):
                self._report_unreadable(what)
        old = self.cache.get(what.key)
        if old is None or (not gone and meta_of(old).uid == what.uid):  # type: ignore[arg-type]
            return []
        self._store.remove(what.key)
        return [Deleted(old, assumed=True)]

    def _report_unreadable(self, what: Unreadable) -> None:
        _log.error("%s; it is ignored and the others continue", what.error)
        if self.on_unreadable is not None:
            _call(self.on_unreadable, what)

    def _remove(self, obj: T) -> list[Change[T]]:
        key: Key = key_of(obj)  # type: ignore[arg-type]
        self.aside.pop(key, None)
        old = self.cache.get(key)
        if old is None:
            return []
        uid, cached = meta_of(obj).uid, meta_of(old).uid  # type: ignore[arg-type]
        if uid and cached and uid != cached:
            return []  # the deleted object is older than the cached one of the same name
        self._store.remove(key)
        return [Deleted(self._transformed(obj))]

    def _transformed(self, obj: T) -> T:
        if self._transform is None:
            return obj
        try:
            changed = self._transform(obj)
            kept = _identity(changed) == _identity(obj)
        except Exception:
            _log.exception("the transform of %s failed; the object is kept whole", self.kind.kind)
            return obj
        if kept:
            return changed
        _log.error("the transform of %s changed metadata; the object is kept whole", self.kind.kind)
        return obj

    # Versions, resync, errors

    def _has_reached(self, version: str) -> bool:
        return bool(self._version) and is_at_least(self._version, version) is not False

    def _reach(self, version: str) -> None:
        if not version:
            return
        if self._version and is_at_least(version, self._version) is False:
            return
        self._version = version
        for callback in self.on_progress:
            _call(callback)
        for waiter in list(self._version_waiters):
            if self._has_reached(waiter[0]) and not waiter[1].done():
                waiter[1].set_result(None)

    async def _replay_for_ever(self) -> None:
        while True:
            spread = 1.0 + _RESYNC_SPREAD * (2.0 * self._random() - 1.0)
            await asyncio.sleep(self._resync * spread)
            for obj in list(self.cache):
                # Changes and deletions since the replay began were reported as they happened.
                if self.cache.get(key_of(obj)) is obj:  # type: ignore[arg-type]
                    await self._notify(list(self._subscriptions), [Updated(obj, obj)])

    def _note(self, error: Exception, wait: float) -> None:
        bug = None if isinstance(error, KubeError) else error
        if wait <= 0 and bug is None:
            _log.debug("%s: %s; continuing at once", self.kind.resource, error)
            return
        known = str(self.last_error) == str(error)
        self.failures += 1
        self.last_error = error
        if self.optional and isinstance(error, (Forbidden, NotFound)):
            self._answered.set()
            if not known:
                _log.warning("%s: %s; continuing without it", self.kind.resource, error)
            return
        text = "%s: %s; retrying in %.1f s"
        _log.warning(text, self.kind.resource, error, wait, exc_info=bug)

    def _unsubscribe(self, subscription: Subscription[T]) -> None:
        with suppress(ValueError):
            self._subscriptions.remove(subscription)


def _call(callback: Callable[..., None], *given: object) -> None:
    try:
        callback(*given)
    except (Exception, asyncio.CancelledError):
        _log.exception("a callback of a cache failed")


def _identity(obj: object) -> tuple[object, ...]:
    meta = meta_of(obj)  # type: ignore[arg-type]
    return (meta.key, meta.uid, meta.resource_version, meta.owner_references, meta.labels)
