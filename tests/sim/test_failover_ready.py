"""A new database of mode Failover is Ready as soon as servers and sentinels are: no timer is waited
for that something else could have told."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from redis_testing.simulation.failover import failover, is_whole
from redis_testing.simulation.process import Effect
from redis_testing.simulation.system import Simulation, simulate

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine


def in_place(simulation: Simulation) -> bool:
    """Whether servers and sentinels are as they must be, and all pods say so."""
    found = [kept.server.ready for kept in simulation.kubelet.kept.values()]
    return len(found) == 6 and all(found) and is_whole(simulation)


def test_a_new_database_is_ready_a_quarter_of_a_second_after_all_is_in_place() -> None:
    async def scenario(simulation: Simulation) -> float:
        simulation.start_operator()
        await asyncio.sleep(1.0)
        await simulation.apply(failover())
        loop = asyncio.get_running_loop()
        begun = then = loop.time()
        while not simulation.is_ready(await simulation.redis()):
            await asyncio.sleep(0.02)
            assert loop.time() < begun + 60.0
            if not in_place(simulation):
                then = loop.time()
        assert then > begun
        return loop.time() - then

    for seed in range(1, 4):
        assert simulate(scenario, seed=seed) < 0.25


def test_a_sentinel_is_given_its_password_once_when_it_begins_to_monitor() -> None:
    """It ends its connections each time, and opens them again a second later."""
    told: Counter[str] = Counter()

    def note(effect: Effect) -> None:
        if effect.kind == "redis SENTINEL SET":
            told[effect.detail.split()[0]] += 1

    async def scenario(simulation: Simulation) -> None:
        simulation.journal.told.append(note)
        simulation.start_operator()
        await simulation.apply(failover())
        await simulation.until_ready()
        await asyncio.sleep(15.0)

    simulate(scenario)
    assert sorted(told.values()) == [1, 1, 1], told
