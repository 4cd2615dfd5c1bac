"""Ready at a generation: everything that it asks for was seen in place."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubecontroller.testing.faults import FaultyTransport, Seeded, StreamFault
from redis_testing.simulation.scenarios import formed
from redis_testing.simulation.system import Manifest, Simulation, database, simulate


def _ready_at(found: Manifest) -> int:
    """Return the generation that is told to be ready; 0 if none is."""
    status = found.get("status", {})
    ready = next((c["status"] for c in status.get("conditions", ()) if c["type"] == "Ready"), "")
    return int(status.get("observedGeneration", 0)) if ready == "True" else 0


def test_a_new_template_is_not_ready_before_its_pods_are_though_watches_are_late() -> None:
    async def scenario(simulation: Simulation) -> None:
        simulation.wrap = lambda transport: FaultyTransport(
            transport, Seeded(5, {StreamFault.LATE: 1.0})
        )
        simulation.start_operator()
        await asyncio.sleep(30.0)
        await simulation.change(config={"tcp-backlog": "600"})
        asked = (await simulation.redis())["metadata"]["generation"]
        while _ready_at(found := await simulation.redis()) < asked:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert "600" in str(found["spec"]["config"])
        for server in simulation.world.servers.values():
            assert server.config.get("tcp-backlog") == "600", (server.name, found["status"])

    simulate(scenario, seed=5, snapshot=formed(database()))


@pytest.mark.parametrize(
    "change",
    [
        {"config": {"tcp-backlog": "600"}},
        {"pod": {"labels": {"team": "a"}}},
        {"service": {"annotations": {"team": "a"}}},
    ],
    ids=str,
)
def test_a_spec_that_is_changed_while_the_database_is_paused_is_not_in_place(
    change: dict[str, Any],
) -> None:
    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await simulation.until_ready()
        await simulation.change(paused=True)
        await asyncio.sleep(20.0)
        found = await simulation.redis()
        assert _ready_at(found) == found["metadata"]["generation"], "nothing else was asked for"
        await simulation.change(**change)
        await asyncio.sleep(20.0)
        found = await simulation.redis()
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        assert not _ready_at(found)
        assert found["status"]["phase"] == "Updating"
        assert (
            f"changes of spec.{next(iter(change))} are not carried out"
            in (found["status"]["message"])
        )
        await simulation.change(paused=False)
        await simulation.until_ready()

    simulate(scenario, snapshot=formed(database()))
