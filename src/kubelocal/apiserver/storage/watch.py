"""A watch: a cursor into the history of one collection, filtered and rendered for one client.

It holds no events of its own, so a thousand watchers that never read cost a thousand cursors.
A reader that falls further behind than the history is disconnected and has to list again.
The shell calls `poll` whenever it was woken and has written the previous lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kubelocal.apiserver.errors import StatusError, expired
from kubelocal.apiserver.storage.entries import Selection, decode, encode
from kubelocal.apiserver.storage.store import Change, Collection, Entry, Lost, Store, pack

__all__ = ["BATCH", "Render", "Watch"]

Render = Callable[[str, Entry], bytes]
"""Renders the line of one event: its type and the object in the client's format."""

BATCH = 500


class Watch:
    """One open watch. `close` must be called when its client is gone."""

    def __init__(
        self,
        store: Store,
        collection: Collection,
        selection: Selection,
        *,
        cursor: int,
        initial: Iterable[Entry],
        render: Render,
        bookmark: Callable[[int, bool], bytes] | None,
        marks_initial: bool,
        timeout: float,
        end: StatusError | None = None,
    ) -> None:
        self.timeout = timeout
        self.bookmarks = bookmark is not None
        self.ended = False
        self.on_ready: Callable[[], None] = lambda: None
        self._store = store
        self._collection = collection
        self._selection = selection
        self._cursor = cursor
        self._initial = list(initial)
        self._initial.reverse()
        self._render = render
        self._bookmark = bookmark
        self._marks_initial = marks_initial
        self._initial_version = store.version
        self._refusal = end
        collection.wakers[id(self)] = self._wake

    def poll(self) -> list[bytes]:
        """Return the next lines, at most a batch; empty when there is nothing new."""
        if self.ended:
            return []
        if self._refusal is not None:
            return self.fail(self._refusal)
        lines: list[bytes] = []
        while self._initial and len(lines) < BATCH:
            lines.append(self._render("ADDED", self._initial.pop()))
        if self._initial:
            return lines
        if self._marks_initial and self._bookmark is not None:
            self._marks_initial = False
            lines.append(self._bookmark(self._initial_version, True))
        try:
            for change in self._collection.since(self._cursor):
                if len(lines) >= BATCH:
                    break
                self._cursor += 1
                lines.extend(self._lines(change))
        except Lost:
            self._end()
            lines.append(error_line(expired("too old resource version: the reader is too slow")))
        return lines

    def mark(self) -> list[bytes]:
        """Return a bookmark at the position of this watch, if no changes are pending."""
        if self._bookmark is None or self.ended or self._initial:
            return []
        if self._cursor < self._collection.end:
            return []
        return [self._bookmark(self._store.version, False)]

    def fail(self, error: StatusError) -> list[bytes]:
        """End the watch with an error event for its client."""
        self._end()
        return [error_line(error)]

    def close(self) -> None:
        """Unsubscribe from the collection."""
        self._end()

    def _end(self) -> None:
        self.ended = True
        self._initial.clear()
        self._collection.wakers.pop(id(self), None)

    def _wake(self) -> None:
        self.on_ready()

    def _lines(self, change: Change) -> Iterable[bytes]:
        is_in = not change.deleted and self._selection.includes(change.entry)
        was_in = change.previous is not None and self._selection.includes(change.previous)
        if is_in:
            yield self._render("MODIFIED" if was_in else "ADDED", change.entry)
        elif was_in and change.previous is not None:
            gone = change.entry if change.deleted else _at(change.previous, change.version)
            yield self._render("DELETED", gone)


def _at(entry: Entry, version: int) -> Entry:
    """Return an entry with the version at which it left a selection."""
    value = decode(entry.body)
    value["metadata"]["resourceVersion"] = str(version)
    return Entry(
        namespace=entry.namespace,
        name=entry.name,
        uid=entry.uid,
        version=version,
        kept=pack(encode(value)),
        labels=entry.labels,
        fields=entry.fields,
    )


def error_line(error: StatusError) -> bytes:
    """Return the ERROR event of a watch."""
    return b'{"type":"ERROR","object":' + encode(error.body()) + b"}\n"
