"""Copies of the repository in which changed programs run, each with tests that are warm."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.warm_tests import MARK

__all__ = ["Copy", "make_copy"]

_COPIED = ("src", "dev", "tests", "tools", "docs", "config", "examples", "bench", "requirements")
_SINGLE = ("pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "LICENSE")
_QUICK = "not campaign and not contract and not e2e"
_DRAWN = "--ignore=tests/sim/test_seeds.py"  # hundreds of histories: too long for one change
_USER = 61_000  # and upwards, one for each copy; used by no other program


@dataclass
class Copy:
    """A copy of the repository, and pytest in it that has collected the tests and waits."""

    folder: Path
    user: int
    environment: dict[str, str] = field(default_factory=dict)
    collected: list[str] = field(default_factory=list)
    _warm: subprocess.Popen[str] | None = None

    def warm_up(self, tests: tuple[str, ...]) -> None:
        """Collect the tests."""
        arguments = ["-q", "-s", "-p", "tools.warm_tests", "-m", _QUICK, _DRAWN, *tests]
        self._warm = self._start(arguments)
        self.collected = self._answer()["collected"]

    def ask(self, **asked: Any) -> dict[str, Any]:
        """Have the warm tests do something."""
        assert self._warm is not None
        assert self._warm.stdin is not None
        self._warm.stdin.write(json.dumps(asked) + "\n")
        self._warm.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._warm is not None
        assert self._warm.stdout is not None
        printed = []
        for line in self._warm.stdout:
            if line.startswith(MARK):
                found: dict[str, Any] = json.loads(line.removeprefix(MARK))
                return found
            printed.append(line)
        raise SystemExit(f"the tests cannot be collected:\n{''.join(printed)}")

    def cool(self) -> None:
        """End the warm tests, and whatever they still run."""
        if self._warm is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._warm.pid, signal.SIGKILL)
            self._warm.communicate()

    def run_cold(self, tests: list[str], *, seconds: float) -> tuple[int, str]:
        """Run tests in a Python of their own; exit code (124: too long) and what it printed."""
        process = self._start(["-q", "-x", "--no-header", "-m", _QUICK, _DRAWN, *tests])
        try:
            printed, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return 124, ""
        return process.returncode, printed

    def _start(self, arguments: list[str]) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        if os.getuid() == 0:
            command = [
                *("setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"),
                *("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"),
                *command,
            ]
        return subprocess.Popen(
            ["nice", "-n", "10", *command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )


def make_copy(root: Path, base: Path, number: int) -> Copy:
    """Copy what tests need into a folder that a user of its own owns."""
    folder = base / f"copy{number}"
    folder.mkdir()
    for name in _COPIED:
        if (root / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(root / name, folder / name, ignore=ignored)
    for name in _SINGLE:
        if (root / name).exists():
            shutil.copy(root / name, folder / name)
    for name in ("home", "tmp", "build"):
        (folder / name).mkdir(exist_ok=True)
    copy = Copy(folder, _USER + os.getpid() % 2000 * 2 + number)
    kept = {
        name: os.environ[name]
        for name in ("PATH", "LANG", "REDIS_OPERATOR_ENGINES")
        if name in os.environ
    }
    copy.environment = {
        **kept,
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "PYTHONPATH": os.pathsep.join(str(folder / name) for name in ("src", "dev", ".")),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SEED": "1",  # the same trials for every change
        "REDIS_TESTING_SNAPSHOTS": "",  # the copies of a changed program are not shared
    }
    if os.getuid() == 0:
        subprocess.run(["chown", "-R", f"{copy.user}:{copy.user}", str(folder)], check=True)
    return copy
