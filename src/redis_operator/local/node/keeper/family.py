"""Find and end every process of a container, whatever it forked or detached.

A process belongs to a container when it is in its session, carries its mark in the environment,
shares its private mount tree, or sits in its cgroup.
"""

# ruff: noqa: PTH115
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Sequence

__all__ = ["MARK", "end", "members", "start_ticks"]

MARK = "REDIS_OPERATOR_CONTAINER"
"""The environment variable that names the container a process belongs to."""

_ROUNDS = 50


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot, or None when it is gone."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the name, or None for the dead and zombies."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as handle:
            text = handle.read()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].decode().split()
    return None if fields[0] in ("Z", "X") else fields


def _carries(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as handle:
            return mark in handle.read().split(b"\0")
    except OSError:
        return False


def _tree_of(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return None


def _in_cgroups(folders: Sequence[str]) -> set[int]:
    found: set[int] = set()
    for folder in folders:
        try:
            with open(f"{folder}/cgroup.procs") as handle:
                found.update(int(line) for line in handle)
        except (OSError, ValueError):
            continue
    return found


def members(
    identity: str,
    *,
    session: int,
    tree: str | None = None,
    cgroups: Sequence[str] = (),
    others: Collection[int] = (),
) -> set[int]:
    """Return the living processes of a container; `others` are the sessions of other ones."""
    mark = f"{MARK}={identity}".encode()
    own = os.getpid()
    if tree == _tree_of(own):
        tree = None
    found = {pid for pid in _in_cgroups(cgroups) if _stat(pid)}
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == own:
            continue
        pid = int(name)
        fields = _stat(pid)
        if fields is None or pid in found or int(fields[3]) in others:
            continue
        in_tree = tree is not None and _tree_of(pid) == tree
        if int(fields[3]) == session or in_tree or _carries(pid, mark):
            found.add(pid)
    return found


def end(
    identity: str,
    *,
    session: int,
    tree: str | None = None,
    cgroups: Sequence[str] = (),
    others: Collection[int] = (),
) -> int:
    """Kill every process of a container, again and again until none is left; return how many."""
    ended: set[int] = set()
    for attempt in range(_ROUNDS):
        alive = members(identity, session=session, tree=tree, cgroups=cgroups, others=others)
        if not alive:
            break
        ended |= alive
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        time.sleep(0.001 * min(attempt, 10))
    return len(ended)
