"""A database follows a server elsewhere and is promoted, with strikes at every effect."""

from __future__ import annotations

import os

import pytest

from kubecontroller.testing.seeds import derive
from redis_testing.simulation.crashes import reference, spread, strike_at_each
from redis_testing.simulation.process import Strike
from redis_testing.simulation.scenarios import Scenario
from redis_testing.simulation.sources import SOURCE_SCENARIOS

ALL = os.environ.get("HISTORIES") == "all"  # else a run strikes at some effects


def drawn() -> list[Scenario]:
    found = sorted(SOURCE_SCENARIOS, key=lambda scenario: derive(f"chosen {scenario}"))
    return found if ALL else found[:4]


@pytest.mark.parametrize("scenario", drawn(), ids=str)
def test_the_end_is_as_it_must_be(scenario: Scenario) -> None:
    assert reference(scenario, seed=int(os.environ["SEED"]) % 1000).end


@pytest.mark.parametrize("number", [0, 1], ids=lambda n: str(SOURCE_SCENARIOS[n]))
def test_the_end_is_the_same_after_a_strike_at_some_effects(number: int) -> None:
    known = reference(SOURCE_SCENARIOS[number])
    everywhere = range(len(known.effects))
    points = everywhere if ALL else spread(everywhere, 3)[:2]
    told: dict[tuple[int, Strike], str] = {}
    strike_at_each(known, [(p, s) for p in points for s in Strike], told.__setitem__)
    assert [problem for problem in told.values() if problem] == []
