"""Which tests run together: those of one group on one worker, and those of one part in one run.

Tests of a group run one after the other: they share what is costly to make. pytest-xdist finds the
group of a test at the end of its id, and writes it into a field that pytest does not read since
version 9.2 (pytest-dev/pytest-xdist#1386): every test then runs anywhere.
"""

from __future__ import annotations

import zlib
from typing import Any

import pytest


def keep_together(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let the ids of tests that have a group end with it, where xdist asks for groups."""
    if not config.getoption("loadgroup", default=False):
        return  # one process, or another distribution
    for item in items:
        names = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
        ending = f"@{'_'.join(names)}"
        if names and not item.nodeid.endswith(ending):
            _rename(item, f"{item.nodeid}{ending}")


def _rename(item: Any, nodeid: str) -> None:
    """Give a test another id: pytest has no public way to do so."""
    item._id = type(item._id).parse(nodeid)


def keep_part(config: pytest.Config, items: list[pytest.Item], part: str) -> None:
    """Keep the tests of one part, "0/3" being the first of three; the name of a test decides.

    So a test is in the same part whatever else is collected, also when only failures are run again.
    """
    number, _, parts = part.partition("/")
    kept = [item for item in items if zlib.crc32(item.nodeid.encode()) % int(parts) == int(number)]
    if len(kept) < len(items):
        chosen = set(kept)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = kept
