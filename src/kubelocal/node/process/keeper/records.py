"""Small files that outlive the keeper, written whole or not at all."""

# ruff: noqa: PTH105, PTH108
# ruff: noqa: PTH123

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

__all__ = ["Records", "forget", "read_record", "write_record"]


def write_record(path: str, record: dict[str, Any]) -> None:
    """Write a record whole or not at all; raise OSError when it cannot be written."""
    with open(f"{path}.new", "w") as handle:
        json.dump(record, handle)
    os.replace(f"{path}.new", path)


def read_record(path: str) -> dict[str, Any] | None:
    """Read a record, or None when there is none that can be read."""
    try:
        with open(path) as handle:
            record = json.load(handle)
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def forget(path: str) -> None:
    """Remove a record, if it is there."""
    try:
        os.unlink(path)
    except OSError:
        return


class Records:
    """Writes records; those that cannot be written are kept, and written when they can be.

    `retry` calls a function again after a pause.
    """

    def __init__(
        self, *, retry: Callable[[Callable[[], None]], None], log: Callable[[str], None]
    ) -> None:
        self._retry = retry
        self._log = log
        self._unwritten: dict[str, dict[str, Any]] = {}

    def store(self, path: str, record: dict[str, Any]) -> None:
        """Write a record, now or as soon as it is possible."""
        try:
            write_record(path, record)
        except OSError as error:
            if not self._unwritten:
                self._log(f"{path} cannot be written, will retry: {error}")
                self._retry(self._write_all)
            self._unwritten[path] = record

    def _write_all(self) -> None:
        waiting, self._unwritten = self._unwritten, {}
        for path, record in waiting.items():
            self.store(path, record)

    def discard(self, path: str) -> None:
        """Remove a record, written or not."""
        self._unwritten.pop(path, None)
        forget(path)

    def unwritten(self, prefix: str) -> dict[str, dict[str, Any]]:
        """Return the records below a folder that are not on disk yet, by their names."""
        return {
            path.removeprefix(prefix): record
            for path, record in self._unwritten.items()
            if path.startswith(prefix)
        }
