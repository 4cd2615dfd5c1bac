"""What a run of tests must not leave on the machine: processes and control groups.

Processes are known by a word that this process puts into its environment, which what it starts
inherits; those of pods, which inherit nothing, by the name of the keeper that started them.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kubelocal.node.process.keeper.family import MARK, start_ticks

__all__ = ["begin", "find"]

_WORD = "REDIS_OPERATOR_TEST_RUN"
_KEEPERS = ("*/keeper", "*/*/keeper", "*/*/*/keeper")
_PATIENCE = 10.0
_OF_PYTHON = b"multiprocessing"  # its helpers end with this process


def begin() -> None:
    """Have all that is started from now on carry a word of this process alone."""
    os.environ[_WORD] = uuid.uuid4().hex


def find(folder: Path) -> list[str]:
    """Say what is left, after giving it time to end; `folder` is where the tests worked."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        left = [*_processes(folder), *_groups(folder)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def _keepers(folder: Path) -> Iterator[Path]:
    for pattern in _KEEPERS:
        yield from folder.glob(pattern)


def _processes(folder: Path) -> Iterator[str]:
    words = [f"{_WORD}={os.environ[_WORD]}".encode()]
    for keeper in _keepers(folder):
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            name = msgspec.json.decode((keeper / "name").read_bytes())["name"]
            words.append(f"{MARK}={name}.".encode())
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            variables = (process / "environ").read_bytes().split(b"\0")
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ")
            ours = any(one.startswith(word) for one in variables for word in words)
            pid = int(process.name)
            if ours and pid != os.getpid() and start_ticks(pid) and _OF_PYTHON not in command:
                yield f"process {pid}: {command.decode(errors='replace')}"


def _groups(folder: Path) -> Iterator[str]:
    for keeper in _keepers(folder):
        with contextlib.suppress(OSError):
            groups = (keeper.parent / "cgroups").read_text().splitlines()
            yield from (f"control group {group}" for group in groups if Path(group).exists())
