"""A restore whose worker is refused for good lets clients in again: no data were replaced."""

from __future__ import annotations

import pytest

from kubecontroller.client.request import Request, Response
from kubecontroller.client.transport import Transport
from redis_operator.operator.world import REDIS_RESTORES
from redis_testing.simulation.scenarios import formed
from redis_testing.simulation.system import NAMESPACE, Simulation, database, simulate
from sim.test_redisrestore import restore, wait_phase
from sim.test_redisrestore_closing import servers_that_let_clients_in, told

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine

_QUOTA = b"""{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
"reason": "Forbidden", "message": "exceeded quota: jobs"}"""


class Quota:
    """A transport that lets no worker be created that replaces data."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.stream = transport.stream

    async def request(self, request: Request, *, timeout: float) -> Response:
        creates = request.method == "POST" and request.path.endswith("/jobs")
        if creates and b"back-replace-1" in (request.body or b""):
            return Response(403, {}, _QUOTA)
        return await self._transport.request(request, timeout=timeout)


@pytest.mark.slow
def test_a_worker_that_a_quota_refuses_does_not_keep_clients_out_for_ever() -> None:
    async def run(simulation: Simulation) -> None:
        simulation.wrap = Quota
        simulation.start_operator()
        await simulation.client.create(REDIS_RESTORES, restore("back"))
        await wait_phase(simulation, "back", "Restoring", within=300.0)
        await wait_phase(simulation, "back", "Failed", within=600.0)
        status = await told(simulation)
        assert status["conditions"][0]["reason"] == "ChildRefused"
        assert "Job back-replace-1 may not be created" in status["message"]
        assert "exceeded quota: jobs" in status["message"]
        assert "no data was replaced" in status["message"]
        assert not status.get("started")
        assert len(servers_that_let_clients_in(simulation)) == len(simulation.world.servers)
        await simulation.until_ready(within=60.0)
        found = await simulation.client.get(REDIS_RESTORES, (NAMESPACE, "back"))
        assert not found["metadata"].get("finalizers")

    simulate(run, snapshot=formed(database()))


def test_a_spec_that_cannot_be_followed_does_not_let_clients_in_on_a_part_of_the_data() -> None:
    """Another operator follows the last good spec, which says nothing of the restore."""

    async def run(simulation: Simulation) -> None:
        operator = simulation.start_operator()
        await simulation.client.create(REDIS_RESTORES, restore("back"))
        await wait_phase(simulation, "back", "Restoring", within=300.0)
        await simulation.change(version="99.9")
        operator.die()

        async def noticed() -> bool:
            conditions = (await simulation.redis())["status"]["conditions"]
            return any(c["reason"] == "UnknownVersion" for c in conditions)

        await simulation.until_all(noticed, within=60.0, what="the version is refused")
        status = (await simulation.redis())["status"]
        assert status["restoring"]["name"] == "back"
        assert status["restoring"]["replacing"]
        [available] = [c for c in status["conditions"] if c["type"] == "Available"]
        assert available["reason"] == "Restoring"
        assert servers_that_let_clients_in(simulation) == []

    simulate(run, snapshot=formed(database()))
