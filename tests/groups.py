"""Tests of one group run on one worker, one after the other: they share what is costly to make.

pytest-xdist finds the group of a test at the end of its id, and writes it into a field that pytest
does not read since version 9.2 (pytest-dev/pytest-xdist#1386): every test then runs anywhere.
"""

from __future__ import annotations

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
