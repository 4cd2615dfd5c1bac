"""Losses that were accepted, and losses that must not happen, with the whole operator."""

from __future__ import annotations

import asyncio

import pytest

from kubecontroller.client.patches import MergePatch
from kubelocal.controllers.engine.caches import BUILT_IN_KINDS
from redis_operator.manifests.names import DATABASE_LABEL, SHARD_LABEL
from redis_operator.planning.advice import ACCEPT_LOSS
from redis_testing.simulation.failover import DURABLE, FAILOVER_SCENARIOS, failover
from redis_testing.simulation.scenarios import formed, primary, until_over
from redis_testing.simulation.system import (
    DATABASE,
    NAMESPACE,
    Manifest,
    Simulation,
    database,
    simulate,
)

PODS = BUILT_IN_KINDS["pods"]
CUT_OFF = "failover: primary cut off from all"
MAX_LAG_SECONDS = 10  # of a replica that is counted by minReplicasToWrite, if nothing else is said


def _reason(found: Manifest, kind: str) -> str:
    conditions = found.get("status", {}).get("conditions") or ()
    return next((c.get("reason", "") for c in conditions if c["type"] == kind), "")


def _status(found: Manifest, kind: str) -> str:
    conditions = found.get("status", {}).get("conditions") or ()
    return next((c["status"] for c in conditions if c["type"] == kind), "")


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
        await simulation.annotate(**{ACCEPT_LOSS: "5461-10921"})
        await simulation.until_ready(within=60.0)
        annotations = (await simulation.found())["metadata"].get("annotations") or {}
        assert ACCEPT_LOSS not in annotations, "it must be good for one loss"
        assert simulation.writer.write("k1")
        simulation.check_end()

    simulate(scenario, snapshot=formed(database(storage=False, durability={"onDataLoss": "Hold"})))


@pytest.mark.slow
def test_a_replica_that_was_down_when_its_primary_lost_everything_learns_who_owns_its_slots() -> (
    None
):
    """It comes back with a map in which the dead primary owns them, by a higher epoch. CL-32"""

    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        _forget_promises(simulation, (2,))
        simulation.kill(f"{DATABASE}-2-1")
        await asyncio.sleep(1.0)
        simulation.kill(f"{DATABASE}-2-1")  # now it is not restarted at once
        simulation.kill(f"{DATABASE}-2-0")
        await asyncio.sleep(5.0)
        await simulation.until_ready(within=120.0)
        loss = (await simulation.found())["status"]["lastDataLoss"]
        assert loss["slots"] == "10922-16383"
        simulation.kill(primary(simulation, 2).name)  # its replica knows what to take over
        await asyncio.sleep(10.0)
        await simulation.until_ready(within=60.0)
        simulation.check_end()

    simulate(scenario, snapshot=formed(database(storage=False)))


def _forget_promises(simulation: Simulation, shards: tuple[int, ...]) -> None:
    """What a shard held in memory is lost with it: nothing that a client was promised there."""
    for server in simulation.world.servers.values():
        if server.name.startswith(tuple(f"{DATABASE}-{shard}-" for shard in shards)):
            for held in server.keys.values():
                for key in held:
                    simulation.ledger.promised.pop(key, None)


@pytest.mark.parametrize("shards", [(0, 1, 2), (1,)], ids=["every server", "one shard"])
def test_containers_in_memory_that_end_at_once_serve_every_slot_again_and_the_loss_is_recorded(
    shards: tuple[int, ...],
) -> None:
    """CL-31, CL-32"""

    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        _forget_promises(simulation, shards)
        for shard in shards:
            for ordinal in (0, 1):
                simulation.kill(f"{DATABASE}-{shard}-{ordinal}")

        def honest(found: Manifest) -> bool:
            status = found.get("status", {})
            if status.get("slots") != "16384/16384":
                assert _status(found, "Degraded") == "True", status
            return bool(status.get("lastDataLoss")) and _status(found, "Ready") == "True"

        await asyncio.sleep(1.0)
        await simulation.until(honest, within=60.0, what="served again")
        loss = (await simulation.found())["status"]["lastDataLoss"]
        assert loss["slots"] == ("5461-10921" if shards == (1,) else "0-16383")
        assert loss["time"]
        assert loss["action"].startswith("StartedEmpty")
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


def _last_lost(manifest: Manifest) -> float:
    """Let the sentinels replace a primary that is cut off while the operator is away.

    Returns how long after the cut a write was last acknowledged that is gone in the end.
    """

    async def run(simulation: Simulation) -> float:
        simulation.journal.is_hindered = True
        writing = simulation.write_on()
        began = simulation.world.now
        scenario = next(s for s in FAILOVER_SCENARIOS if s.name == CUT_OFF)
        await scenario.act(simulation)
        await asyncio.sleep(5.0)
        simulation.start_operator()
        await until_over(simulation, scenario)
        writing.cancel()
        simulation.check_end()
        return simulation.ledger.excused_at - began

    return simulate(run, seed=1, snapshot=formed(manifest))


def test_what_a_primary_takes_that_was_cut_off_is_lost_unless_replicas_must_have_it() -> None:
    """SE-11. It is cut off for 22 seconds, and sentinels demote it up to ten seconds later."""
    assert _last_lost(failover()) > 25
    assert _last_lost(DURABLE) <= MAX_LAG_SECONDS
