"""Objects by resource, under one rising version, with a bounded history of changes.

An object is stored as the JSON of its responses (compressed when it is large), so a read is a
lookup and a list is a join; the values for selectors are stored beside it. Every change gets the
next resourceVersion, is written to the journal, and only then becomes visible: a change that a
client has seen survives a crash.

The history has two readers: watches (each is a cursor into it, so a slow reader costs nothing) and
lists pinned to a version (the current state with later changes undone). A reader that needs more
than the history holds gets `Lost`.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Protocol

from msgspec import Struct

__all__ = ["Change", "Collection", "Entry", "Journal", "Lost", "Store", "pack", "unpack"]

HISTORY = 10_000
"""Changes kept per collection; about what a busy hour of a small cluster makes."""

_LARGE = 4096  # smaller objects: compression costs more time than the space is worth
_WINDOW, _MEMORY = 13, 5  # small: preparing a window takes longer than compressing an object

_RECENT, _REMEMBERED = 32, 64 * 1024
_recent: dict[bytes, bytes] = {}
"""The objects compressed last, since the writer and every watcher are about to read them."""


def pack(body: bytes) -> bytes:
    """Return a body as it is stored: large ones compressed."""
    if len(body) <= _LARGE:
        return body
    packer = zlib.compressobj(1, zlib.DEFLATED, _WINDOW, _MEMORY)
    kept = packer.compress(body) + packer.flush()
    if len(body) <= _REMEMBERED:
        if len(_recent) >= _RECENT:
            del _recent[next(iter(_recent))]
        _recent[kept] = body
    return kept


def unpack(kept: bytes) -> bytes:
    """Return the JSON of a stored body."""
    if kept.startswith(b"{"):
        return kept
    return _recent.get(kept) or zlib.decompress(kept, _WINDOW)


class Entry(Struct, frozen=True, gc=False):
    """One object at one version."""

    namespace: str
    name: str
    uid: str
    version: int
    kept: bytes
    labels: Mapping[str, str]
    fields: tuple[str, ...] = ()

    @property
    def body(self) -> bytes:
        """The object as the JSON of its responses."""
        return unpack(self.kept)

    @property
    def key(self) -> str:
        """Return the position of the object in the order of its collection."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Change(Struct, frozen=True, gc=False):
    """One step of history: an entry and the one it replaced; a deletion keeps the last body."""

    version: int
    entry: Entry
    previous: Entry | None
    deleted: bool = False


class Lost(LookupError):  # noqa: N818 - what it says of the version requested
    """The requested version is older than the history."""


class Journal(Protocol):
    """Makes changes durable before they become visible."""

    def record(self, collection: str, change: Change) -> None:
        """Make one change durable, or raise and leave no trace of it."""
        ...


class Collection:
    """All objects of one resource."""

    def __init__(self, name: str, *, floor: int, history: int) -> None:
        self.name = name
        self.entries: dict[str, Entry] = {}
        self.floor = floor  # the oldest version a watch may start from
        self.version = floor  # of the last change here
        self.end = 0  # how many changes there ever were
        self.wakers: dict[int, Callable[[], None]] = {}
        self._changes: deque[Change] = deque()
        self._history = history
        self._order: list[str] | None = None

    def keys(self) -> list[str]:
        """Return all keys in order; the list must not be changed."""
        if self._order is None:
            self._order = sorted(self.entries)
        return self._order

    def put(self, change: Change) -> None:
        """Apply a recorded change, and wake the watches."""
        key = change.entry.key
        if change.deleted:
            del self.entries[key]
            self._order = None
        else:
            if key not in self.entries:
                self._order = None
            self.entries[key] = change.entry
        self._changes.append(change)
        self.end += 1
        self.version = change.version
        if len(self._changes) > self._history:
            self.floor = self._changes.popleft().version
        for wake in tuple(self.wakers.values()):
            wake()

    def position(self, version: int) -> int:
        """Return the cursor of the first change after a version."""
        if version < self.floor:
            raise Lost
        start = self.end - len(self._changes)
        return start + bisect_right(self._changes, version, key=lambda change: change.version)

    def since(self, cursor: int) -> Iterator[Change]:
        """Yield the changes from a cursor on; raise `Lost` if they are no longer kept."""
        start = self.end - len(self._changes)
        if cursor < start:
            raise Lost
        return islice(self._changes, cursor - start, None)

    def at(self, version: int) -> dict[str, Entry]:
        """Return the state at an earlier version, by undoing what came later."""
        if version >= self.version:
            return self.entries
        past = dict(self.entries)
        for change in reversed(tuple(self.since(self.position(version)))):
            if change.previous is None:
                past.pop(change.entry.key, None)
            else:
                past[change.entry.key] = change.previous
        return past

    def last(self) -> Change:
        """Return the most recent change."""
        return self._changes[-1]

    def forget(self, version: int) -> None:
        """Drop the history up to a version, as a compaction does."""
        self._changes.clear()
        self.floor = version


class Store:
    """Every collection, the version counter, and the journal behind them."""

    def __init__(
        self, journal: Journal | None = None, *, version: int = 1, history: int = HISTORY
    ) -> None:
        self.version = version
        self._floor = version
        self._journal = journal
        self._history = history
        self._collections: dict[str, Collection] = {}

    def collection(self, name: str) -> Collection:
        """Return the collection of that name; it is created on first use."""
        found = self._collections.get(name)
        if found is None:
            found = Collection(name, floor=self._floor, history=self._history)
            self._collections[name] = found
        return found

    def collections(self) -> Iterable[Collection]:
        """Return all collections that were ever used."""
        return tuple(self._collections.values())

    def settle(self) -> None:
        """Begin the history here: watches do not receive what was set up before."""
        self._floor = self.version
        for collection in self._collections.values():
            collection.forget(self.version)

    def load(self, collection: str, entry: Entry) -> None:
        """Load an object from the journal."""
        self.collection(collection).entries[entry.key] = entry

    def commit(self, collection: str, entry: Entry, *, deleted: bool = False) -> None:
        """Apply a change whose entry carries the next version; durable, then visible."""
        if entry.version != self.version + 1:
            raise ValueError(f"version {entry.version} does not follow {self.version}")
        home = self.collection(collection)
        change = Change(
            version=entry.version,
            entry=entry,
            previous=home.entries.get(entry.key),
            deleted=deleted,
        )
        if self._journal is not None:
            self._journal.record(collection, change)
        self.version = entry.version
        home.put(change)
