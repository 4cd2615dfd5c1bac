"""Modes Standalone and Failover turn into each other with the data, while clients write."""

from __future__ import annotations

import os

import pytest

from kubecontroller.client.meta import Manifest
from kubecontroller.client.request import Request
from kubecontroller.testing.faults import FaultyTransport, NoFaults, StreamFault
from kubecontroller.testing.seeds import derive
from kubelocal.controllers.engine.caches import BUILT_IN_KINDS
from redis_testing.simulation.crashes import reference, spread, strike_at_each
from redis_testing.simulation.failover import failover, is_whole, leader, servers
from redis_testing.simulation.mode_changes import MODE_CHANGES
from redis_testing.simulation.process import Strike
from redis_testing.simulation.scenarios import Scenario, formed, play
from redis_testing.simulation.system import Simulation, simulate
from support.histories import ALL, draw_some


def drawn() -> list[Scenario]:
    found = sorted(MODE_CHANGES, key=lambda scenario: derive(f"chosen {scenario}"))
    return found if ALL else found[:3]


@pytest.mark.slow
@pytest.mark.parametrize("scenario", drawn(), ids=str)
def test_the_end_is_as_it_must_be(scenario: Scenario) -> None:
    assert reference(scenario, seed=int(os.environ["SEED"]) % 1000).end


STRUCK = (MODE_CHANGES[1], MODE_CHANGES[3])


@pytest.mark.slow
@pytest.mark.parametrize("scenario", draw_some(STRUCK, 1, name="mode changes"), ids=str)
def test_the_end_is_the_same_after_a_strike_at_some_effects(scenario: Scenario) -> None:
    known = reference(scenario)
    points = spread(range(len(known.effects)), 16)[:-1]
    blows = [(point, strike) for point in points for strike in Strike]
    told: dict[tuple[int, Strike], str] = {}
    strike_at_each(known, draw_some(blows, 3, name=f"strikes {scenario}"), told.__setitem__)
    assert [problem for problem in told.values() if problem] == []


class WorkloadsSeenLate(NoFaults):
    """Every watch of StatefulSets shows changes seconds after they were made."""

    def stream(self, request: Request, number: int) -> StreamFault | None:
        del number
        return StreamFault.LATE if request.path.endswith("/statefulsets") else None


@pytest.mark.parametrize("number", [2, 3], ids=lambda n: str(MODE_CHANGES[n]))
def test_the_pod_that_stays_is_replaced_before_the_others_go_whatever_caches_show(
    number: int,
) -> None:
    """Its template was just written: by the old one it seems to be as it should."""

    async def run(simulation: Simulation) -> None:
        simulation.wrap = lambda transport: FaultyTransport(transport, WorkloadsSeenLate())
        await play(simulation, MODE_CHANGES[number])

    base = MODE_CHANGES[number].base
    assert base is not None
    simulate(run, snapshot=formed(base))


def test_a_change_to_mode_cluster_that_comes_past_the_api_server_touches_nothing() -> None:
    """The rule of the definition was taken away; the operator knows what the database was."""

    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        definitions = BUILT_IN_KINDS["customresourcedefinitions"]
        found = await simulation.client.get(definitions, ("", "redis.redisoperator.dev"))
        schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"].pop("x-kubernetes-validations")
        found["metadata"].pop("managedFields", None)
        await simulation.client.replace(definitions, found)
        writing = simulation.write_on()
        await simulation.change(mode="Cluster", shards=3, replicas=1)

        def told(found: Manifest) -> bool:
            conditions = (found.get("status") or {}).get("conditions") or ()
            return any("spec.mode: a database changes" in c["message"] for c in conditions)

        await simulation.until(told, within=30.0, what="told")
        simulation.kill(leader(simulation).name)

        async def healed() -> bool:
            return len(servers(simulation)) == 3 and is_whole(simulation)

        await simulation.until_all(healed, within=60.0, what="whole in its old mode")
        writing.cancel()
        simulation.check_end()

    simulate(scenario, snapshot=formed(failover()))
