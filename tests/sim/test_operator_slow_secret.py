"""A Secret of the owner's own that cannot be read for now: failovers do not wait for it. B38"""

from __future__ import annotations

import asyncio
from base64 import b64encode

from kubecontroller.client.errors import ConnectionFailed
from kubecontroller.client.meta import Manifest
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.request import Request, Response
from kubecontroller.client.transport import Transport
from redis_operator.operator.world import CHILD_KINDS, REDISES
from redis_testing.simulation.scenarios import primary
from redis_testing.simulation.system import (
    DATABASE,
    NAMESPACE,
    Simulation,
    database,
    simulate,
)

SECRET = CHILD_KINDS["v1", "Secret"].plain()
GIVEN = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "mine", "namespace": NAMESPACE},
    "data": {"password": b64encode(b"of the owner").decode()},
}


_FORBIDDEN = b"""{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
"reason": "Forbidden", "message": "secrets \\"mine\\" is forbidden"}"""


class SlowSecret:
    """A transport that can be made to answer no question about one Secret, or to refuse it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.stream = transport.stream
        self.hangs = self.is_forbidden = False
        self.asked = 0

    async def request(self, request: Request, *, timeout: float) -> Response:
        if request.path.endswith("/secrets/mine"):
            self.asked += 1
            if self.is_forbidden:
                return Response(403, {}, _FORBIDDEN)
            if self.hangs:
                await asyncio.sleep(timeout)
                raise ConnectionFailed("the API server did not respond in time")
        return await self._transport.request(request, timeout=timeout)


def _leader(found: Manifest) -> str:
    return str(found["status"]["shards"][0].get("primary", ""))


async def _ready_database(sim: Simulation) -> list[SlowSecret]:
    """Make a database with a Secret of its owner; return what operators read it through."""
    transports: list[SlowSecret] = []

    def wrap(transport: Transport) -> Transport:
        transports.append(SlowSecret(transport))
        return transports[-1]

    sim.wrap = wrap
    await sim.client.create(SECRET, GIVEN)
    sim.start_operator()
    await sim.apply(database(auth={"secretName": "mine"}))
    await sim.until_ready()
    return transports


def test_a_failover_does_not_wait_for_a_secret_that_cannot_be_read() -> None:
    async def scenario(sim: Simulation) -> tuple[float, int]:
        transports = await _ready_database(sim)
        await asyncio.sleep(10.0)
        transports[-1].hangs = True
        transports[-1].asked = 0
        began, old = asyncio.get_running_loop().time(), primary(sim, 0).name
        sim.kill(old)
        await sim.until(lambda found: _leader(found) not in ("", old), within=30, what="a leader")
        waited = asyncio.get_running_loop().time() - began
        await asyncio.sleep(30.0)
        return waited, transports[-1].asked

    waited, asked = simulate(scenario)
    assert waited < 2.0
    assert 1 <= asked <= 12


def test_a_secret_that_is_gone_is_told_once_and_until_it_is_back() -> None:
    """Also of passes within the time for which an answer counts. IN-28"""

    async def scenario(sim: Simulation) -> tuple[list[str], list[str]]:
        await sim.client.create(SECRET, GIVEN)
        sim.start_operator()
        await sim.apply(database(auth={"secretName": "mine"}))
        await sim.until_ready()
        await sim.client.delete(SECRET, (NAMESPACE, "mine"))
        found = await _degraded(sim)
        sim.processes[-1].die()  # another one comes at once
        await asyncio.sleep(5.0)
        return found, await _degraded(sim)

    for found in simulate(scenario):
        told = found[found.index("AuthSecret") :]
        assert set(told) == {"AuthSecret"}, told


def test_a_secret_that_may_not_be_read_any_more_is_told_and_failovers_go_on() -> None:
    async def scenario(sim: Simulation) -> None:
        transports = await _ready_database(sim)
        transports[-1].is_forbidden = True
        found = await _degraded(sim)
        assert found[-1] == "AuthSecret", found
        live = await sim.redis()
        message = next(
            c["message"] for c in live["status"]["conditions"] if c["type"] == "Degraded"
        )
        assert "mine" in message
        assert "may not" in message
        old = primary(sim, 0).name
        sim.kill(old)
        await sim.until(lambda found: _leader(found) not in ("", old), within=30, what="a leader")
        transports[-1].is_forbidden = False
        await asyncio.sleep(15.0)
        await sim.until_ready()

    simulate(scenario)


async def _degraded(sim: Simulation) -> list[str]:
    """Touch the database each second for a while; return why it was degraded, look by look."""
    found = []
    for number in range(40):
        note = {"metadata": {"annotations": {"note": f"{sim.now()} {number}"}}}
        await sim.client.patch(REDISES, (NAMESPACE, DATABASE), MergePatch(note))
        await asyncio.sleep(1.0)
        live = await sim.client.get(REDISES, (NAMESPACE, DATABASE))
        found += [c["reason"] for c in live["status"]["conditions"] if c["type"] == "Degraded"]
    return found
