"""The processes of the keeper, and their records on disk.

A process is recorded before it is announced (`run/ID`: pid and start time), and its end is
recorded before it is announced (`ended/ID`), so that neither is lost when the agent, or the keeper
itself, is killed at any moment.
"""

# ruff: noqa: PTH115
# ruff: noqa: PTH208

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from . import spawn
from .family import Family, marks_with, sessions_with, start_ticks
from .logfile import LogFile
from .records import forget, read_record, write_record

__all__ = [
    "Child",
    "end_strays",
    "mark_of",
    "read_name",
    "start_child",
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


def _pipe(ours: contextlib.ExitStack, theirs: contextlib.ExitStack, ends: list[int]) -> int:
    """Return the end to read of a pipe; the other one is added to `ends`."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    ours.callback(os.close, reading)
    theirs.callback(os.close, writing)
    os.set_blocking(reading, False)
    ends.append(writing)
    return reading


def start_child(spec: dict[str, Any], passed: list[int], mark: str) -> tuple[Child, int]:
    """Fork a child; return it, and the descriptor of its report. An error leaves nothing open.

    `passed` are its standard descriptors; without them it has a log.
    """
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        log: LogFile | None = None
        reading: dict[int, str] = {}
        standard = list(passed)
        if not passed:
            log = LogFile(spec["log"], limit=spec["log_limit"], kept=spec["log_files"])
            ours.callback(log.close)
            standard = [os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)]
            theirs.callback(os.close, standard[0])
            for name in ("stdout", "stderr"):
                descriptor = _pipe(ours, theirs, standard)
                reading[descriptor] = name
        report: list[int] = []
        failure = _pipe(ours, theirs, report)
        pid = spawn.fork(spec, (standard[0], standard[1], standard[2]), report[0])
        ours.pop_all()
    return Child(str(spec["id"]), pid, spec, 0, mark, log=log, pipes=reading), failure


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
        # What overwrote its environment, as some servers do, is found by its session.
        sessions = sessions_with(mark_of(keeper, identity)) if identity in marked else ()
        record = record or {"pid": 0, "started": 0}
        pid = int(record["pid"])
        same = start_ticks(pid) == record["started"]
        Family(
            mark_of(keeper, identity),
            leader=pid if same else None,
            cgroups=record.get("cgroups", []),
            sessions=sessions,
        ).end()
        try:
            write_record(
                f"{ended}/{identity}", {"code": 137, "finished": time.time_ns(), "lost": True}
            )
        except OSError:
            continue  # on a full disk; the next keeper records it
        forget(f"{running}/{identity}")
