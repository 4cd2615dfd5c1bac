"""Servers that answer us and cannot hear each other: told, and not shouted at. CL-26"""

from __future__ import annotations

import asyncio
from itertools import combinations

import pytest

from redis_testing.simulation.system import Simulation, database, simulate


@pytest.mark.slow
def test_a_blocked_bus_port_is_named_and_no_storm_of_introductions_follows() -> None:
    async def scenario(simulation: Simulation) -> tuple[int, int]:
        names = [f"db-{shard}-{ordinal}" for shard in range(3) for ordinal in range(2)]
        lonely = {frozenset(pair) for pair in combinations(names, 2) if "db-2-1" in pair}
        simulation.world.cut |= lonely
        simulation.start_operator()
        await simulation.apply(database())
        await simulation.until(
            lambda found: any("16379" in line for line in found.get("status", {}).get("plan", ())),
            within=120,
            what="told",
        )
        await asyncio.sleep(20.0)
        before = meets(simulation)
        await asyncio.sleep(30.0)
        during = meets(simulation) - before
        simulation.world.cut.clear()
        await simulation.until_ready(within=120)
        return during, len(lonely)

    def meets(simulation: Simulation) -> int:
        return sum("CLUSTER MEET" in effect.kind for effect in simulation.journal.effects)

    during, pairs = simulate(scenario)
    assert during <= pairs * 2 * 2, during  # each end of each pair, with growing pauses
