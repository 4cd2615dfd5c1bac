"""Objects by resource, under one rising version, with a bounded history of what changed.

An object is kept as the JSON it is answered with (packed when it is large), so a read is a lookup
and a list is a join; what selectors need is kept beside it. Every change gets the next
resourceVersion, is handed to the journal, and only then becomes visible: what a client was told
happened survives a crash.

The history serves two readers: watches (each is a cursor into it, so a reader that does not read
costs nothing) and lists pinned to a version (today's state with later changes undone). Whoever
asks for more than is kept is told so with `Lost`.
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

_LARGE = 4096  # below, packing costs more time than the room is worth
_WINDOW, _MEMORY = 13, 5  # small: preparing a window takes longer than packing an object

_RECENT, _REMEMBERED = 32, 64 * 1024
_recent: dict[bytes, bytes] = {}
"""What was packed last, since the writer and every watcher are about to ask for it."""


def pack(body: bytes) -> bytes:
    """Return a body as it is kept: large ones small, since ten thousand pods are mostly names."""
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
    """Return the JSON of what is kept."""
    if kept.startswith(b"{"):
        return kept
    return _recent.get(kept) or zlib.decompress(kept, _WINDOW)


class Entry(Struct, frozen=True, gc=False):
    """One object as it is at one version."""

    namespace: str
    name: str
    uid: str
    version: int
    kept: bytes
    labels: Mapping[str, str]
    fields: tuple[str, ...] = ()

    @property
    def body(self) -> bytes:
        """The object as the JSON it is answered with."""
        return unpack(self.kept)

    @property
    def key(self) -> str:
        """Return where the object stands in the order of its collection."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Change(Struct, frozen=True, gc=False):
    """One step of history: an entry and the one it replaced; a deletion keeps the last body."""

    version: int
    entry: Entry
    previous: Entry | None
    deleted: bool = False


class Lost(LookupError):  # noqa: N818 - what it says of the version asked for
    """The version asked for is older than the history reaches."""


class Journal(Protocol):
    """Where changes are made durable before anybody is told of them."""

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
        """Let a recorded change happen, and wake those who watch."""
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
        """Drop the history up to a version, as a compaction does: what is older is gone."""
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
        """Return the collection of that name; it exists as soon as somebody asks."""
        found = self._collections.get(name)
        if found is None:
            found = Collection(name, floor=self._floor, history=self._history)
            self._collections[name] = found
        return found

    def collections(self) -> Iterable[Collection]:
        """Return all collections that were ever used."""
        return tuple(self._collections.values())

    def settle(self) -> None:
        """Begin the history here: what was set up before is no news to anybody."""
        self._floor = self.version
        for collection in self._collections.values():
            collection.forget(self.version)

    def load(self, collection: str, entry: Entry) -> None:
        """Take in an object that the journal kept from an earlier life."""
        self.collection(collection).entries[entry.key] = entry

    def commit(self, collection: str, entry: Entry, *, deleted: bool = False) -> None:
        """Make a change whose entry carries the next version; durable, then visible."""
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
