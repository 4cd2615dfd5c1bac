"""The journal that survives: one SQLite file in write-ahead mode.

Every change is its own transaction and is in the file (or its log, which the next open replays)
before `record` returns, so an answer is only ever given for what a killed process finds again.
The log is not synced to the disk for each change: the death of the process loses nothing, the
death of the machine may lose the last moments, but never tears a change.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from .store import Change, Entry, Store

__all__ = ["SqliteJournal", "open_store"]

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


class SqliteJournal:
    """Records changes in a file. One process at a time may hold it."""

    def __init__(self, path: Path) -> None:
        path.touch(mode=0o600)  # all Secrets are in it; its log gets the same mode
        path.chmod(0o600)
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=1.0)
        self._connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.execute("PRAGMA wal_autocheckpoint=4000")
        self._connection.executescript(_TABLES)

    def version(self) -> int:
        """Return the last version this file knows of: of an object, or of a deletion."""
        row = self._connection.execute("SELECT value FROM facts WHERE name='version'").fetchone()
        (newest,) = self._connection.execute("SELECT max(version) FROM objects").fetchone()
        return max(int(row[0]) if row else 1, newest or 1)

    def objects(self) -> Iterator[tuple[str, bytes]]:
        """Yield every object as it was kept, with the collection it belongs to."""
        yield from self._connection.execute(
            "SELECT collection, body FROM objects ORDER BY collection, key"
        )

    def record(self, collection: str, change: Change) -> None:
        """Write one change and the version it made, in one transaction."""
        entry = change.entry
        if change.deleted:
            self._delete(collection, entry.key, change.version)
        else:
            self._connection.execute(
                "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)",
                (collection, entry.key, change.version, entry.kept),
            )

    def _delete(self, collection: str, key: str, version: int) -> None:
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        try:
            run("DELETE FROM objects WHERE collection=? AND key=?", (collection, key))
            run("INSERT OR REPLACE INTO facts VALUES ('version', ?)", (str(version),))
            run("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                run("ROLLBACK")
            raise

    def close(self) -> None:
        """Fold the log into the file and let go of it."""
        self._connection.close()


def open_store(journal: SqliteJournal, read: Callable[[str, bytes], Entry]) -> Store:
    """Return a store with everything the journal kept; `read` makes entries of that."""
    store = Store(journal, version=journal.version())
    for collection, kept in journal.objects():
        store.load(collection, read(collection, kept))
    return store
