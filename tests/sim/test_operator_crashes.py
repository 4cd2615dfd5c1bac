"""The operator dies, or an answer is lost, at any effect of anything it does: the end is the same.

The whole system runs in virtual time: the real operator on the embedded API server and simulated
servers, with clients that write all the while. A few tear points of each scenario run always; all
of them with the marker `campaign`. K-01, K-02, K-03, CL-05, CL-06
"""

from __future__ import annotations

from functools import cache

import pytest

from redis_operator.testing.simulation.crashes import (
    Reference,
    reference,
    spread,
    strike_at,
    tear_points,
)
from redis_operator.testing.simulation.process import Strike
from redis_operator.testing.simulation.scenarios import SCENARIOS, Scenario

STRIKES = tuple(Strike)
MOST_POINTS = 40  # of a scenario with thousands of effects, even in the campaign
BRIEFLY = {
    "create": 3,
    "primary killed": 1,
    "primary's pod deleted": 1,
    "all pods deleted": 1,
    "replica reset": 1,
    "slots left open": 1,
    "ghost node": 1,
    "StatefulSet orphaned its pods": 1,
    "scale out": 1,
    "more replicas": 1,
    "live setting": 1,
    "switchover": 1,
    "hibernate and wake": 1,
}


@cache
def known(name: str, seed: int = 1) -> Reference:
    return reference(next(s for s in SCENARIOS if s.name == name), seed=seed)


@pytest.mark.parametrize("name", BRIEFLY)
def test_the_end_is_the_same_after_a_strike_at_some_effects(name: str) -> None:
    found = known(name)
    points = spread(tear_points(found.effects), BRIEFLY[name] + 1)[: BRIEFLY[name]]
    for turn, point in enumerate(points):
        strike = STRIKES[(turn + len(name)) % len(STRIKES)]
        print(f"seed {found.seed}: {strike} at {found.effects[point]}")
        strike_at(found, point, strike)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("strike", STRIKES, ids=lambda strike: strike.name.lower())
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_the_end_is_the_same_after_a_strike_at_every_effect(
    scenario: Scenario, strike: Strike
) -> None:
    found = known(scenario.name)
    points = tear_points(found.effects)
    if len(found.effects) > 1000:
        points = spread(points, MOST_POINTS)
    print(f"{scenario}: {len(found.effects)} effects, {len(points)} points, seed {found.seed}")
    for point in points:
        strike_at(found, point, strike)
