"""A database follows a server elsewhere and is promoted, with strikes at some effects.

`make seeds` strikes at more of them.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from kubecontroller.client.meta import Manifest
from kubecontroller.testing.seeds import derive
from redis_operator.operator.world import REDISES
from redis_testing.cluster.state import Server
from redis_testing.simulation.crashes import reference, spread, strike_at_each
from redis_testing.simulation.failover import failover, servers
from redis_testing.simulation.process import Strike
from redis_testing.simulation.scenarios import Scenario, formed
from redis_testing.simulation.sources import SOURCE_SCENARIOS, elsewhere, source_of, write
from redis_testing.simulation.summary import is_gone
from redis_testing.simulation.system import DATABASE, NAMESPACE, Simulation, simulate
from support.histories import ALL, draw_some


def drawn() -> list[Scenario]:
    found = sorted(SOURCE_SCENARIOS, key=lambda scenario: derive(f"chosen {scenario}"))
    return found if ALL else found[:4]


@pytest.mark.slow
@pytest.mark.parametrize("scenario", drawn(), ids=str)
def test_the_end_is_as_it_must_be(scenario: Scenario) -> None:
    assert reference(scenario, seed=int(os.environ["SEED"]) % 1000).end


@pytest.mark.slow
@pytest.mark.parametrize("scenario", draw_some(SOURCE_SCENARIOS[:2], 1, name="sources"), ids=str)
def test_the_end_is_the_same_after_a_strike_at_some_effects(scenario: Scenario) -> None:
    known = reference(scenario)
    points = spread(range(len(known.effects)), 16)[:-1]
    told: dict[tuple[int, Strike], str] = {}
    blows = draw_some([(p, s) for p in points for s in Strike], 3, name=f"strikes {scenario}")
    strike_at_each(known, blows, told.__setitem__)
    assert [problem for problem in told.values() if problem] == []


@pytest.mark.slow
def test_volumes_with_data_of_their_own_are_never_emptied_for_a_server_elsewhere() -> None:
    """The database was deleted, its volumes stayed, and it is created again with a source."""

    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        elsewhere(simulation)
        write(simulation)
        await simulation.client.delete(REDISES, (NAMESPACE, DATABASE))

        async def gone() -> bool:
            return is_gone(simulation)

        await simulation.until_all(gone, within=120.0, what="deleted")
        await simulation.apply(kept(bootstrap=await source_of(simulation)))

        def told(found: Manifest) -> bool:
            lines = (found.get("status") or {}).get("plan") or ()
            return any("keys that it would lose" in line for line in lines)

        await simulation.until(told, within=120.0, what="told")
        await asyncio.sleep(60.0)
        assert not any(has_one(server) for server in servers(simulation))
        await simulation.change(bootstrap=None)
        await simulation.annotate(**{"redisoperator.dev/switch-primary-to": f"{DATABASE}-0"})
        await simulation.until_ready()
        simulation.check_end()

    simulate(scenario, snapshot=formed(kept()))


def test_a_setting_that_servers_refuse_does_not_end_a_copy() -> None:
    """Steps without effect are held back; that leaves no turn to rules that choose a primary."""

    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        elsewhere(simulation)
        write(simulation)
        source = await source_of(simulation)
        await simulation.apply(failover(bootstrap=source, config={"proc-title-template": ""}))
        await asyncio.sleep(120.0)
        assert not any(server.is_primary for server in servers(simulation))
        await simulation.change(config=None)
        await simulation.until(
            lambda found: found["status"]["phase"] == "Following", within=60.0, what="following"
        )
        assert all(has_one(server) for server in servers(simulation))

    simulate(scenario)


def kept(**spec: Any) -> Manifest:
    return failover(deletion={"policy": "Retain"}, **spec)


def has_one(server: Server) -> bool:
    return any(key.startswith("old-") for held in server.keys.values() for key in held)
