"""An operator beside definitions of another version: it goes on, and writes nothing over and over.

While an installation is updated, or where somebody applied the definitions alone, the API server
drops fields that the operator writes, or knows some that the operator does not.
"""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import pytest

from kubecontroller.client.meta import Manifest
from kubelocal.controllers.engine.caches import BUILT_IN_KINDS
from redis_operator.api.crd import crds
from redis_testing.simulation.failover import failover
from redis_testing.simulation.mode_changes import standalone
from redis_testing.simulation.scenarios import formed, mine
from redis_testing.simulation.system import Simulation, database, simulate
from support.histories import draw_some

pytestmark = pytest.mark.timeout(300)
DATABASES: dict[str, Manifest] = {
    "Cluster": database(),
    "Failover": failover(),
    "Standalone": standalone(),
}
LATER = {"pods", "restore", "lastOperation", "lastDataLoss", "endpoints", "engine", "targetVersion"}


def redis_schema(definition: Manifest) -> dict[str, Any]:
    [version] = definition["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]
    return found


def older() -> Manifest:
    """The definition of an operator that told less."""
    definition = deepcopy(crds()["redis.yaml"])
    status = redis_schema(definition)["status"]["properties"]
    assert status.keys() >= LATER
    for name in LATER:
        del status[name]
    definition["spec"]["versions"][0].pop("additionalPrinterColumns", None)
    return definition


def newer() -> Manifest:
    """The definition of an operator that will know more, and fills in what it chooses."""
    definition = deepcopy(crds()["redis.yaml"])
    known = redis_schema(definition)
    known["spec"]["properties"]["tomorrow"] = {
        "type": "object",
        "default": {},
        "properties": {"level": {"type": "string", "default": "high"}},
    }
    known["status"]["properties"]["tomorrow"] = {"type": "string"}
    return definition


async def live(simulation: Simulation, definition: Manifest, manifest: Manifest) -> Manifest:
    """Create a database, kill a primary, and see that nothing is written at rest."""
    await simulation.client.apply(BUILT_IN_KINDS["customresourcedefinitions"], definition)
    simulation.start_operator()
    await simulation.apply(manifest)
    await simulation.until_ready()
    simulation.writer.fill()
    simulation.kill(next(s.name for s in mine(simulation) if s.is_primary))
    await asyncio.sleep(5.0)
    await simulation.until_ready()
    await asyncio.sleep(150.0)  # primaries are spread over the nodes again by then
    simulation.check_end()
    before = len(simulation.journal.effects)
    await asyncio.sleep(60.0)
    written = [str(effect) for effect in simulation.journal.effects[before:]]
    assert written == []
    return await simulation.redis()


@pytest.mark.parametrize("kind", draw_some(DATABASES, 1, name="definitions"))
def test_an_operator_whose_status_is_not_all_kept_serves_and_rests(kind: str) -> None:
    found = simulate(lambda s: live(s, older(), DATABASES[kind]))
    assert "pods" not in found["status"]
    assert found["status"]["phase"] == "Ready"


def test_an_operator_leaves_fields_alone_that_it_does_not_know() -> None:
    found = simulate(lambda s: live(s, newer(), database()))
    assert found["spec"]["tomorrow"] == {"level": "high"}


@pytest.mark.slow
def test_definitions_that_come_while_it_runs_change_nothing_of_a_database() -> None:
    async def run(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        uids = {pod: kept.uid for pod, kept in simulation.kubelet.kept.items()}
        for definition in (older(), newer(), deepcopy(crds()["redis.yaml"])):
            await simulation.client.apply(BUILT_IN_KINDS["customresourcedefinitions"], definition)
            await asyncio.sleep(20.0)
            await simulation.until_ready()
        assert {pod: kept.uid for pod, kept in simulation.kubelet.kept.items()} == uids
        await asyncio.sleep(660.0)
        assert (await simulation.redis())["status"]["pods"], "definitions that came are noticed"

    simulate(run, snapshot=formed(database()))
