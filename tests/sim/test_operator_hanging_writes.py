"""Writes to the API that get no answer: servers are looked after all the same. K-13, K-14

An admission webhook that hangs, or an API server that takes a request and never answers: the write
is waited for beside the care for the servers, and is repeated until it is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kubecontroller.client.errors import NoAnswer
from kubecontroller.client.request import Request, Response
from kubecontroller.client.transport import Transport
from redis_operator.manifests.names import ROLE_LABEL
from redis_testing.simulation.failover import failover, followers, is_whole, leader
from redis_testing.simulation.scenarios import formed, mine, pods, primary
from redis_testing.simulation.system import DATABASE, Simulation, database, simulate
from support.histories import draw_some

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine


class HangingWrites:
    """A transport on which writes to paths that contain some text are never answered."""

    def __init__(self, transport: Transport, hung: str) -> None:
        self._transport = transport
        self.stream = transport.stream
        self.close = transport.close
        self.hung = hung
        self.count = 0

    async def request(self, request: Request, *, timeout: float) -> Response:
        if self.hung and self.hung in request.path and request.method != "GET":
            self.count += 1
            await asyncio.sleep(timeout)
            raise NoAnswer(f"no answer within {timeout:g} s", host="simulation")
        return await self._transport.request(request, timeout=timeout)


def hang(sim: Simulation, hung: str) -> list[HangingWrites]:
    """Have an operator at work whose writes hang from its first one on."""
    transports: list[HangingWrites] = []

    def wrap(transport: Transport) -> Transport:
        transports.append(HangingWrites(transport, hung))
        return transports[-1]

    sim.start_operator(wrap=wrap)
    return transports


async def wait_for(holds: Callable[[], bool]) -> float:
    """Return the seconds until something holds."""
    began = asyncio.get_running_loop().time()
    while not holds():
        await asyncio.sleep(0.01)
        assert asyncio.get_running_loop().time() - began < 60.0
    return asyncio.get_running_loop().time() - began


HUNG = ("/services/", "/secrets/", "/configmaps/", "/statefulsets/", "/redis/db/status")


@pytest.mark.slow
@pytest.mark.parametrize("hung", draw_some(HUNG, 2, name="hung, cluster"))
def test_a_failover_does_not_wait_for_a_write_that_gets_no_answer(hung: str) -> None:
    """The engine would elect a replica after five seconds."""

    async def scenario(sim: Simulation) -> tuple[float, int]:
        transports = hang(sim, hung)
        await asyncio.sleep(2.0)
        sim.kill(primary(sim, 1).name)  # there is a status to write
        await asyncio.sleep(1.5)
        sim.write_on()
        old = primary(sim, 0).name
        sim.kill(old)
        leading = f"{DATABASE}-0-"
        waited = await wait_for(
            lambda: any(
                s.is_primary and s.name.startswith(leading) and s.name != old for s in mine(sim)
            )
        )
        count, transports[-1].hung = transports[-1].count, ""
        await asyncio.sleep(60.0)
        await sim.until_ready()
        sim.check_end()
        return waited, count

    waited, count = simulate(scenario, snapshot=formed(database()))
    assert count
    assert waited < 1.5


def labelled(sim: Simulation) -> set[str]:
    """Return the pods that the Service of the primary leads to."""
    found = sim.server.core.store.collection("pods").entries.values()
    return {pod.name for pod in found if pod.labels.get(ROLE_LABEL) == "primary"}


@pytest.mark.parametrize("hung", draw_some(HUNG, 2, name="hung, failover"))
def test_the_service_follows_the_primary_though_other_writes_get_no_answer(hung: str) -> None:
    async def scenario(sim: Simulation) -> tuple[float, int]:
        transports = hang(sim, hung)
        await asyncio.sleep(2.0)
        sim.kill(followers(sim)[0].name)
        await asyncio.sleep(1.5)
        old = leader(sim).name
        sim.kill(old)
        waited = await wait_for(lambda: not {*labelled(sim)} <= {old})
        count, transports[-1].hung = transports[-1].count, ""
        await asyncio.sleep(60.0)
        await sim.until_ready()
        assert is_whole(sim)
        sim.check_end()
        return waited, count

    waited, count = simulate(scenario, snapshot=formed(failover()))
    assert count
    assert waited < 1.5


def test_a_change_waits_until_its_objects_are_written() -> None:
    """Pods are not replaced, and none is taken away, by a spec that is not in the workloads."""

    async def scenario(sim: Simulation) -> None:
        transports = hang(sim, "/configmaps/")
        await asyncio.sleep(2.0)
        before = {p["metadata"]["name"]: p["metadata"]["uid"] for p in pods(sim)}
        await sim.change(replicas=0)
        await asyncio.sleep(40.0)
        assert {p["metadata"]["name"]: p["metadata"]["uid"] for p in pods(sim)} == before
        assert transports[-1].count
        transports[-1].hung = ""

        async def done() -> bool:
            return len(mine(sim)) == 3 and sim.is_ready(await sim.redis())

        await sim.until_all(done, within=180.0, what="three servers")
        sim.check_end()

    simulate(scenario, snapshot=formed(database()))


class FailingStatuses(HangingWrites):
    """A transport on which no status is written: each write is refused at once."""

    async def request(self, request: Request, *, timeout: float) -> Response:
        if self.hung and self.hung in request.path and request.method != "GET":
            self.count += 1
            raise NoAnswer("connection refused", host="simulation")
        return await self._transport.request(request, timeout=timeout)


MAKERS = {"Cluster": database(storage=False), "Failover": failover(storage=False)}


LOSSES = [(mode, how) for mode in MAKERS for how in (HangingWrites, FailingStatuses)]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "transport"), draw_some(LOSSES, 2, name="losses unwritten"))
def test_a_loss_is_recorded_though_no_status_could_be_written_when_it_happened(
    mode: str, transport: type[HangingWrites]
) -> None:
    """Once the servers serve again, empty, nothing shows any more that they had data. CL-31"""

    async def scenario(sim: Simulation) -> None:
        transports: list[HangingWrites] = []

        def wrap(inner: Transport) -> Transport:
            transports.append(transport(inner, ""))
            return transports[-1]

        sim.start_operator(wrap=wrap)
        await asyncio.sleep(3.0)
        sim.ledger.promised.clear()  # every key goes
        transports[-1].hung = f"/redis/{DATABASE}/status"
        for server in mine(sim):
            sim.kill(server.name)
        await asyncio.sleep(20.0)
        assert transports[-1].count
        transports[-1].hung = ""
        await sim.until_ready()
        found = await sim.found()
        assert found["status"]["lastDataLoss"]["action"].startswith("StartedEmpty")

    simulate(scenario, snapshot=formed(MAKERS[mode]))
