"""A second copy of the state, at most a second old, and how it replaces a damaged state file.

An API server that started empty would end every pod: no object would want them. So a state file
that is damaged, empty or missing while there is a copy is renamed, and the copy replaces it. All
versions continue far above those that were used, so every watcher lists again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import sqlite3
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from kubecontroller import fields
from kubelocal.apiserver.storage.sqlite import SqliteJournal, StateError, open_store
from kubelocal.apiserver.storage.store import Change, Entry, Store

__all__ = ["CopiedJournal", "open_state"]

_LOG = logging.getLogger(__name__)
_PERIOD = 1.0
_JUMP = 1_000_000
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UNREADABLE = (msgspec.DecodeError, zlib.error, LookupError, ValueError, TypeError, AttributeError)
Read = Callable[[str, bytes], Entry]


class CopiedJournal:
    """The journal of a state file, with a copy that `run` keeps up to date."""

    def __init__(self, journal: SqliteJournal) -> None:
        self.journal = journal
        self._spare: SqliteJournal | None = None
        self._waiting: list[tuple[str, Change]] = []
        self._failed = False
        self._refused = 0
        self._refusal = ""

    def record(self, collection: str, change: Change) -> None:
        """Make one change durable; the copy gets it soon."""
        try:
            self.journal.record(collection, change)
        except StateError as error:
            self._refused += 1
            self._refusal = str(error)
            raise
        if self._refused:  # a full disk takes no log either, so its end is logged
            _LOG.error(
                "the state can be written again",
                extra=fields(refused=self._refused, error=self._refusal),
            )
            self._refused = 0
        self._waiting.append((collection, change))

    async def run(self) -> None:
        """Update the copy for ever."""
        while True:
            self.keep_up()
            await asyncio.sleep(_PERIOD)

    def keep_up(self) -> None:
        """Update the copy; if that fails it is created again later."""
        waiting, self._waiting = self._waiting, []
        try:
            if self._spare is None:
                self._spare = self._made()
            elif waiting:
                self._spare.record_all(waiting)
        except (sqlite3.Error, OSError, StateError) as error:
            self._drop_spare()
            if not self._failed:
                _LOG.warning("cannot copy the state, will retry", extra=fields(error=str(error)))
            self._failed = True
        else:
            self._failed = False

    def _made(self) -> SqliteJournal:
        """Copy the whole state; an older copy stays until the new one is complete."""
        spare = _spare(self.journal.path)
        unfinished = spare.with_name(f"{spare.name}.unfinished")
        _remove(unfinished)
        self.journal.copy_to(unfinished)
        _remove_logs(spare)
        unfinished.replace(spare)
        return SqliteJournal(spare)

    def _drop_spare(self) -> None:
        if self._spare is not None:
            with contextlib.suppress(sqlite3.Error):
                self._spare.close()
            self._spare = None

    def close(self) -> None:
        """Update the copy and close both files."""
        self.keep_up()
        self._drop_spare()
        self.journal.close()


def open_state(path: Path, read: Read) -> tuple[CopiedJournal, Store]:
    """Open a state file, or its copy when it is damaged.

    Errors: StateError when there is no usable copy either, or the file cannot be opened.
    """
    spare = _spare(path)
    if spare.exists() and (not path.exists() or path.stat().st_size == 0):
        return _replaced(path, read, why="it is empty or gone")
    try:
        return _opened(path, read)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in _DAMAGE:
            raise StateError(f"the state file {path} cannot be opened: {error}") from error
        why = str(error)
    except _UNREADABLE as error:
        why = f"an object in it cannot be read: {error}"
    return _replaced(path, read, why=why)


def _opened(path: Path, read: Read) -> tuple[CopiedJournal, Store]:
    journal = SqliteJournal(path)
    try:
        journal.check()
        spared = CopiedJournal(journal)
        store = open_store(journal, read, record=spared)
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            journal.close()
        raise
    return spared, store


def _replaced(path: Path, read: Read, *, why: str) -> tuple[CopiedJournal, Store]:
    spare = _spare(path)
    stamp = time.strftime("%Y%m%dT%H%M%S")
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    if not spare.exists():
        raise StateError(
            f"the state file {path} is damaged ({why}) and there is no copy {spare.name} beside "
            "it. Running pods continue. Restore the file from a backup, or give the cluster up: "
            "`down --purge` deletes it with all of its data"
        )
    as_of = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(_newest(spare)))
    for file in (path, *_logs(path)):
        if file.exists():
            file.rename(file.with_name(aside.name + file.name.removeprefix(path.name)))
    _copy(spare, path)
    try:
        spared, store = _opened(path, read)
    except (sqlite3.DatabaseError, *_UNREADABLE) as error:
        raise StateError(
            f"the state file {path} is damaged ({why}), and so is its copy {spare.name} ({error}). "
            "Running pods continue. Restore one of them from a backup, or give the cluster up: "
            "`down --purge` deletes it with all of its data"
        ) from error
    spared.journal.skip_to(store.version + _JUMP)
    store = open_store(spared.journal, read, record=spared)
    _LOG.error(
        "the state file is damaged; its copy is used, and changes made after that are lost",
        extra=fields(file=str(path), why=why, copy=spare.name, as_of=as_of, aside=aside.name),
    )
    return spared, store


def _copy(spare: Path, path: Path) -> None:
    """Copy a state file; it is there when its logs are, without which it is an older state."""
    for log, place in zip(_logs(spare), _logs(path), strict=True):
        if log.exists():
            shutil.copyfile(log, place)
    unfinished = path.with_name(f"{path.name}.unfinished")
    shutil.copyfile(spare, unfinished)
    unfinished.replace(path)


def _spare(path: Path) -> Path:
    return path.with_name(f"{path.stem}-copy{path.suffix}")


def _logs(path: Path) -> tuple[Path, Path]:
    """The files that SQLite keeps beside a file."""
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def _newest(path: Path) -> float:
    return max(file.stat().st_mtime for file in (path, *_logs(path)) if file.exists())


def _remove_logs(path: Path) -> None:
    for file in _logs(path):
        file.unlink(missing_ok=True)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    _remove_logs(path)
