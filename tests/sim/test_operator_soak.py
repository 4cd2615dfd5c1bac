"""An hour's worth of random kills and changes, in virtual time: at the end all is as asked for."""

from __future__ import annotations

import pytest

from redis_operator.testing.simulation.scenarios import formed
from redis_operator.testing.simulation.soak import soak
from redis_operator.testing.simulation.system import database, simulate

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine


@pytest.mark.parametrize("seed", [1])
def test_a_minute_of_trouble_ends_well(seed: int) -> None:
    print(f"seed {seed}")
    history = simulate(
        lambda simulation: soak(simulation, seconds=60.0, pause=10.0),
        seed=seed,
        snapshot=formed(database()),
    )
    assert history


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("storage", [True], ids=["on volumes"])
@pytest.mark.parametrize("seed", range(100, 120))
def test_an_hour_of_trouble_ends_well(seed: int, storage: bool) -> None:
    print(f"seed {seed}")
    history = simulate(
        lambda simulation: soak(simulation, seconds=3600.0),
        seed=seed,
        snapshot=formed(database(storage=storage)),
    )
    print("\n".join(history))
