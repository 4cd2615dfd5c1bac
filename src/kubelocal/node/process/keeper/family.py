"""Finds and ends every process of a container, whatever it forked or detached.

A process belongs to a container when it is in its session, carries its mark in the environment,
is in its private mount namespace, or in its cgroup.
"""

# ruff: noqa: PTH115
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = ["MARK", "Family", "marks_with", "sessions_with", "start_ticks"]

MARK = "KUBELOCAL_CONTAINER"
"""The environment variable that names the container a process belongs to, and its keeper."""

_GONE_WITHIN = 5.0  # a server with much memory, or a busy machine, takes longer
_OTHER_PROGRAM_WITHIN = 1.0  # an exec takes microseconds, more where the program must be read first
_LARGEST_ENVIRONMENT = 8 * 1024 * 1024  # more than the kernel takes with an exec
_VIRTUAL_SIZE, _CODE_START, _VARIABLES_START, _VARIABLES_END = 20, 23, 47, 48  # in /proc/PID/stat

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def _check_resources(error: OSError) -> None:
    """Raise an error that says nothing about a process: it must not count as gone."""
    if error.errno in _EXHAUSTED:
        raise error


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot, or None when it is gone."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the name, or None for the dead and zombies."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as handle:
            text = handle.read()
    except OSError as error:
        _check_resources(error)
        return None
    fields = text[text.rindex(b")") + 2 :].decode().split()
    return None if fields[0] in ("Z", "X") else fields


def _environment(pid: int) -> list[bytes]:
    """Return the variables of a process; one in the middle of an exec is waited for.

    It shows none until the new program has its stack, and would pass for another's process. Only
    one call of the kernel reads all of it: where an exec comes between two, the rest is missing.
    """
    deadline = time.monotonic() + _OTHER_PROGRAM_WITHIN
    while True:
        try:
            with open(f"/proc/{pid}/environ", "rb", buffering=0) as handle:
                text = handle.read(_LARGEST_ENVIRONMENT) or b""
        except OSError as error:
            _check_resources(error)
            return []
        if text or _has_no_environment(pid) or time.monotonic() > deadline:
            return text.split(b"\0")
        time.sleep(0.0001)


def _has_no_environment(pid: int) -> bool:
    """Return whether there is nothing to read, neither now nor once its exec is done.

    The environment begins and ends at one place while the kernel puts it there; only after that the
    process has the place of its code.
    """
    fields = _stat(pid)
    if fields is None or fields[_VIRTUAL_SIZE] == "0":  # it ended, or belongs to the kernel
        return True
    return fields[_CODE_START] != "0" and fields[_VARIABLES_START] == fields[_VARIABLES_END]


def marks_with(prefix: str) -> set[str]:
    """Return the marks with a prefix that any process carries."""
    wanted, name = f"{MARK}={prefix}".encode(), f"{MARK}=".encode()
    found: set[str] = set()
    for pid in os.listdir("/proc"):
        if pid.isdecimal():
            variables = _environment(int(pid))
            found.update(
                variable.removeprefix(name).decode(errors="replace")
                for variable in variables
                if variable.startswith(wanted)
            )
    return found


def sessions_with(mark: str) -> set[int]:
    """Return the sessions in which any process carries a mark: all others in them hide it."""
    wanted, found = f"{MARK}={mark}".encode(), set()
    for name in os.listdir("/proc"):
        if name.isdecimal() and wanted in _environment(int(name)):
            fields = _stat(int(name))
            found.update([int(fields[3])] if fields else [])
    return found


def _tree_of(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError as error:
        _check_resources(error)
        return None


def _in_cgroups(folders: Sequence[str]) -> set[int]:
    found: set[int] = set()
    for folder in folders:
        try:
            with open(f"{folder}/cgroup.procs") as handle:
                found.update(int(line) for line in handle)
        except OSError as error:
            _check_resources(error)
        except ValueError:
            continue
    return found


@dataclass(frozen=True)
class Family:
    """The processes of one container, and how to distinguish them from all others.

    `mark` is in their environment; `leader` is the first of them, whose pid must still be its own;
    `sessions` are others of its own; `others` are the sessions of other containers: a process in
    one of them does not belong to this.
    """

    mark: str
    leader: int | None
    tree: str | None = None
    cgroups: Sequence[str] = ()
    others: Collection[int] = ()
    sessions: Collection[int] = ()

    def members(self) -> set[int]:
        """Return its living processes."""
        found = {pid for pid in _in_cgroups(self.cgroups) if _stat(pid)}
        found.update(
            int(name) for name in os.listdir("/proc") if name.isdecimal() and self._has(int(name))
        )
        return found - {os.getpid()}

    def _has(self, pid: int) -> bool:
        fields = _stat(pid)
        if fields is None:
            return False
        session = int(fields[3])
        if self.leader is not None and self.leader in (pid, session):
            return True  # the leader has no session before it ran for the first time
        if session in self.sessions:
            return True
        if session in self.others:
            return False
        in_tree = self.tree is not None and _tree_of(pid) == self.tree != _tree_of(os.getpid())
        return in_tree or f"{MARK}={self.mark}".encode() in _environment(pid)

    def end(self) -> int:
        """Kill every process repeatedly until all are gone; return how many.

        One that was killed has neither environment nor namespaces before it has closed its files.
        """
        killed: dict[int, int] = {}
        deadline = time.monotonic() + _GONE_WITHIN
        pause = 0.0
        while time.monotonic() < deadline:
            alive = self.members()
            if not alive and not any(start_ticks(pid) == began for pid, began in killed.items()):
                break
            for pid in alive:
                killed[pid] = start_ticks(pid) or 0
                self._kill(pid)
            time.sleep(pause)
            pause = min(pause + 0.001, 0.02)
        return len(killed)

    def _kill(self, pid: int) -> None:
        """Kill a member; never a process that got its pid later."""
        try:
            process = os.pidfd_open(pid)
        except OSError as error:
            if error.errno == errno.ENOSYS:  # this kernel identifies a process only by its pid
                _send_kill(pid)
            return
        try:
            if self._has(pid) or pid in _in_cgroups(self.cgroups):
                signal.pidfd_send_signal(process, signal.SIGKILL)
        except OSError:
            return
        finally:
            os.close(process)


def _send_kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return
