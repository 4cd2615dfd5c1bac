"""A server whose disk is full is told, with an event, until there is room; nothing is moved."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_testing.cluster import disk
from redis_testing.simulation.system import DATABASE, Manifest, Simulation, database, simulate
from sim.test_operator_waking import warnings


def cluster() -> Manifest:
    return database(storage=True)


def standalone() -> Manifest:
    found = database(storage=True)
    found["spec"] |= {"mode": "Standalone", "shards": 1, "replicas": 0}
    return found


@pytest.mark.parametrize(
    ("wanted", "pod"),
    [
        pytest.param(cluster(), f"{DATABASE}-0-0", id="Cluster"),
        pytest.param(standalone(), f"{DATABASE}-0", id="Standalone"),
    ],
)
def test_a_primary_whose_disk_is_full_is_degraded_until_there_is_room(
    wanted: Manifest, pod: str
) -> None:
    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await simulation.apply(wanted)
        await simulation.until_ready(within=60.0)
        server = simulation.world.servers[pod]
        assert server.is_primary
        disk.fill_up(simulation.world, server)

        def told(found: Manifest) -> bool:
            return degraded(found)[:2] == ("True", "PersistenceFailed")

        await simulation.until(told, within=60.0, what="told")
        assert pod in degraded(await simulation.redis())[2]
        assert server.alive
        assert server.is_primary, "nobody takes its place: the next disk is as full"
        disk.make_room(simulation.world, server)
        await simulation.until_ready(within=60.0)
        await asyncio.sleep(3.0)  # events are written after the status
        assert len(await warnings(simulation)) == 1
        assert "PersistenceFailed" in (await warnings(simulation))[0]

    simulate(scenario)


def degraded(found: Manifest) -> tuple[Any, Any, Any]:
    conditions = (found.get("status") or {}).get("conditions", [])
    one = next((c for c in conditions if c["type"] == "Degraded"), {})
    return one.get("status"), one.get("reason"), one.get("message")
