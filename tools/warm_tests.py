"""A pytest plugin that collects tests once and then runs chosen ones in forks: cheap for `mutants`.

Starting Python and collecting costs seconds, a fork costs milliseconds. Requests are lines of JSON
on the standard input, answers lines on the standard output after `MARK`:

- `record` runs the tests and notes which lines of the program each one runs and what it costs. A
  test that takes longer than `seconds` of CPU is left out, and so is one that fails.
- `try` puts a changed function (or constant) in the place of the one that was imported, runs the
  tests and stops at the first that fails. The answer `unplaced` says that the change could not be
  put in place here: it needs a Python of its own.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from tools.placing import place

__all__ = ["MARK"]

MARK = "answer: "
_SOURCE = str(Path("src").resolve()) + os.sep
_OTHERS = tuple(_SOURCE + name for name in ("kubelocal/", "redis_operator/cli/"))


class TooLong(BaseException):
    """A test took longer than it may in a record."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Answer requests instead of running what was collected."""
    items = {item.nodeid: item for item in session.items}
    _say({"collected": list(items)})
    for line in sys.stdin:
        asked = json.loads(line)
        chosen = [items[name] for name in asked["tests"] if name in items]
        _say(_in_a_fork(session, asked, chosen))
    return True


def _say(answer: dict[str, Any]) -> None:
    print(f"\n{MARK}{json.dumps(answer)}", flush=True)


def _in_a_fork(
    session: pytest.Session, asked: dict[str, Any], chosen: list[pytest.Item]
) -> dict[str, Any]:
    """Do what is asked in a fork; what it says, or that it took too long or just ended."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            nothing = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(nothing, number)
            do = _record if asked["do"] == "record" else _try
            with os.fdopen(writing, "w") as out:
                json.dump(do(session, asked, chosen), out)
        finally:
            os._exit(0)
    os.close(writing)
    told = _read(reading, asked["wall"])
    if told is None:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    if not told:
        by = "took too long" if told is None else "Python ended"
        return {"outcome": "noticed", "by": by}
    found: dict[str, Any] = json.loads(told)
    return found


def _read(source: int, seconds: float) -> bytes | None:
    """All that comes until the other end is closed; None when that takes too long."""
    deadline = time.monotonic() + seconds
    told = b""
    try:
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([source], [], [], left)[0]:
                return None
            more = os.read(source, 1 << 20)
            if not more:
                return told
            told += more
    finally:
        os.close(source)


class _Runner:
    """Runs tests one by one; notes which passed and the first that failed."""

    def __init__(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        self.failed = ""
        self.passed: set[str] = set()
        self.items = items
        self._following: list[pytest.Item | None] = [*items[1:], None]
        self._session = session
        session.config.pluginmanager.register(self)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what became of it."""
        if report.failed:
            self.failed = self.failed or report.nodeid
            self.passed.discard(report.nodeid)
        elif report.when == "call" and report.passed:
            self.passed.add(report.nodeid)

    def run(self, number: int) -> None:
        """Run one test with its fixtures."""
        item = self.items[number]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=self._following[number])

    def end(self) -> None:
        """Take down what is still set up: no server may be left."""
        self._session._setupstate.teardown_exact(None)  # noqa: SLF001 - pytest has no other way


# Recording


class _Lines:
    """Which lines of the program run; only as long as a function has lines that were not seen."""

    def __init__(self) -> None:
        self._seen: dict[CodeType, set[int]] = {}
        self._sizes: dict[CodeType, int] = {}

    def start(self) -> None:
        self._seen.clear()
        threading.settrace(self._call)
        sys.settrace(self._call)

    def stop(self) -> dict[str, list[int]]:
        sys.settrace(None)
        threading.settrace(None)
        found: dict[str, set[int]] = {}
        for code, seen in self._seen.items():
            found.setdefault(code.co_filename.removeprefix(_SOURCE), set()).update(seen)
        return {path: sorted(seen) for path, seen in found.items()}

    def _call(self, frame: FrameType, _event: str, _argument: object) -> Any:
        code = frame.f_code
        size = self._sizes.get(code)
        if size is None:
            path = code.co_filename
            ours = path.startswith(_SOURCE) and not path.startswith(_OTHERS)
            size = len({line for _, _, line in code.co_lines() if line}) if ours else 0
            self._sizes[code] = size
        if not size:
            return None
        seen = self._seen.setdefault(code, {code.co_firstlineno})
        return self._line if len(seen) < size else None

    def _line(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            self._seen[frame.f_code].add(frame.f_lineno)
        return self._line


def _record(
    session: pytest.Session, asked: dict[str, Any], chosen: list[pytest.Item]
) -> dict[str, Any]:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TooLong

    signal.signal(signal.SIGPROF, stop)
    noted: dict[str, Any] = {}
    runner = _Runner(session, chosen)
    lines = _Lines()
    for number, item in enumerate(chosen):
        begun = _cpu_seconds(), time.monotonic()
        signal.setitimer(signal.ITIMER_PROF, asked["seconds"])
        lines.start()
        try:
            runner.run(number)
        except TooLong:
            runner.passed.discard(item.nodeid)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            seen = lines.stop()
        cost = _cpu_seconds() - begun[0]
        if item.get_closest_marker("servers") is not None:
            # What waits for a server costs less than what computes, but not nothing.
            cost = max(cost, (time.monotonic() - begun[1]) / 4)
        if item.nodeid in runner.passed:
            noted[item.nodeid] = {"seconds": round(cost, 3), "lines": seen}
    runner.end()
    return {"recorded": noted}


def _cpu_seconds() -> float:
    """The CPU time of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])


# Trying


def _try(
    session: pytest.Session, asked: dict[str, Any], chosen: list[pytest.Item]
) -> dict[str, Any]:
    if not place(_SOURCE + asked["path"], asked["function_line"], asked["source"]):
        return {"outcome": "unplaced"}
    cpu = int(time.process_time() + asked["cpu"]) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
    runner = _Runner(session, chosen)
    ran = 0
    for number in range(len(chosen)):
        ran += 1
        runner.run(number)
        if runner.failed:
            break
    try:
        runner.end()
    except Exception:
        runner.failed = runner.failed or "what was set up could not be taken down"
    if runner.failed:
        return {"outcome": "noticed", "by": runner.failed, "ran": ran}
    return {"outcome": "unnoticed", "by": "", "ran": ran}
