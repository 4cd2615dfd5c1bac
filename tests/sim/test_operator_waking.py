"""A database that is woken: one operation of its own, and nothing is wrong with it meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

from kubecontroller.client.objects import EVENTS
from redis_testing.simulation.scenarios import formed, is_asleep
from redis_testing.simulation.system import NAMESPACE, Simulation, database, simulate


async def warnings(sim: Simulation) -> list[str]:
    page = await sim.client.list(EVENTS, namespace=NAMESPACE)
    return [
        f"{event.reason}: {event.message}"
        for event in page.items
        if event.type == "Warning" and event.involved_object.kind == "Redis"
    ]


def test_waking_is_an_operation_and_warns_of_nothing() -> None:
    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        await sim.change(hibernate=True)
        await sim.until(is_asleep, within=120.0, what="asleep")
        await asyncio.sleep(5.0)
        seen: list[tuple[str, str]] = []
        await sim.change(hibernate=False)

        def awake(found: Any) -> bool:
            status = found["status"]
            operation = status["lastOperation"]
            degraded = next(c for c in status["conditions"] if c["type"] == "Degraded")
            seen.append((operation["type"], degraded["status"]))
            return operation["type"] == "Waking" and bool(operation.get("endTime"))

        await sim.until(awake, within=120.0, what="awake")
        found = await sim.redis()
        assert found["status"]["lastOperation"]["result"] == "Succeeded"
        assert found["status"]["phase"] == "Ready"
        assert {operation for operation, _ in seen} <= {"Hibernating", "Waking"}
        assert {degraded for _, degraded in seen} == {"False"}
        await asyncio.sleep(3.0)
        assert await warnings(sim) == []

    simulate(scenario, snapshot=formed(database()))


def test_a_database_that_does_not_wake_is_degraded_in_the_end() -> None:
    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        await sim.change(hibernate=True)
        await sim.until(is_asleep, within=120.0, what="asleep")
        await sim.change(hibernate=False, image="no-such-image:1")

        def told(found: Any) -> bool:
            conditions = found["status"]["conditions"]
            return next(c["status"] == "True" for c in conditions if c["type"] == "Degraded")

        await sim.until(told, within=300.0, what="Degraded")

    simulate(scenario, snapshot=formed(database()))
