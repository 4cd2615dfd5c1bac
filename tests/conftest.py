"""What holds for all tests: which of the slow ones wait for the campaign."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from redis_operator.testing.servers import find_engines

# A busy machine is no reason to fail, and the same code has the same examples every time;
# `make explore` looks for new ones.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("explore" if os.environ.get("EXPLORE") else "same")

# Files whose every case starts several servers. The quick suite runs them on the newest engine
# and on one without atomic moves; the campaign runs them on all there are.
_HEAVY = ("test_mover.py", "test_scripts.py")
_LATER = ("redis-6.2",)
# What a real server does by chance, sooner or later: the simulated one does it in the quick suite.
_BY_CHANCE = ("test_a_living_node_that_was_forgotten_comes_back_on_valkey[valkey",)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which real servers the tests ran on."""
    found = ", ".join(str(engine.version) for engine in find_engines()) or "none"
    terminalreporter.write_line(f"real servers on this machine: {found}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name in _HEAVY and any(engine in item.name for engine in _LATER):
            item.add_marker(pytest.mark.campaign)
        if item.name.startswith(_BY_CHANCE):
            item.add_marker(pytest.mark.campaign)
