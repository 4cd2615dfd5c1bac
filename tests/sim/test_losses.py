"""Losses that were accepted, and losses that must not happen, with the whole operator."""

from __future__ import annotations

import asyncio

import pytest

from redis_operator.kube.patches import MergePatch
from redis_operator.local.controllers.caches import BUILT_IN_KINDS
from redis_operator.manifests.names import DATABASE_LABEL, SHARD_LABEL
from redis_operator.testing.simulation.scenarios import formed, primary
from redis_operator.testing.simulation.system import (
    DATABASE,
    NAMESPACE,
    Manifest,
    Simulation,
    database,
    simulate,
)

PODS = BUILT_IN_KINDS["pods"]


def _reason(found: Manifest, kind: str) -> str:
    conditions = found.get("status", {}).get("conditions") or ()
    return next((c.get("reason", "") for c in conditions if c["type"] == kind), "")


async def _lose_shard(simulation: Simulation, shard: int) -> None:
    """All pods of a shard go at once, and everything in their memory with them."""
    prefix = f"{DATABASE}-{shard}-"
    for server in simulation.world.servers.values():
        if server.name.startswith(prefix):
            for held in server.keys.values():
                for key in held:
                    simulation.ledger.promised.pop(key, None)
            await simulation.client.delete(PODS, (NAMESPACE, server.name), grace_seconds=0)


def test_shard_that_was_lost_serves_again_when_the_loss_is_accepted() -> None:
    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        await _lose_shard(simulation, 1)
        await simulation.until(
            lambda found: _reason(found, "Degraded") == "DataLost",
            within=60.0,
            what="reported as lost",
        )
        await simulation.change(update={"allowDataLoss": True})
        await simulation.until_ready(within=60.0)
        assert simulation.writer.write("k1")
        simulation.check_end()

    simulate(scenario, snapshot=formed(database(storage=False)))


async def _unlabel(simulation: Simulation, pod: str, label: str) -> None:
    change = MergePatch({"metadata": {"labels": {label: None}}})
    await simulation.client.patch(PODS, (NAMESPACE, pod), change)


@pytest.mark.parametrize("label", [DATABASE_LABEL, SHARD_LABEL])
@pytest.mark.parametrize("restart", [False, True], ids=["operator stays", "operator restarts"])
def test_primary_whose_label_is_removed_is_not_failed_over_and_gets_it_back(
    label: str, *, restart: bool
) -> None:
    async def scenario(simulation: Simulation) -> None:
        process = simulation.start_operator()
        await asyncio.sleep(3.0)
        writing = simulation.write_on()
        victim = primary(simulation, 0)
        await _unlabel(simulation, victim.name, label)
        if restart:
            process.die()

        async def is_labelled() -> bool:
            pod = await simulation.client.get(PODS, (NAMESPACE, victim.name))
            return label in pod["metadata"]["labels"]

        await simulation.until_all(is_labelled, within=15.0, what="labelled again")
        await simulation.until_ready(within=30.0)
        writing.cancel()
        await asyncio.sleep(1.0)
        simulation.check_end()
        failovers = [e for e in simulation.journal.effects if "FAILOVER" in e.kind]
        assert not failovers
        assert primary(simulation, 0) is victim
        assert simulation.ledger.excused == 0

    simulate(scenario, snapshot=formed(database()))
