"""How a collection is listed and then watched for ever: an explicit state machine.

`Watcher.step(state)` does one piece of I/O and returns events and the next state. States are
values; the transitions after an error are the pure function `after_error`. Errors are not raised,
whatever they are: they become a `Failed` event and a state that waits.

    Unlisted ──watch-list──▶ Streaming ──end of initial events──▶ Watching ──┐
        │  ▲                     │ any error: plain list                     │ end of stream:
        │  └─────────────────────┘                                           │ open again at
        └──list──▶ Listing (pages) ──last page──▶ Listed ──open──▶ Watching ─┘ the last version
    any state ──error────▶ Waiting(seconds, then) ──▶ then

Guarantees: it never goes back in time by itself (it relists at the last version seen, or by quorum
when that is not available); it never loops hot (every failure waits, and waits longer); a silent
stream is detected: servers send a bookmark every minute, and initial events without pauses. A
caller that knows of a change that was not reported calls `suspect`, and the stream is opened again
at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Final, Generic, Protocol, TypeAlias, TypeVar, assert_never

from msgspec.structs import replace

from kubecontroller.client.decode import Page, Unreadable
from kubecontroller.client.errors import (
    BadRequest,
    ConnectionFailed,
    Invalid,
    KubeError,
    ServerError,
    StreamStalled,
    TooManyRequests,
)
from kubecontroller.client.meta import Key, key_of, meta_of
from kubecontroller.client.watch import (
    Bookmark,
    ChangeType,
    UnreadableChange,
    WatchedChange,
    WatchEvent,
)
from kubecontroller.runtime.backoff import Backoff
from kubecontroller.runtime.watch_states import (
    Applied,
    Event,
    Failed,
    Listed,
    Listing,
    Progress,
    Removed,
    Replaced,
    State,
    Streaming,
    Undecodable,
    Unlisted,
    Waiting,
    Watching,
    after_error,
    is_unavailable_version,
    is_very_short,
)

__all__ = ["OpenStream", "Source", "Watcher"]

T = TypeVar("T")

_FOR_NOW = (TooManyRequests, ServerError, ConnectionFailed)
T_co = TypeVar("T_co", covariant=True)

_WATCH_SECONDS: Final = (300.0, 600.0)
_SILENT_SECONDS = 90.0  # of a watch: longer than a minute, after which a bookmark is due
_STUCK_SECONDS = 30.0  # of initial events
_LONGEST_ASKED_SECONDS = 60.0  # of Retry-After: a cache that waited for hours would just be old

OpenStream: TypeAlias = AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]
"""A stream that is opened by entering it, and closed by leaving it."""


class Source(Protocol[T_co]):
    """What the watcher needs of a client: one collection that can be listed and watched."""

    async def list_page(self, *, version: str, limit: int, continue_: str) -> Page[T_co]:
        """Read one page at a version: empty for the newest, `0` for any."""
        ...

    def watch(
        self, *, version: str, initial_events: bool, server_timeout: int, idle: float
    ) -> OpenStream[T_co]:
        """Open a stream of changes after a version."""
        ...


class Watcher(Generic[T]):
    """Runs the machine over one source. It holds the open stream and no other state."""

    def __init__(
        self,
        source: Source[T],
        *,
        random: Callable[[], float],
        page_size: int = 500,
        watch_list: bool = True,
        backoff: Backoff | None = None,
    ) -> None:
        self._source = source
        self._random = random
        self._page_size = page_size
        self._watch_list = watch_list
        self._backoff = backoff if backoff is not None else Backoff(random=random)
        self._paginated = False
        self._stack = AsyncExitStack()
        self._stream: AsyncIterator[WatchEvent[T]] | None = None
        self._listening: asyncio.Timeout | None = None  # while it waits for the next event

    def suspect(self) -> None:
        """Consider the open stream dead, if it is waited for: reopen it at the last version."""
        if self._listening is not None and not self._listening.expired():
            self._listening.reschedule(asyncio.get_running_loop().time())

    async def step(self, state: State) -> tuple[tuple[Event[T], ...], State]:
        """Do one piece of work and return its events and the next state."""
        if isinstance(state, Waiting):
            await asyncio.sleep(state.seconds)
            return (), state.then
        try:
            match state:
                case Unlisted():
                    return await self._begin(state)
                case Listing():
                    return await self._list(state)
                case Streaming():
                    return await self._collect(state)
                case Listed():
                    return await self._open(state)
                case Watching():
                    return await self._follow(state)
                case _:
                    assert_never(state)
        except asyncio.CancelledError:
            await self.close()
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._recover(state, RuntimeError("another task cancelled what it waited for"))
        except Exception as error:
            with suppress(Exception):  # a cache that ended would end the process with it
                await self.close()
            return self._recover(state, error)

    async def close(self) -> None:
        """Close the open stream, if there is one."""
        self._stream = None
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    # Listing

    async def _begin(self, state: Unlisted) -> tuple[tuple[Event[T], ...], State]:
        if self._watch_list and not state.plain:
            version = "" if state.quorum else state.last
            try:
                await self._enter(version, initial_events=True)
            except KubeError as error:
                unavailable = is_unavailable_version(error)
                if isinstance(error, _FOR_NOW) and not unavailable:
                    raise  # a plain list would add to the load: wait, and request the same again
                await self.close()
                if unavailable and not state.quorum:
                    return (), replace(state, quorum=True)
                if isinstance(error, BadRequest | Invalid):
                    self._watch_list = False  # a server that does not know it never will
                return (), replace(state, plain=True)
            return (), Streaming(last=state.last, items={}, quorum=state.quorum)
        version = state.version
        limited = version in {"", "0"} or self._paginated
        return (), Listing(of=state, limit=self._page_size if limited else 0)

    async def _list(self, state: Listing) -> tuple[tuple[Event[T], ...], State]:
        page = await self._source.list_page(
            version=state.of.version, limit=state.limit, continue_=state.continue_
        )
        items = state.items + page.items
        aside = state.unreadable + page.unreadable
        if page.continue_:
            if state.of.version == "0":
                # The server has no watch cache for this kind: pages help at any version.
                self._paginated = True
            return (), replace(state, items=items, unreadable=aside, continue_=page.continue_)
        objects: tuple[T, ...] = items  # type: ignore[assignment]  # of this source, every one
        following = Listed(page.resource_version, fresh=True)
        return (Replaced(objects, page.resource_version, aside),), following

    async def _collect(self, state: Streaming) -> tuple[tuple[Event[T], ...], State]:
        """Collect initial events; they replace everything at once when they end."""
        stream = self._opened()
        items: dict[Key, object] = state.items
        while (event := await self._next(stream, _STUCK_SECONDS)) is not None:
            if isinstance(event, Bookmark):
                if not event.initial_events_end:
                    continue
                now = asyncio.get_running_loop().time()
                following = Watching(event.resource_version, opened=now, events=1, fresh=True)
                return (_replaced(items, event.resource_version),), following
            key = _key(event)
            if event.type is ChangeType.DELETED:
                items.pop(key, None)
            else:
                items[key] = event.object
        await self.close()
        return (), Unlisted(last=state.last, plain=True, quorum=state.quorum)

    # Watching

    async def _open(self, state: Listed) -> tuple[tuple[Event[T], ...], State]:
        await self._enter(state.version, initial_events=False)
        return (), Watching(
            state.version,
            opened=asyncio.get_running_loop().time(),
            settled=state.version not in {"", "0"},
            fresh=state.fresh,
        )

    async def _follow(self, state: Watching) -> tuple[tuple[Event[T], ...], State]:
        event = await self._next(self._opened())
        if event is None:
            await self.close()
            return self._ended(state)
        if isinstance(event, Bookmark):
            version = event.resource_version or state.version
            after = Watching(version, state.opened, state.events + 1, settled=True)
            return (Progress(version),), after
        return (_event_of(event),), _advanced(state, event)

    async def _next(
        self, stream: AsyncIterator[WatchEvent[T]], seconds: float | None = None
    ) -> WatchEvent[T] | None:
        """Wait for the next event of a stream; None when the server ended it."""
        try:
            async with asyncio.timeout(seconds) as self._listening:
                return await anext(stream, None)
        except TimeoutError as error:
            raise StreamStalled("it is silent although there were changes") from error
        finally:
            self._listening = None

    def _ended(self, state: Watching) -> tuple[tuple[Event[T], ...], State]:
        if is_very_short(state, asyncio.get_running_loop().time()):
            error = StreamStalled("the server ended it within a second and without an event")
            return self._wait(error, Listed(state.version))
        return (), Listed(state.version)

    async def _enter(self, version: str, *, initial_events: bool) -> None:
        await self.close()
        low, high = _WATCH_SECONDS
        seconds = int(low + (high - low) * self._random())
        self._stream = await self._stack.enter_async_context(
            self._source.watch(
                version=version,
                initial_events=initial_events,
                server_timeout=seconds,
                idle=_SILENT_SECONDS,
            )
        )

    def _opened(self) -> AsyncIterator[WatchEvent[T]]:
        if self._stream is None:
            raise ValueError("a state with an open stream belongs to the watcher that opened it")
        return self._stream

    # Errors

    def _recover(
        self, state: Unlisted | Listing | Streaming | Listed | Watching, error: Exception
    ) -> tuple[tuple[Event[T], ...], State]:
        if isinstance(state, Streaming) and isinstance(error, BadRequest | Invalid):
            self._watch_list = False
        following, wait = after_error(
            state,
            error,
            now=asyncio.get_running_loop().time(),
        )
        if not wait:
            return (Failed(error, 0.0),), following
        return self._wait(error, following)

    def _wait(self, error: Exception, then: State) -> tuple[tuple[Event[T], ...], State]:
        seconds = self._backoff.next(asyncio.get_running_loop().time())
        asked = getattr(error, "retry_after", None)
        if asked is not None:
            seconds = max(seconds, min(float(asked), _LONGEST_ASKED_SECONDS))
        return (Failed(error, seconds),), Waiting(seconds, then)


def _replaced(items: dict[Key, object], version: str) -> Replaced[T]:
    aside = tuple(item for item in items.values() if isinstance(item, Unreadable))
    objects: tuple[T, ...] = tuple(  # of this source, every one
        item  # type: ignore[misc]
        for item in items.values()
        if not isinstance(item, Unreadable)
    )
    return Replaced(objects, version, aside)


def _key(change: WatchedChange[T] | UnreadableChange) -> Key:
    if isinstance(change, UnreadableChange):
        return change.object.key
    return key_of(change.object)  # type: ignore[arg-type]  # an object of the API


def _event_of(change: WatchedChange[T] | UnreadableChange) -> Applied[T] | Removed[T] | Undecodable:
    if isinstance(change, UnreadableChange):
        return Undecodable(change.object, gone=change.type is ChangeType.DELETED)
    if change.type is ChangeType.DELETED:
        return Removed(change.object)
    return Applied(change.object)


def _advanced(state: Watching, change: WatchedChange[T] | UnreadableChange) -> Watching:
    settled = state.settled or change.type is not ChangeType.ADDED
    version = state.version
    if settled:
        version = _version(change) or version
    return Watching(version, state.opened, state.events + 1, settled)


def _version(change: WatchedChange[T] | UnreadableChange) -> str:
    if isinstance(change, UnreadableChange):
        return change.object.resource_version
    return meta_of(change.object).resource_version  # type: ignore[arg-type]
