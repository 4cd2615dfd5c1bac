"""New histories in each run: trials of the planner, crashes of the operator, minutes of trouble.

The run's seed is printed; `SEED=...` gives the very same histories again: 400 trials, a crash in
each scenario, and ten minutes of trouble. `make test` plays the first of each kind, and
`make test-slow` the others.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from kubecontroller.testing.seeds import derive, run_seed
from redis_testing.simulation.catalog import SCENARIOS
from redis_testing.simulation.changes import ENGINES as MOVERS
from redis_testing.simulation.histories import play_struck, play_trial, play_trouble
from redis_testing.simulation.scenarios import Scenario

pytestmark = [pytest.mark.timeout(900)]  # by the clock of a busy machine

TRIALS, AT_ONCE = 400, 4
MINUTES = 10
QUICK_TRIALS, QUICK_CRASHES, QUICK_MINUTES = 60, 10, 2
OTHERS = tuple(f", {engine} {version}" for engine, version in MOVERS)
ENGINES = ({}, {"engine": "valkey", "version": "9.1"}, {"engine": "redis", "version": "8.4"})


def again() -> str:
    """How the very same histories are had again."""
    return f"again: SEED={run_seed()} make test test-slow"


def slow_after(quick: int, found: Iterable[Any]) -> list[Any]:
    """Return all of them; `make test` plays only so many."""
    everything = list(found)
    rest = [pytest.param(one, marks=pytest.mark.slow) for one in everything[quick:]]
    return everything[:quick] + rest


@pytest.mark.parametrize("number", slow_after(QUICK_TRIALS // AT_ONCE, range(TRIALS // AT_ONCE)))
def test_trials_of_the_planner_keep_every_promise(number: int) -> None:
    for turn in range(AT_ONCE):
        seed = derive("trial", number * AT_ONCE + turn)
        trial = play_trial(seed)
        assert not trial.verdict, f"{again()}\ntrial {trial.explain()}"


@pytest.mark.parametrize("seed", [628755731, 2241237993, 3506249925, 2982675109])
def test_trials_that_once_failed_keep_every_promise(seed: int) -> None:
    """628755731: a server that was told of its own failure believed it for ever.

    2241237993: a server refused slots, since it believed in an owner who had given them up.
    2982675109: two replicas of one frozen primary were elected for different slots of it, and a
    person has to drop the older copy.
    """
    trial = play_trial(seed)
    assert not trial.verdict, trial.explain()


def some() -> list[Scenario]:
    """All scenarios, in an order of the seed; of those that differ only by the engine one."""
    usual = [s for s in SCENARIOS if not any(s.name.endswith(name) for name in OTHERS)]
    drawn = [[s for s in SCENARIOS if s.name.endswith(name)] for name in OTHERS]
    found = usual + [group[derive(group[0].name) % len(group)] for group in drawn]
    return sorted(found, key=lambda s: derive(f"chosen {s}"))


@pytest.mark.parametrize("scenario", slow_after(QUICK_CRASHES, some()), ids=str)
def test_one_crash_while_the_api_fails_changes_no_end(scenario: Scenario) -> None:
    """Another end, or a lost write, raises `Broken`."""
    seed = derive(f"crash {scenario}")
    print(f"{again()}; seed {seed}")
    print(play_struck(scenario, seed))


def test_minutes_of_trouble_that_once_failed_end_well() -> None:
    """1116138564: the only replica of a primary without power was deleted before it was promoted.

    Of two append-only files nothing tells which one is newer.
    """
    assert play_trouble(1116138564, seconds=60.0, pause=8.0)


@pytest.mark.parametrize("number", slow_after(QUICK_MINUTES, range(MINUTES)))
def test_a_minute_of_trouble_ends_well(number: int) -> None:
    seed = derive("trouble", number)
    print(f"{again()}; seed {seed}")
    history = play_trouble(seed, seconds=60.0, pause=8.0, **ENGINES[number % len(ENGINES)])
    print("\n".join(history))
    assert history


def test_the_seed_of_a_run_is_given_to_its_children_and_decides_all_others() -> None:
    program = (
        "from kubecontroller.testing.seeds import derive, run_seed;"
        "print(run_seed(), derive('a'), derive('a', 1), derive('b'))"
    )

    def run(**environment: str) -> list[str]:
        inherited = {k: v for k, v in os.environ.items() if k != "SEED"}
        return subprocess.run(
            [sys.executable, "-c", program],
            env=inherited | environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()

    assert run(SEED="7") == run(SEED="7")
    assert len(set(run(SEED="7") + run(SEED="8"))) == 8
    assert run()[0] != run()[0]
    assert run(SEED=str(run_seed()))[0] == str(run_seed())
