"""The durable journal: one SQLite file in write-ahead mode.

Every change is its own transaction and is in the file (or its log, which the next open replays)
before `record` returns, so a client only gets a response for what a restarted process finds again.
The log is not synced to the disk for each change: the end of the process loses nothing, a power
failure of the machine may lose the last moments, but never half a change.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from kubelocal.apiserver.storage.store import Change, Entry, Journal, Store

__all__ = ["SqliteJournal", "StateError", "open_store"]

_TABLES = """
CREATE TABLE IF NOT EXISTS objects (
    collection TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (collection, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class StateError(Exception):
    """The state cannot be read or written; the message says why and what to do."""


class SqliteJournal:
    """Records changes in a file. One process at a time may hold it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch(mode=0o600)  # all Secrets are in it; its log gets the same mode
        path.chmod(0o600)
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=1.0)
        try:
            self._connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute("PRAGMA wal_autocheckpoint=4000")
            self._connection.executescript(_TABLES)
        except BaseException:
            self._connection.close()
            raise

    def check(self) -> None:
        """Raise ValueError if the file is damaged."""
        (found,) = self._connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise ValueError(found)

    def version(self) -> int:
        """Return the last version in this file: of an object, or of a deletion."""
        row = self._connection.execute("SELECT value FROM facts WHERE name='version'").fetchone()
        (newest,) = self._connection.execute("SELECT max(version) FROM objects").fetchone()
        return max(int(row[0]) if row else 1, newest or 1)

    def objects(self) -> Iterator[tuple[str, bytes]]:
        """Yield every stored object, with its collection."""
        yield from self._connection.execute(
            "SELECT collection, body FROM objects ORDER BY collection, key"
        )

    def record(self, collection: str, change: Change) -> None:
        """Write one change and its version, in one transaction."""
        with self._state_errors():
            if change.deleted:
                self.record_all([(collection, change)])
            else:
                self._record(collection, change)

    def record_all(self, changes: Iterable[tuple[str, Change]]) -> None:
        """Write changes in one transaction."""
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        try:
            for collection, change in changes:
                self._record(collection, change)
            run("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                run("ROLLBACK")
            raise

    def _record(self, collection: str, change: Change) -> None:
        entry, run = change.entry, self._connection.execute
        if change.deleted:
            run("DELETE FROM objects WHERE collection=? AND key=?", (collection, entry.key))
            run("INSERT OR REPLACE INTO facts VALUES ('version', ?)", (str(change.version),))
        else:
            run(
                "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)",
                (collection, entry.key, change.version, entry.kept),
            )

    @contextmanager
    def _state_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StateError(
                f"cannot write the state file {self.path}: {error}. Is its disk full? "
                "Nothing was changed, and databases keep serving"
            ) from error

    def skip_to(self, version: int) -> None:
        """Let the next change have a version above this one."""
        self._connection.execute(
            "INSERT OR REPLACE INTO facts VALUES ('version', ?)", (str(version),)
        )

    def copy_to(self, path: Path) -> None:
        """Write everything into another file."""
        path.touch(mode=0o600)
        with closing(sqlite3.connect(path)) as other:
            self._connection.backup(other)

    def close(self) -> None:
        """Checkpoint the log into the file and close it."""
        self._connection.close()


def open_store(
    journal: SqliteJournal,
    read: Callable[[str, bytes], Entry],
    *,
    record: Journal | None = None,
) -> Store:
    """Return a store with everything in the journal; `read` makes entries of it.

    Changes go to `record` if that is given, else to the journal itself.
    """
    store = Store(record or journal, version=journal.version())
    for collection, kept in journal.objects():
        store.load(collection, read(collection, kept))
    return store
