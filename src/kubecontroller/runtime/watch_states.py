"""The states of a watcher, its events, and the transition after an error. Pure.

`watcher` has the diagram and runs the machine.
"""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar, assert_never

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller.client.decode import Unreadable
from kubecontroller.client.errors import (
    ApiError,
    ConnectionFailed,
    Gone,
    KubeError,
    NoAnswer,
    StreamStalled,
    TooManyRequests,
)
from kubecontroller.client.meta import Key

__all__ = [
    "Applied",
    "Event",
    "Failed",
    "Listed",
    "Listing",
    "Progress",
    "Removed",
    "Replaced",
    "State",
    "Streaming",
    "Undecodable",
    "Unlisted",
    "Waiting",
    "Watching",
    "after_error",
    "is_unavailable_version",
    "is_very_short",
]

T = TypeVar("T")

SHORTEST_WATCH = 1.0


# Events


class Replaced(Struct, Generic[T], frozen=True):
    """All objects that exist at a version; some of them may not be decodable."""

    objects: tuple[T, ...]
    version: str
    unreadable: tuple[Unreadable, ...] = ()


class Applied(Struct, Generic[T], frozen=True):
    """One object was added or modified."""

    obj: T


class Removed(Struct, Generic[T], frozen=True):
    """One object was deleted, or no longer matches the selector; `obj` is its last state."""

    obj: T


class Undecodable(Struct, frozen=True):
    """One object was added, modified or deleted (`gone`), and cannot be decoded."""

    what: Unreadable
    gone: bool = False


class Progress(Struct, frozen=True):
    """Everything up to this version has been reported."""

    version: str


class Failed(Struct, frozen=True):
    """A request failed and is retried after a wait; the cache may be old meanwhile."""

    error: Exception
    wait: float


Event: TypeAlias = Replaced[T] | Applied[T] | Removed[T] | Undecodable | Progress | Failed


# States


class Unlisted(Struct, frozen=True):
    """No usable state is known: the whole collection has to be listed.

    `last` is the newest version ever seen, `quorum` asks for the newest state, and `plain` forbids
    the watch-list for this round.
    """

    last: str = ""
    quorum: bool = False
    plain: bool = False

    @property
    def version(self) -> str:
        """The version to list at."""
        if self.quorum:
            return ""
        return self.last or "0"


class Listing(Struct, frozen=True):
    """Between two pages of a list."""

    of: Unlisted
    continue_: str = ""
    limit: int = 0
    items: tuple[object, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()


class Streaming(Struct, frozen=True):
    """A watch-list is open; `items` are collected until its initial events end."""

    last: str = ""
    items: dict[Key, object] = {}
    quorum: bool = False


class Listed(Struct, frozen=True):
    """All objects are known as of a version; no stream is open.

    `fresh` until a watch from there was tried: the version is that of the list just read.
    """

    version: str
    fresh: bool = False


class Watching(Struct, frozen=True):
    """A stream is open. `settled` once it is safe to resume at the versions of its events."""

    version: str
    opened: float = 0.0
    events: int = 0
    settled: bool = True
    fresh: bool = False


class Waiting(Struct, frozen=True):
    """After an error, before the retry."""

    seconds: float
    then: State


State: TypeAlias = Unlisted | Listing | Streaming | Listed | Watching | Waiting


def after_error(
    state: Unlisted | Listing | Streaming | Listed | Watching,
    error: Exception,
    *,
    now: float,
) -> tuple[State, bool]:
    """Return the state after an error, and whether to wait first. Pure.

    - Listing at a version that is too old or too new: list again at once, by quorum.
    - A page token that expired: list again without pages, at once.
    - A watch-list that the server cannot serve, or that broke off: a plain list, at once. One
      that was refused for now (429, 5xx, no connection): wait, and request the same again. One
      that never began (a proxy that keeps streams): wait, and a plain list for this round.
    - A watch that could not be opened, or was asked to slow down: wait, and open it again; the
      known state is still valid, and a list would only add to the load.
    - A version that is too old: list again, at once if the watch had lasted for a second, or could
      not be opened for a while because the server was down.
    - A stream that broke off or became silent: open it again at the last version.
    - Anything else: wait, and list again.
    """
    match state:
        case Unlisted() | Listing():
            return _after_list_error(state, error)
        case Streaming():
            return Unlisted(last=state.last, plain=True, quorum=state.quorum), False
        case Listed() | Watching():
            return _after_watch_error(state, error, now)
        case _:
            assert_never(state)


def _after_list_error(state: Unlisted | Listing, error: Exception) -> tuple[State, bool]:
    of = state.of if isinstance(state, Listing) else state
    if isinstance(error, Gone) and isinstance(state, Listing) and state.continue_:
        return Listing(of=of, limit=0), False
    if is_unavailable_version(error) and not of.quorum:
        return replace(of, quorum=True), False
    # The next round may reach the same server, which may have caught up until then.
    expected = isinstance(error, KubeError) and not isinstance(error, NoAnswer)
    return Unlisted(of.last, of.quorum, plain=not expected and not of.plain), True


def _after_watch_error(
    state: Listed | Watching, error: Exception, now: float
) -> tuple[State, bool]:
    again = Listed(state.version)
    if isinstance(error, Gone):
        # A version that was just listed may not be listed again at once: a server that responds to
        # every watch with 410 would otherwise be listed without end.
        lived = isinstance(state, Watching) and now - state.opened >= SHORTEST_WATCH
        delivered = isinstance(state, Watching) and state.events > 0
        return Unlisted(last=state.version), (state.fresh or delivered) and not lived
    if isinstance(error, TooManyRequests):
        return again, True
    if isinstance(error, ConnectionFailed | StreamStalled):
        lived = isinstance(state, Watching) and not is_very_short(state, now)
        return again, not lived
    return Unlisted(last=state.version), True


def is_unavailable_version(error: Exception) -> bool:
    """Whether a server does not have the requested version: too old, or not reached yet."""
    if isinstance(error, Gone):
        return True
    if not isinstance(error, ApiError):
        return False
    too_large = any(cause.reason == "ResourceVersionTooLarge" for cause in error.causes)
    return too_large or "Too large resource version" in error.message


def is_very_short(state: Watching, now: float) -> bool:
    """Whether a watch ended so early that opening it again at once would be a hot loop."""
    return state.events == 0 and now - state.opened < SHORTEST_WATCH
