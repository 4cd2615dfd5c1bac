"""The processes of the keeper, and their records on disk.

A process is recorded before it is announced (`run/ID`: pid and start time), and its end is
recorded before it is announced (`ended/ID`), so that neither is lost when the agent, or the keeper
itself, is killed at any moment.
"""

# ruff: noqa: PTH115, PTH105, PTH108
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from .family import Family, marks_with, start_ticks
from .logfile import LogFile

__all__ = [
    "Child",
    "end_strays",
    "forget",
    "mark_of",
    "read_name",
    "read_record",
    "write_record",
]


@dataclass
class Child:
    """One process that was started here."""

    identity: str
    pid: int
    spec: dict[str, Any]
    started: int
    mark: str
    tree: str | None = None
    tree_descriptor: int | None = None
    log: LogFile | None = None
    pipes: dict[int, str] = field(default_factory=dict)
    exited: bool = False
    report: Callable[[], None] | None = None  # reads the result of its start, once

    @property
    def is_container(self) -> bool:
        """Whether its end is the end of every process with the same mark."""
        return not self.spec.get("guest")

    def hold_tree(self) -> None:
        """Record the child's mount namespace, and keep it open until its family is ended.

        The kernel reuses the number of a namespace that is gone: without this, the end of this
        child could end processes of another container.
        """
        path = f"/proc/{self.pid}/ns/mnt"
        try:
            self.tree_descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self.tree = os.readlink(path)
        except OSError:
            self.release_tree()

    def release_tree(self) -> None:
        """Close the mount namespace; its number may be reused from now on."""
        self.tree = None
        if self.tree_descriptor is not None:
            os.close(self.tree_descriptor)
            self.tree_descriptor = None

    def end_family(self, others: Collection[int] = ()) -> None:
        """Kill all remaining processes of it; `others` are the sessions of other children."""
        Family(
            self.mark,
            leader=self.pid,
            tree=self.tree if self.is_container else None,
            cgroups=self.spec.get("cgroups", []) if self.is_container else [],
            others=others,
        ).end()

    def drain(self, descriptor: int, *, most: int) -> bool:
        """Move output from a pipe to the log; return whether the pipe is still open."""
        for _ in range(most):
            try:
                chunk = os.read(descriptor, 65536)
            except BlockingIOError:
                return True
            except OSError as error:
                if error.errno == errno.EINTR:
                    continue
                return False
            if not chunk:
                return False
            if self.log is not None:
                self.log.feed(self.pipes[descriptor], chunk)
        return True


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


def read_name(folder: str) -> str:
    """Return the name of this folder's keepers, unique on the machine; it is drawn once.

    Identities are unique only within their agent, and marks must be unique on the whole machine:
    every process that carries the mark of a container is killed with it.
    """
    path = f"{folder}/name"
    record = read_record(path)
    if record is None:
        write_record(path, {"name": os.urandom(8).hex()})
        record = read_record(path)
    if record is None:
        raise OSError(errno.EIO, f"{path} can be neither read nor written")
    return str(record["name"])


def mark_of(keeper: str, identity: str) -> str:
    """Return the mark of a container, by which a new keeper finds its processes."""
    return f"{keeper}.{identity}"


def end_strays(folder: str, keeper: str) -> None:
    """End what an earlier keeper left running, and record that it was killed.

    Called by a new keeper before it serves: a process whose keeper died has lost its log and the
    parent that would read its exit code, so it is not adopted but ended. One that could not be
    recorded, on a full disk, is found by its mark.
    """
    running, ended = f"{folder}/run", f"{folder}/ended"
    prefix = mark_of(keeper, "")
    marked = {mark.removeprefix(prefix) for mark in marks_with(prefix)}
    for identity in {*os.listdir(running), *marked}:
        record = read_record(f"{running}/{identity}")
        if record is None and identity not in marked:
            forget(f"{running}/{identity}")
            continue
        record = record or {"pid": 0, "started": 0}
        pid = int(record["pid"])
        same = start_ticks(pid) == record["started"]
        Family(
            mark_of(keeper, identity),
            leader=pid if same else None,
            cgroups=record.get("cgroups", []),
        ).end()
        try:
            write_record(
                f"{ended}/{identity}", {"code": 137, "finished": time.time_ns(), "lost": True}
            )
        except OSError:
            continue  # on a full disk; the next keeper records it
        forget(f"{running}/{identity}")
