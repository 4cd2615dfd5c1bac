"""Nodes that lose power: nobody there answers or refuses, or confirms that a pod is gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubelocal.controllers.engine.caches import BUILT_IN_KINDS
from redis_testing.simulation.nodes import node_of, power_off, power_on
from redis_testing.simulation.scenarios import Scenario, formed, mine, pods, primary, until_over
from redis_testing.simulation.system import NAMESPACE, Simulation, database, simulate

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine
WHOLE = Scenario("whole again", lambda _: asyncio.sleep(0), within=400.0)


async def condition(simulation: Simulation, node: str) -> str:
    found = await simulation.client.get(BUILT_IN_KINDS["nodes"], ("", node))
    return str(next(c["status"] for c in found["status"]["conditions"] if c["type"] == "Ready"))


async def leads_elsewhere(simulation: Simulation, gone: list[str]) -> bool:
    """Whether servers that answer own every slot."""
    owners = [s for s in mine(simulation) if s.is_primary and not s.stopped]
    return sum(len(s.slots) for s in owners) == 16384 and not any(s.name in gone for s in owners)


@pytest.mark.slow
@pytest.mark.parametrize("storage", [True, False], ids=["on volumes", "in memory"])
def test_a_node_that_loses_power_costs_no_slot_and_heals_when_it_is_back(storage: bool) -> None:
    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        writing = simulation.write_on()
        node = node_of(simulation, primary(simulation).name)
        gone = await power_off(simulation, node)
        assert gone
        await simulation.until_all(
            lambda: leads_elsewhere(simulation, gone), within=60.0, what="led by others"
        )
        await asyncio.sleep(60.0)
        assert await condition(simulation, node) == "Unknown"
        await power_on(simulation, node)
        await until_over(simulation, WHOLE)
        assert await condition(simulation, node) == "True"
        writing.cancel()
        simulation.check_end()

    simulate(scenario, seed=4, snapshot=formed(database(storage=storage)))


@pytest.mark.slow
def test_pods_that_are_evicted_from_a_silent_node_are_not_replaced_before_it_is_back() -> None:
    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        writing = simulation.write_on()
        node = node_of(simulation, primary(simulation).name)
        gone = await power_off(simulation, node)
        before = uids(simulation)

        async def evicted() -> bool:
            leaving = {p["metadata"]["name"] for p in pods(simulation) if is_leaving(p)}
            return leaving == set(gone)

        await simulation.until_all(evicted, within=500.0, what="evicted")
        await asyncio.sleep(30.0)
        assert uids(simulation) == before  # a second server with the same volume would be worse
        await power_on(simulation, node)
        await until_over(simulation, WHOLE)
        after = uids(simulation)
        assert {name for name in before if after[name] != before[name]} == set(gone)
        writing.cancel()
        simulation.check_end()

    simulate(scenario, seed=5, snapshot=formed(database()))


def uids(simulation: Simulation) -> dict[str, str]:
    return {p["metadata"]["name"]: p["metadata"]["uid"] for p in pods(simulation)}


def is_leaving(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"] and pod["metadata"]["namespace"] == NAMESPACE
