"""Limits of memory and of processes by cgroups, where this machine allows them.

Both versions are supported: version 1 with a hierarchy for each controller, version 2 with one for
all. Where neither can be written, limits are not enforced and the agent logs that.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from pathlib import Path

from msgspec import Struct

__all__ = ["Cgroups", "find_cgroups", "remove_groups"]

_ROOT = Path("/sys/fs/cgroup")
_EMPTY_WITHIN = 1.0


class Cgroups(Struct, frozen=True):
    """The folders in which cgroups can be created: one for each writable controller."""

    memory: Path | None = None
    pids: Path | None = None
    version: int = 0

    @property
    def folders(self) -> set[Path]:
        """The folders themselves, which are removed in the end."""
        return {folder for folder in (self.memory, self.pids) if folder is not None}

    @property
    def limitation(self) -> str | None:
        """Why limits are not enforced, or None when they are."""
        if self.memory is None and self.pids is None:
            return "cgroups are not writable here: memory and pids limits are not enforced"
        if self.memory is None:
            return "the memory controller is not writable here: memory limits are not enforced"
        if self.pids is None:
            return "the pids controller is not writable here: pids limits are not enforced"
        return None

    def create(self, name: str, *, memory: int | None, pids: int | None) -> list[str]:
        """Create a cgroup with these limits; return the folders that a process must join."""
        folders: list[str] = []
        wanted = {self.memory: memory, self.pids: pids}
        for parent in [p for p in wanted if p is not None]:
            folder = parent / name
            try:
                folder.mkdir(parents=True, exist_ok=True)
                if parent == self.memory and memory is not None:
                    self._limit_memory(folder, memory)
                if parent == self.pids and pids is not None:
                    (folder / "pids.max").write_text(str(pids))
            except OSError:
                continue
            folders.append(str(folder))
        return folders

    def _limit_memory(self, folder: Path, limit: int) -> None:
        name = "memory.max" if self.version == 2 else "memory.limit_in_bytes"
        (folder / name).write_text(str(limit))
        if self.version == 2:
            with contextlib.suppress(OSError):
                (folder / "memory.oom.group").write_text("1")

    def was_out_of_memory(self, name: str) -> bool:
        """Return whether the kernel killed a process of the cgroup because it was out of memory."""
        if self.memory is None:
            return False
        file = "memory.events" if self.version == 2 else "memory.oom_control"
        try:
            text = (self.memory / name / file).read_text()
        except OSError:
            return False
        counts = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
        return int(counts.get("oom_kill", "0")) > 0

    def remove(self, name: str) -> None:
        """Remove a cgroup whose processes have ended; one that still has some stays."""
        for parent in self.folders:
            with contextlib.suppress(OSError):
                (parent / name).rmdir()


def remove_groups(folder: Path) -> None:
    """Remove a folder of cgroups, and all in it; one that still has processes stays."""
    deadline = time.monotonic() + _EMPTY_WITHIN
    groups = [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    for group in (*groups, folder):
        while not _is_removed(group) and time.monotonic() < deadline:
            time.sleep(0.01)  # the kernel releases a process a little after its end


def _is_removed(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError as error:
        return error.errno != errno.EBUSY
    return True


def find_cgroups(instance: str) -> Cgroups:
    """Find what this machine allows, by trying."""
    if (_ROOT / "cgroup.controllers").exists():
        folder = _version_2(instance)
        return Cgroups(folder, folder, 2) if folder is not None else Cgroups()
    memory, pids = _version_1("memory", instance), _version_1("pids", instance)
    return Cgroups(memory, pids, 1)


def _own_group(controller: str) -> str:
    """Return the cgroup of this process, for one controller of version 1 or for version 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(",") or (not controller and not names):
            return path
    return "/"


def _version_1(controller: str, instance: str) -> Path | None:
    try:
        own = _own_group(controller).strip("/")
    except OSError:
        return None
    for parent in dict.fromkeys((_ROOT / controller / own, _ROOT / controller)):
        folder = parent / f"kubelocal-{instance}"
        try:
            folder.mkdir(exist_ok=True)
        except OSError:
            continue
        if os.access(folder / "cgroup.procs", os.W_OK):
            return folder
    return None


def _version_2(instance: str) -> Path | None:
    """Return a new cgroup with both controllers, or None when that is not possible.

    Children get controllers only from a parent without processes; the root is exempt.
    """
    try:
        own = _own_group("").strip("/")
    except OSError:
        return None
    for parent in dict.fromkeys((_ROOT / own, _ROOT)):
        folder = parent / f"kubelocal-{instance}"
        try:
            (parent / "cgroup.subtree_control").write_text("+memory +pids")
            folder.mkdir(exist_ok=True)
            (folder / "cgroup.subtree_control").write_text("+memory +pids")
        except OSError:
            continue
        return folder
    return None
