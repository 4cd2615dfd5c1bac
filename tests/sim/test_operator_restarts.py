"""What an operator must know though another one learnt it: read off the objects."""

from __future__ import annotations

import asyncio

import pytest

from kubecontroller.client.meta import Manifest
from redis_testing.simulation.scenarios import formed
from redis_testing.simulation.system import Simulation, database, simulate

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine


def _told(found: Manifest, kind: str) -> tuple[str, str]:
    conditions = found["status"]["conditions"]
    return next((c["status"], c["reason"]) for c in conditions if c["type"] == kind)


def test_a_new_operator_heals_by_the_last_good_spec_what_has_a_wrong_one_now() -> None:
    """Servers whose addresses are all new never find each other without the operator. CL-02"""

    async def run(simulation: Simulation) -> None:
        operator = simulation.start_operator()
        await asyncio.sleep(3.0)
        simulation.write_on()
        await simulation.change(config={"maxmemory": "banana"})
        await simulation.until(
            lambda found: _told(found, "Ready") == ("False", "InvalidSpec"),
            within=30.0,
            what="the refusal",
        )
        operator.die()
        for name in sorted(simulation.world.servers):
            await simulation.delete_pod(name)
        await asyncio.sleep(60.0)
        found = await simulation.redis()
        assert _told(found, "Ready") == ("False", "InvalidSpec")
        assert _told(found, "Available")[0] == "True", found["status"]
        servers = simulation.world.servers.values()
        assert all(simulation.world.state_ok(server) for server in servers)
        await simulation.change(config={"maxmemory": None})
        await simulation.until_ready(within=120.0)
        await asyncio.sleep(15.0)
        simulation.check_end()

    simulate(run, seed=5, snapshot=formed(database()))
