"""One server in mode Standalone, with the whole operator over a simulated world."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubelocal.controllers.engine.caches import BUILT_IN_KINDS
from redis_operator.planning.advice import ACCEPT_LOSS
from redis_testing.cluster.wire import answer
from redis_testing.simulation.system import (
    DATABASE,
    NAMESPACE,
    Manifest,
    Simulation,
    database,
    simulate,
)

POD = f"{DATABASE}-0"
PODS, CLAIMS = BUILT_IN_KINDS["pods"], BUILT_IN_KINDS["persistentvolumeclaims"]


def alone(*, storage: bool, **spec: Any) -> Manifest:
    found = database(storage=storage, **spec)
    found["spec"] |= {"mode": "Standalone", "shards": 1, "replicas": 0}
    return found


class Client:
    """Writes keys and knows which were acknowledged."""

    def __init__(self, simulation: Simulation) -> None:
        self._world = simulation.world
        self.acknowledged: list[str] = []

    def write(self, count: int) -> None:
        server = self._world.servers[POD]
        for _ in range(count):
            key = f"key-{len(self.acknowledged)}"
            assert answer(self._world, server, ["SET", key, "1"]) == b"OK"
            self.acknowledged.append(key)

    def lost(self) -> list[str]:
        server = self._world.servers[POD]
        return [k for k in self.acknowledged if answer(self._world, server, ["GET", k]) != b"1"]


async def _created(simulation: Simulation, wanted: Manifest) -> Client:
    simulation.start_operator()
    await simulation.apply(wanted)
    await simulation.until_ready(within=60.0)
    client = Client(simulation)
    client.write(20)
    return client


def _loss(found: Manifest) -> Manifest | None:
    return (found.get("status") or {}).get("lastDataLoss")


async def _started_after(simulation: Simulation, moment: float) -> None:
    async def again() -> bool:
        server = simulation.world.servers[POD]
        return server.alive and server.started_at > moment

    await simulation.until_all(again, within=120.0, what="restarted")
    await simulation.until_ready(within=120.0)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "deleted", "deleted at once"])
@pytest.mark.parametrize("storage", [True, False], ids=["stored", "in memory"])
def test_a_server_that_ended_comes_back_and_what_was_lost_is_told(
    how: str, *, storage: bool
) -> None:
    async def scenario(simulation: Simulation) -> None:
        client = await _created(simulation, alone(storage=storage))
        moment = simulation.world.now
        if how == "killed":
            simulation.kubelet.kill(POD)
        else:
            grace = 0 if how == "deleted at once" else None
            await simulation.client.delete(PODS, (NAMESPACE, POD), grace_seconds=grace)
        await _started_after(simulation, moment)
        if storage:
            assert client.lost() == []
            assert _loss(await simulation.found()) is None
            return
        assert client.lost()
        await simulation.until(lambda found: _loss(found) is not None, within=10.0, what="told")
        loss = _loss(await simulation.found())
        assert loss is not None
        assert loss["action"].startswith("StartedEmpty")

    simulate(scenario)


def test_a_loss_is_told_by_the_next_operator_when_none_was_there() -> None:
    async def scenario(simulation: Simulation) -> None:
        simulation.restarts = False
        operator = simulation.start_operator()
        await simulation.apply(alone(storage=False))
        await simulation.until_ready(within=60.0)
        operator.die()
        moment = simulation.world.now
        await simulation.client.delete(PODS, (NAMESPACE, POD))
        await asyncio.sleep(30.0)
        assert simulation.world.servers[POD].started_at > moment
        simulation.start_operator()
        await simulation.until(lambda found: _loss(found) is not None, within=10.0, what="told")

    simulate(scenario)


def test_settings_are_applied_live_or_with_a_restart_that_loses_nothing() -> None:
    async def scenario(simulation: Simulation) -> None:
        client = await _created(simulation, alone(storage=True))
        server = simulation.world.servers[POD]
        moment = server.started_at
        await simulation.change(config={"maxmemory-policy": "allkeys-lru"})
        await simulation.until_ready(within=60.0)
        assert server.config["maxmemory-policy"] == "allkeys-lru"
        assert server.started_at == moment
        client.write(20)
        await simulation.change(config={"maxmemory-policy": "allkeys-lru", "databases": "4"})
        await _started_after(simulation, moment)
        assert server.config["databases"] == "4"
        assert client.lost() == []

    simulate(scenario)


def test_a_restart_in_memory_waits_for_the_loss_to_be_accepted() -> None:
    async def scenario(simulation: Simulation) -> None:
        client = await _created(simulation, alone(storage=False))
        moment = simulation.world.servers[POD].started_at
        await simulation.change(config={"databases": "4"})
        await asyncio.sleep(30.0)
        assert simulation.world.servers[POD].started_at == moment
        assert client.lost() == []
        await simulation.annotate(**{ACCEPT_LOSS: "restart"})
        await _started_after(simulation, moment)
        await simulation.until(
            lambda found: ACCEPT_LOSS not in (found["metadata"].get("annotations") or {}),
            within=30.0,
            what="used up",
        )

    simulate(scenario)


@pytest.mark.slow
def test_a_volume_that_was_lost_is_held_until_the_loss_is_accepted() -> None:
    async def scenario(simulation: Simulation) -> None:
        await _created(simulation, alone(storage=True))
        await simulation.client.delete(CLAIMS, (NAMESPACE, f"data-{POD}"))
        await simulation.client.delete(PODS, (NAMESPACE, POD))
        await simulation.until(
            lambda found: (_loss(found) or {}).get("action", "").startswith("Held"),
            within=120.0,
            what="held",
        )
        await asyncio.sleep(30.0)
        assert not simulation.world.servers[POD].alive
        await simulation.annotate(**{ACCEPT_LOSS: "all"})
        await simulation.until_ready(within=120.0)
        assert simulation.world.servers[POD].key_count == 0

    simulate(scenario)


def test_a_replica_of_a_server_elsewhere_is_promoted_as_the_status_advises() -> None:
    """Neither `default` nor `admin` may run REPLICAOF."""

    async def scenario(simulation: Simulation) -> None:
        client = await _created(simulation, alone(storage=True))
        server = simulation.world.servers[POD]
        assert answer(simulation.world, server, ["REPLICAOF", "10.9.9.9", "6379"]) == b"OK"
        advice = f"kubectl annotate redis {DATABASE} --overwrite {ACCEPT_LOSS}=source"
        await simulation.until(
            lambda found: advice in found["status"]["message"], within=60.0, what="advised"
        )
        await asyncio.sleep(30.0)
        assert not server.is_primary
        await simulation.annotate(**{ACCEPT_LOSS: "source"})
        await simulation.until_ready(within=60.0)
        assert server.is_primary
        assert client.lost() == []
        await simulation.until(
            lambda found: ACCEPT_LOSS not in (found["metadata"].get("annotations") or {}),
            within=30.0,
            what="used up",
        )

    simulate(scenario)
