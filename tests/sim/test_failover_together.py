"""Two operators at once on a database of mode Failover: the end is the same, and nothing is lost.

One should lead at a time; a lease that two believe to hold, or an operator that stood still, makes
it two for a while. K-07, K-10
"""

from __future__ import annotations

import os

import pytest

from kubecontroller.testing.seeds import derive
from redis_testing.simulation.failover import FAILOVER_SCENARIOS
from redis_testing.simulation.histories import play_together
from redis_testing.simulation.mode_changes import MODE_CHANGES
from redis_testing.simulation.scenarios import Scenario
from redis_testing.simulation.sources import SOURCE_SCENARIOS
from support.histories import ALL

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine

NAMES = (
    *("create", "primary killed", "primary's pod deleted", "switchover", "restart"),
    *("all servers killed", "more sentinels", "fewer replicas", "hibernation"),
)
TOGETHER = (
    *(s for s in FAILOVER_SCENARIOS if s.name.removeprefix("failover: ") in NAMES),
    *MODE_CHANGES[:4],
    *SOURCE_SCENARIOS[:2],
)


def drawn() -> list[Scenario]:
    found = sorted(TOGETHER, key=lambda scenario: derive(f"together {scenario}"))
    return found if ALL else found[:3]


@pytest.mark.slow
@pytest.mark.parametrize("scenario", drawn(), ids=str)
def test_two_operators_come_to_the_same_end(scenario: Scenario) -> None:
    """Another end, or a lost write, raises `Broken`."""
    play_together(scenario, int(os.environ["SEED"]) % 1000)


def test_what_is_drawn_exists() -> None:
    assert len(TOGETHER) == len(NAMES) + 4 + 2
