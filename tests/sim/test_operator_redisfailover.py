"""A RedisFailover in simulation: it becomes a database, follows it, and survives its operator."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubecontroller.client.meta import Manifest
from redis_operator.operator.world import REDIS_FAILOVERS
from redis_testing.simulation.system import DATABASE, NAMESPACE, Simulation, is_ready, simulate

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine
KEY = (NAMESPACE, DATABASE)


def redisfailover(**redis: Any) -> Manifest:
    return {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "RedisFailover",
        "metadata": {"name": DATABASE, "namespace": NAMESPACE},
        "spec": {"redis": {"image": "valkey/valkey:8.1.1", **redis}},
    }


async def apply(simulation: Simulation, manifest: Manifest) -> None:
    await simulation.client.apply(REDIS_FAILOVERS, manifest, manager="kubectl")


async def found(simulation: Simulation) -> Manifest:
    return await simulation.client.get(REDIS_FAILOVERS, KEY)


async def until_ready(simulation: Simulation) -> Manifest:
    async def ready() -> bool:
        return is_ready(await found(simulation))

    await simulation.until_all(ready, within=180.0, what="the RedisFailover is ready")
    return await found(simulation)


def test_it_becomes_a_database_and_shows_its_status() -> None:
    async def play(simulation: Simulation) -> None:
        simulation.start_operator()
        await apply(simulation, redisfailover())
        status = (await until_ready(simulation))["status"]
        redis = await simulation.redis()
        assert redis["spec"]["mode"] == "Failover"
        assert redis["spec"]["replicas"] == 2
        assert status["ready"] == "3/3"
        assert status["phase"] == "Ready"
        assert status["primary"] == redis["status"]["primary"]
        assert status["endpoints"] == redis["status"]["endpoints"]
        await asyncio.sleep(11)
        seen = len(simulation.journal.effects)
        await asyncio.sleep(40)
        assert len(simulation.journal.effects) == seen  # at rest nothing is written

    simulate(play)
