"""Two operators at once, caches that lie, an API that stumbles, an operator that was away.

The end is the same as without any of it, and nothing acknowledged is lost. K-07, K-09, K-10, K-17,
K-26, CL-23
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from kubecontroller.client.errors import NotFound
from kubecontroller.client.request import Request
from kubecontroller.testing.faults import FaultyTransport, NoFaults, Seeded, StreamFault
from redis_operator.operator.world import CHILD_KINDS, REDISES
from redis_testing.cluster import verbs
from redis_testing.simulation.catalog import SCENARIOS
from redis_testing.simulation.crashes import reference
from redis_testing.simulation.histories import stumbling
from redis_testing.simulation.scenarios import formed, play
from redis_testing.simulation.summary import summary
from redis_testing.simulation.system import (
    DATABASE,
    NAMESPACE,
    Simulation,
    database,
    simulate,
)

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine

SWITCH_ANNOTATION = "redisoperator.dev/switch-primary-to"
BRIEFLY = ("create", "primary killed")
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def played(name: str, prepare: Any, *, seed: int) -> dict[str, Any]:
    scenario = BY_NAME[name]
    snapshot = formed(scenario.base) if scenario.base is not None else None

    async def run(simulation: Simulation) -> dict[str, Any]:
        prepare(simulation)
        await play(simulation, scenario)
        return summary(simulation, exact_slots=scenario.exact_slots)

    print(f"seed {seed}")
    return simulate(run, seed=seed, snapshot=snapshot)


def a_second_operator(simulation: Simulation) -> None:
    simulation.start_operator("second")


class PodsUnseen(NoFaults):
    """Every watch of pods and claims loses changes again and again."""

    def stream(self, request: Request, number: int) -> StreamFault | None:
        del number
        lossy = request.path.endswith(("/pods", "/persistentvolumeclaims"))
        return StreamFault.DROPPED if lossy else None


def never_seeing_pods_go(simulation: Simulation) -> None:
    simulation.wrap = lambda transport: FaultyTransport(transport, PodsUnseen())


def with_a_clock_that_jumps(simulation: Simulation) -> None:
    """An hour ahead, an hour behind, and back again, every few seconds."""

    async def jump() -> None:
        for skew in (3600.0, -3600.0, 0.0) * 40:
            await asyncio.sleep(3.7)
            simulation.skew = skew

    simulation.spawn(jump())


TROUBLES = (a_second_operator, stumbling, never_seeing_pods_go, with_a_clock_that_jumps)


def the_same(name: str, prepare: Any, *, seed: int) -> None:
    """Compare the end with that of a run in which nothing went wrong."""
    assert played(name, prepare, seed=seed) == reference(BY_NAME[name], seed=seed).end


@pytest.mark.parametrize("name", ["fewer replicas"])
def test_volumes_go_although_nobody_sees_the_pods_go(name: str) -> None:
    """K-09: the deletions are among the changes that are lost."""
    the_same(name, never_seeing_pods_go, seed=8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["create", "primary killed"])
def test_a_clock_that_jumps_by_hours_changes_nothing(name: str) -> None:
    """K-26."""
    the_same(name, with_a_clock_that_jumps, seed=9)


def test_a_clock_that_jumps_makes_nobody_act_on_a_database_at_rest() -> None:
    """K-26."""

    async def run(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(20.0)
        seen = len(simulation.journal.effects)
        for skew in (3600.0, -3600.0, 86400.0, 0.0):
            simulation.skew = skew
            await asyncio.sleep(15.0)
        assert simulation.journal.effects[seen:] == []

    simulate(run, seed=10, snapshot=formed(database()))


@pytest.mark.parametrize("seed", [20, 21])
def test_of_two_who_ask_for_a_failover_one_wins_and_nothing_is_lost(seed: int) -> None:
    """CL-23: somebody else asks another replica while the operator asks one. No FORCE race."""

    async def run(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        writing = simulation.write_on()
        await asyncio.sleep(2.0)
        shard = [simulation.world.servers[f"{DATABASE}-0-{n}"] for n in range(3)]
        old = next(s for s in shard if s.is_primary)
        others = [s for s in shard if s is not old]
        if seed % 2:
            simulation.kill(old.name)
            await asyncio.sleep(0.002 * (seed - 20))
        else:
            await simulation.annotate(**{SWITCH_ANNOTATION: others[0].name})
            await asyncio.sleep(0.01)
        with suppress(verbs.RefusalError):
            verbs.failover(simulation.world, others[1], "FORCE" if seed % 2 else "")
        await asyncio.sleep(5.0)
        await simulation.until_ready()
        writing.cancel()
        await asyncio.sleep(15.0)
        assert [s.is_primary for s in shard].count(True) == 1
        assert len({s.me.epoch for s in simulation.world.servers.values() if s.is_primary}) == 3
        simulation.check_end()

    simulate(run, seed=seed, snapshot=formed(database(replicas=2)))


@pytest.mark.slow
@pytest.mark.parametrize("name", BRIEFLY)
def test_two_operators_at_once_come_to_the_same_end(name: str) -> None:
    the_same(name, a_second_operator, seed=3)


@pytest.mark.campaign
@pytest.mark.timeout(7200)
def test_a_creation_ends_well_however_its_caches_lie() -> None:
    for seed in range(200):
        the_same("create", stumbling, seed=seed)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("prepare", TROUBLES, ids=lambda p: p.__name__)
@pytest.mark.parametrize("name", BY_NAME)
def test_every_scenario_comes_to_the_same_end_in_company_and_in_confusion(
    name: str, prepare: Any
) -> None:
    for seed in range(3, 8):
        the_same(name, prepare, seed=seed)


def test_an_operator_that_was_away_adopts_the_primary_it_finds() -> None:
    """K-17: while nobody looks the engine fails over by itself; nobody is put back."""

    async def run(simulation: Simulation) -> None:
        simulation.write_on()
        await asyncio.sleep(2.0)
        old, copy = (simulation.world.servers[f"{DATABASE}-0-{n}"] for n in (0, 1))
        old, copy = (old, copy) if old.is_primary else (copy, old)
        simulation.kill(old.name)
        await asyncio.sleep(30.0)
        assert copy.is_primary
        simulation.start_operator()
        await asyncio.sleep(5.0)
        await simulation.until_ready()
        await asyncio.sleep(15.0)
        assert copy.is_primary
        assert old.me.replica_of == copy.id
        assert not [e for e in simulation.journal.effects if "FAILOVER" in e.kind]
        simulation.check_end()

    as_it_is = database(update={"balancePrimaries": False})
    simulate(run, seed=4, snapshot=formed(as_it_is))


def test_a_database_recreated_under_an_old_name_is_not_taken_for_the_old_one() -> None:
    """K-07: the caches still show the old one, with its deletion, when the new one is there."""

    async def run(simulation: Simulation) -> None:
        simulation.wrap = lambda transport: FaultyTransport(
            transport, Seeded(5, {StreamFault.LATE: 1.0})
        )
        simulation.start_operator()
        await asyncio.sleep(40.0)
        old = await simulation.redis()
        simulation.ledger.promised.clear()
        await simulation.client.delete(REDISES, (NAMESPACE, DATABASE))
        while True:
            try:
                await simulation.redis()
            except NotFound:
                break
            await asyncio.sleep(0.05)
        await simulation.apply(database())
        await simulation.until_ready(within=600.0)
        assert (await simulation.redis())["metadata"]["uid"] != old["metadata"]["uid"]
        simulation.writer.fill()
        await asyncio.sleep(60.0)
        await simulation.until_ready()
        simulation.check_end()

    simulate(run, seed=5, snapshot=formed(database()))


def test_a_database_at_rest_is_looked_at_and_nothing_is_written() -> None:
    async def run(simulation: Simulation) -> None:
        before = await versions(simulation)
        simulation.start_operator()
        await asyncio.sleep(5.0)
        seen = simulation.journal.effects[:]
        assert {effect.kind.partition(" ")[0] for effect in seen} == {"api"}
        await asyncio.sleep(60.0)
        assert simulation.journal.effects == seen, "each object is applied once, then nothing is"
        assert await versions(simulation) == before, "an apply that changes nothing writes nothing"

    async def versions(simulation: Simulation) -> list[str]:
        kinds = [kind for (_, name), kind in CHILD_KINDS.items() if name != "StatefulSet"]
        pages = [await simulation.client.list(kind, namespace=NAMESPACE) for kind in kinds]
        return [item.metadata.resource_version for page in pages for item in page.items]

    simulate(run, seed=6, snapshot=formed(database()))
