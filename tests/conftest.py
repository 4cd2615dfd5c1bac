"""What holds for all tests: the seed of a run, who goes first, and which wait for the campaign."""

from __future__ import annotations

import gc
import os
import random
import tempfile
import time
from collections.abc import Generator, Iterator
from itertools import chain, zip_longest
from pathlib import Path

import pytest
from hypothesis import core, settings

from redis_testing.servers import find_engines
from redis_testing.simulation.scenarios import SNAPSHOTS
from support import kept_failures, leftovers
from support.groups import keep_together

# A busy machine is no reason to fail. The examples are those of the run's seed, new in each run;
# nothing is remembered from run to run, so that the same seed gives the same examples.
settings.register_profile("by seed", max_examples=50, deadline=None, database=None, print_blob=True)
settings.register_profile("explore", settings.get_profile("by seed"), max_examples=500)
settings.load_profile("by seed")

# Files whose every case starts several servers. The quick suite runs them on the newest engine
# and on one without atomic moves; the campaign runs them on all there are.
_HEAVY = ("test_mover.py", "test_scripts.py", "test_contract_sentinel.py")
_LATER = ("redis-6.2",)
# What a real server does by chance, sooner or later: the simulated one does it in the quick suite.
_BY_CHANCE = ("test_a_living_node_that_was_forgotten_comes_back_on_valkey[valkey",)
# Long tests go first, so that none is left for the end of the run; the longest before all others.
_LONGEST = ("sim/test_seeds.py::test_a_minute", "sim/test_seeds.py::test_one_crash")
_COMPUTES = ("sim", "planning")
_WAITS = (
    "manifests/test_boot_elections.py",
    "manifests/test_persistence.py",
    "manifests/test_scripts.py",
    "manifests/test_users.py",
    "redis/test_mover.py",
    "redis/test_tally.py",
    "ci",
    "cli/test_local_logs.py",
    "install",
    "kubecontroller/runtime/test_manager.py",
    "kubelocal/node",
    "packaging",
    "operator",
)
# Simulations wait for nothing but a processor: by the clock of a machine that does much else they
# may take many times as long.
_SIMULATES = ("sim", "planning", "operator")
_PATIENCE_SECONDS = 900
_GARBAGE = (100_000, 20, 20)  # a simulation makes many short-lived objects and few cycles
_ROOT = Path(__file__).parent
_begun = time.monotonic()


def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed of this run, once for all workers, unless SEED says which one to repeat.

    The workers share the databases that simulations begin with: each is formed once in a run.
    """
    if not hasattr(config, "workerinput"):
        os.environ.setdefault("SEED", str(random.SystemRandom().randrange(2**32)))
        if SNAPSHOTS not in os.environ:
            shared = tempfile.TemporaryDirectory(prefix="redis-", ignore_cleanup_errors=True)
            config.add_cleanup(shared.cleanup)
            os.environ[SNAPSHOTS] = shared.name
    core.global_force_seed = int(os.environ["SEED"])
    config.pluginmanager.register(kept_failures)


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whatever was started for a test ends with it."""
    leftovers.begin()
    yield
    left = leftovers.find(tmp_path_factory.getbasetemp())
    assert not left, "\n".join(left)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what ran: on which servers, how much, how long, and how to repeat it."""
    found = ", ".join(str(engine.version) for engine in find_engines()) or "none"
    terminalreporter.write_line(f"real servers on this machine: {found}")
    stats = terminalreporter.stats
    counts = [
        f"{len(stats.get(key, ()))} {key}" for key in ("passed", "failed", "error", "skipped")
    ]
    seconds = time.monotonic() - _begun
    seed = os.environ.get("SEED")
    terminalreporter.write_line(f"tests: {', '.join(counts)}; {seconds:.0f} s; SEED={seed}")
    if stats.get("failed"):
        terminalreporter.write_line(f"the same histories again: SEED={seed} make test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name in _HEAVY and any(engine in item.name for engine in _LATER):
            item.add_marker(pytest.mark.campaign)
        if item.name.startswith(_BY_CHANCE):
            item.add_marker(pytest.mark.campaign)
        simulates = item.path.is_relative_to(_ROOT) and (
            item.path.relative_to(_ROOT).parts[0] in _SIMULATES
        )
        if simulates and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_PATIENCE_SECONDS))
    if "PYTEST_XDIST_WORKER" in os.environ:
        items[:] = _long_first(items)
        keep_together(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of objects are made that live until the end: nothing of it is garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Thousands of tests and modules live until the end: nobody looks through them for garbage."""
    gc.freeze()
    gc.set_threshold(*_GARBAGE)


def _long_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """Mix the long tests that compute with the long ones that wait; the short ones follow."""
    computing: list[pytest.Item] = []
    waiting: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        place = item.path.relative_to(_ROOT).as_posix()
        waits = place.startswith(_WAITS) or item.get_closest_marker("servers") is not None
        (waiting if waits else computing if place.startswith(_COMPUTES) else others).append(item)
    computing.sort(key=lambda item: _COMPUTES.index(item.path.relative_to(_ROOT).parts[0]))
    computing.sort(key=lambda item: not item.nodeid.removeprefix("tests/").startswith(_LONGEST))
    mixed = chain.from_iterable(zip_longest(computing, waiting))
    return [item for item in mixed if item is not None] + others
