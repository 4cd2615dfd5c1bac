"""The seed of a run is said first, and a failure is written down with it before the run goes on.

How a run ended is kept in pytest's cache: after a run that was broken off, more than its failures
must be run again.

A run that is killed, or whose output nobody kept, leaves `build/failures.txt` behind.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

FILE = "build/failures.txt"


def pytest_sessionstart(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        reporter.write_line(f"SEED={os.environ.get('SEED')}")
        reporter.flush()  # a run that is killed has said it


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if not report.failed or "PYTEST_XDIST_WORKER" in os.environ:
        return
    with suppress(OSError):  # the tree is somebody else's: the summary has it all the same
        Path(FILE).parent.mkdir(exist_ok=True)
        with Path(FILE).open("a", encoding="utf-8") as kept:
            kept.write(f"SEED={os.environ.get('SEED')} {report.nodeid} ({report.when})\n")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    cache = getattr(session.config, "cache", None)  # a run may do without it
    if cache is not None and not hasattr(session.config, "workerinput"):
        cache.set("outcome/exitstatus", int(exitstatus))
