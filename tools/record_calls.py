"""A pytest plugin that notes which functions of the program each test calls, and how long it takes.

Only calls are traced, not lines: that is quick, and finds too many tests rather than too few.
Writes JSON to the file that RECORD_CALLS_TO names: {test: {"seconds": s, "calls": [...]}} for tests
that passed; a call is `path:line` with the path below `src` and the function's first line.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

_SOURCE = str(Path("src").resolve()) + os.sep
_known: dict[CodeType, str] = {}
_calls: set[str] = set()
_tests: dict[str, dict[str, Any]] = {}


def _trace(frame: FrameType, _event: str, _argument: object) -> None:
    code = frame.f_code
    name = _known.get(code)
    if name is None:
        path = code.co_filename
        inside = path.startswith(_SOURCE) and not code.co_name.startswith("<")
        name = f"{path.removeprefix(_SOURCE)}:{code.co_firstlineno}" if inside else ""
        _known[code] = name
    if name:
        _calls.add(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Trace one test with its fixtures."""
    _calls.clear()
    _tests[item.nodeid] = {"seconds": 0.0, "passed": False, "calls": []}
    threading.settrace(_trace)
    sys.settrace(_trace)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)
        _tests[item.nodeid]["calls"] = sorted(_calls)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how long it took, and whether it passed."""
    noted = _tests.setdefault(report.nodeid, {"seconds": 0.0, "passed": False, "calls": []})
    noted["seconds"] += report.duration
    if report.when == "call":
        noted["passed"] = report.passed
    elif report.failed:
        noted["passed"] = False


def pytest_sessionfinish() -> None:
    """Write what was seen."""
    kept = {name: noted for name, noted in _tests.items() if noted.pop("passed") and noted["calls"]}
    Path(os.environ["RECORD_CALLS_TO"]).write_text(json.dumps(kept))
