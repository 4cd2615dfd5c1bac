"""Epochs that a server took and told nobody of: nothing that was acknowledged is lost. CL-29"""

from __future__ import annotations

import asyncio

import pytest

from redis_testing.simulation.scenarios import formed, mine, primary
from redis_testing.simulation.system import Simulation, database, simulate

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine


@pytest.mark.slow
@pytest.mark.parametrize("above", [1, 2])
def test_a_primary_that_told_nobody_of_its_epoch_does_not_take_its_slots_back(above: int) -> None:
    """It took the next epoch when its own met another's, and died before anybody heard of it.

    Its replica is elected with an epoch that is not above it.
    """

    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        writing = sim.write_on()
        await asyncio.sleep(1.0)
        old = primary(sim, 0)
        epoch = max(server.current_epoch for server in mine(sim)) + above
        old.current_epoch = old.me.epoch = epoch
        sim.kill(old.name)
        await asyncio.sleep(2.0)
        new = primary(sim, 0)
        assert new.name != old.name
        assert new.me.epoch <= epoch
        await asyncio.sleep(60.0)
        await sim.until_ready()
        writing.cancel()
        await asyncio.sleep(15.0)
        assert primary(sim, 0).name == new.name
        assert old.me.replica_of == new.id
        sim.check_end()

    simulate(scenario, snapshot=formed(database(update={"balancePrimaries": False})))
