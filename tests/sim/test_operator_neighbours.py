"""Several databases in one operator, some of them poison: the others do not suffer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubecontroller.client.errors import ConnectionFailed
from kubecontroller.client.meta import Manifest
from kubecontroller.client.request import Request, Response
from kubecontroller.client.transport import Transport
from redis_testing.simulation.scenarios import formed, primary
from redis_testing.simulation.system import Simulation, database, simulate

_POISONED = 20


class Poison:
    """A transport on which writes about some databases fail, or are never answered."""

    def __init__(self, transport: Transport, *, hangs: bool) -> None:
        self._transport = transport
        self._hangs = hangs
        self.stream = transport.stream
        self.refused = 0

    async def request(self, request: Request, *, timeout: float) -> Response:
        if "/bad" in request.path and request.method != "GET":
            self.refused += 1
            if self._hangs:
                await asyncio.sleep(timeout)
            raise ConnectionFailed("the API server did not respond")
        return await self._transport.request(request, timeout=timeout)


def _leader(found: Manifest) -> str:
    return str(found["status"]["shards"][0].get("primary", ""))


def _named(name: str, **spec: Any) -> Manifest:
    found = database(**spec)
    return {**found, "metadata": {**found["metadata"], "name": name}}


@pytest.mark.parametrize("hangs", [False, True])
def test_databases_whose_objects_cannot_be_written_do_not_delay_the_failover_of_another(
    hangs: bool,
) -> None:
    async def scenario(sim: Simulation) -> tuple[float, int]:
        transports: list[Poison] = []

        def wrap(transport: Transport) -> Transport:
            transports.append(Poison(transport, hangs=hangs))
            return transports[-1]

        sim.wrap = wrap
        sim.start_operator()
        await asyncio.sleep(3.0)
        for number in range(_POISONED):
            await sim.apply(_named(f"bad{chr(97 + number)}"))
        await asyncio.sleep(7.0)
        began, old = asyncio.get_running_loop().time(), primary(sim, 0).name
        sim.kill(old)
        await sim.until(lambda found: _leader(found) not in ("", old), within=60, what="a leader")
        return asyncio.get_running_loop().time() - began, transports[-1].refused

    waited, refused = simulate(scenario, snapshot=formed(database()))
    assert refused
    assert waited < 2.0, waited
