"""Several operators, one of which leads: it dies, is cut off from the API, is asked to stop.

The next one goes on where it was; only one acts at a time; the end is the same, and nothing that
was acknowledged is lost. K-30
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from kubecontroller.client.errors import NoAnswer
from kubecontroller.client.request import Request, Response
from kubecontroller.client.transport import Transport
from redis_testing.simulation.catalog import SCENARIOS
from redis_testing.simulation.crashes import reference
from redis_testing.simulation.election import Elections
from redis_testing.simulation.process import PROCESS
from redis_testing.simulation.scenarios import formed, play
from redis_testing.simulation.summary import summary
from redis_testing.simulation.system import Simulation, database, simulate
from support.histories import draw_some

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
CHANGES = ["primary killed", "scale out", "setting that needs a restart", "upgrade"]
LEASE_SECONDS = 15.0


@dataclass
class Cable:
    """The way of processes to the API server, which can be pulled out of one of them."""

    pulled: str = ""

    def wrap(self, transport: Transport) -> Transport:
        return CableTransport(transport, self)

    def is_out(self) -> bool:
        process = PROCESS.get()
        return process is not None and process.name == self.pulled


class CableTransport:
    def __init__(self, transport: Transport, cable: Cable) -> None:
        self._transport = transport
        self._cable = cable

    async def request(self, request: Request, *, timeout: float) -> Response:
        await self._pass(timeout)
        return await self._transport.request(request, timeout=timeout)

    def stream(
        self, request: Request, *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._stream(request, idle)

    @asynccontextmanager
    async def _stream(self, request: Request, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        await self._pass(idle)
        async with self._transport.stream(request, idle=idle) as chunks:
            yield self._heard(chunks)

    async def _heard(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            await self._pass(1e9)
            yield chunk

    async def _pass(self, timeout: float) -> None:
        if self._cable.is_out():
            await asyncio.sleep(timeout)
            raise NoAnswer(f"no answer within {timeout:g} s", host="simulation")

    async def close(self) -> None:
        await self._transport.close()


def played(name: str, trouble: Any, *, seed: int) -> dict[str, Any]:
    """Play a scenario by two operators that run for leader, with trouble for them meanwhile."""
    scenario = BY_NAME[name]
    snapshot = formed(scenario.base) if scenario.base is not None else None

    async def run(simulation: Simulation) -> dict[str, Any]:
        simulation.patience = 3.0
        elections = Elections(simulation)
        await elections.prepare()
        cable = Cable()
        simulation.wrap = cable.wrap
        simulation.start_operator("standby")
        simulation.spawn(trouble(simulation, elections, cable))
        await play(simulation, scenario)
        assert elections.leader
        return summary(simulation, exact_slots=scenario.exact_slots)

    print(f"seed {seed}")
    return simulate(run, seed=seed, snapshot=snapshot)


async def leader_dies(simulation: Simulation, elections: Elections, _: Cable) -> None:
    await asyncio.sleep(4.0 + simulation.seed % 7 * 0.1)
    elections.process(elections.leader).die()


async def leader_stops(simulation: Simulation, elections: Elections, _: Cable) -> None:
    await asyncio.sleep(4.0 + simulation.seed % 7 * 0.1)
    elections.stop(elections.leader)


async def leader_is_cut_off(simulation: Simulation, elections: Elections, cable: Cable) -> None:
    """It still reaches the servers, and comes back when another has led for a while."""
    await asyncio.sleep(4.0 + simulation.seed % 7 * 0.1)
    simulation.journal.is_hindered = True
    cable.pulled = elections.leader
    await asyncio.sleep(60.0)
    cable.pulled = ""


TROUBLES = (leader_dies, leader_stops, leader_is_cut_off)


def the_same(name: str, trouble: Any) -> None:
    seed = 31 + CHANGES.index(name)
    assert played(name, trouble, seed=seed) == reference(BY_NAME[name], seed=seed).end


LED = (
    ("primary killed", leader_dies),
    ("scale out", leader_is_cut_off),
    ("upgrade", leader_stops),
)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "trouble"), draw_some(LED, 1, name="elections"))
def test_another_goes_on_where_the_leader_was(name: str, trouble: Any) -> None:
    the_same(name, trouble)


@pytest.mark.campaign
@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("name", CHANGES)
def test_another_goes_on_wherever_the_leader_was(name: str, trouble: Any) -> None:
    the_same(name, trouble)


def test_who_is_cut_off_from_the_api_does_nothing_after_its_lease_is_over() -> None:
    """It reaches the servers; a primary dies while another has taken over."""

    async def run(simulation: Simulation) -> None:
        elections = Elections(simulation)
        await elections.prepare()
        cable = Cable()
        simulation.wrap = cable.wrap
        simulation.start_operator()
        simulation.start_operator()
        await asyncio.sleep(5.0)
        old = elections.leader
        cable.pulled = old
        simulation.journal.is_hindered = True
        await asyncio.sleep(2 * LEASE_SECONDS)
        assert elections.leader not in ("", old)
        seen = len(simulation.journal.effects)
        primary = next(s.name for s in simulation.world.servers.values() if s.is_primary)
        simulation.kill(primary)
        await asyncio.sleep(5.0)
        await simulation.until_ready()
        assert {each.process for each in simulation.journal.effects[seen:]} == {elections.leader}

    simulate(run, seed=40, snapshot=formed(database()))
