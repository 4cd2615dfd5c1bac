"""Programs a measurement starts: each a process of its own, ended by its pid, never left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["python", "report"]


@contextmanager
def python(module: str, *arguments: object) -> Iterator[str]:
    """Run a module of this package beside us; gives the first line it printed."""
    command = [sys.executable, "-m", f"bench.{module}", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def report(module: str, *arguments: object, within: float) -> dict[str, Any]:
    """Run a module of this package for so long at most; return the JSON it printed last."""
    command = [sys.executable, "-m", f"bench.{module}", *map(str, arguments)]
    try:
        printed = subprocess.run(command, stdout=subprocess.PIPE, timeout=within, check=True).stdout
    except subprocess.TimeoutExpired as late:
        printed = late.stdout or b""
        if not printed.strip():
            raise
    result: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return result
