"""A primary that dies silently before the sentinels have heard of its replicas. SE-02, K-17

They cannot replace it: who is dead cannot be asked for replicas. The operator sees to it that they
hear of them before the database is Ready, and where they did not, it has them vote and promotes.
"""

from __future__ import annotations

import asyncio

import pytest

from redis_testing.simulation.crashes import Blow, Reference, reference, spread, strike_at_each
from redis_testing.simulation.failover import (
    FAILOVER_SCENARIOS,
    failover,
    forget_replicas,
    is_whole,
    leader,
    sentinels,
    servers,
)
from redis_testing.simulation.nodes import node_of, power_off, power_on
from redis_testing.simulation.process import Strike
from redis_testing.simulation.scenarios import Scenario, formed, until_over
from redis_testing.simulation.system import DATABASE, Simulation, simulate

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine
WHOLE = Scenario("whole again", lambda _: asyncio.sleep(0), over=is_whole, within=400.0)


async def lead_elsewhere(simulation: Simulation, gone: list[str], within: float) -> str:
    """Wait until another server leads and clients are led to it; who."""

    async def led() -> bool:
        found = simulation.kubelet.labelled(DATABASE, "primary")
        return any(s.is_primary and s.name in found for s in servers(simulation)) and not (
            set(found) & set(gone)
        )

    await simulation.until_all(led, within=within, what="led by another one")
    return leader(simulation).name


SILENT = next(s for s in FAILOVER_SCENARIOS if "replicas unheard of" in s.name)


def test_it_is_replaced_within_seconds_after_the_sentinels_have_given_up() -> None:
    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        writing = simulation.write_on()
        first = leader(simulation)
        node = node_of(simulation, first.name)
        forget_replicas(simulation)
        begun = simulation.world.now
        gone = await power_off(simulation, node)
        assert first.name in gone
        await lead_elsewhere(simulation, gone, within=25.0)
        assert simulation.world.now - begun > 5.0, "sentinels need that long to hold it for dead"
        epochs = {
            p.config_epoch
            for server, s in sentinels(simulation)
            if not server.stopped
            for p in s.primaries.values()
        }
        assert min(epochs) > 0, "those who come back hear who leads from those that know"
        await power_on(simulation, node)
        await until_over(simulation, WHOLE)
        writing.cancel()
        simulation.check_end()

    simulate(scenario, snapshot=formed(failover()))


def test_a_node_that_loses_power_right_after_ready_is_left_to_the_sentinels() -> None:
    """All of them have heard of both replicas by then."""

    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(1.0)
        await simulation.apply(failover())
        await simulation.until_ready()
        first = leader(simulation)
        for _, sentinel in sentinels(simulation):
            for primary in sentinel.primaries.values():
                assert len(primary.replicas) == 2, sentinel.events
        gone = await power_off(simulation, node_of(simulation, first.name))
        simulation.restarts = False
        for process in simulation.processes:
            process.die()

        async def promoted() -> bool:
            return any(s.is_primary for s in servers(simulation) if s.name not in gone)

        await simulation.until_all(promoted, within=30.0, what="failed over by the sentinels")

    for seed in range(1, 4):
        simulate(scenario, seed=seed)


def test_after_a_switchover_the_sentinels_hear_of_all_replicas_at_once() -> None:
    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        name = next(s.name for s in servers(simulation) if not s.is_primary)
        await simulation.annotate(**{"redisoperator.dev/switch-primary-to": name})

        async def known() -> bool:
            found = [p for _, s in sentinels(simulation) for p in s.primaries.values()]
            return leader(simulation).name == name and all(len(p.replicas) == 2 for p in found)

        await simulation.until_all(known, within=5.0, what="known")

    simulate(scenario, snapshot=formed(failover()))


def test_a_primary_that_the_operator_alone_does_not_reach_is_never_replaced() -> None:
    """Sentinels without replicas, and a primary that answers them: nobody holds it for dead."""

    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        first = leader(simulation)
        forget_replicas(simulation)
        simulation.cut_off(first.name)
        for _ in range(120):
            await asyncio.sleep(0.5)
            assert [s.name for s in servers(simulation) if s.is_primary] == [first.name]

    simulate(scenario, snapshot=formed(failover()))


def test_a_minority_of_the_sentinels_that_holds_the_primary_for_dead_changes_nothing() -> None:
    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        first = leader(simulation)
        watchers = [server.name for server, _ in sentinels(simulation)]
        rest = [s.name for s in servers(simulation) if s is not first]
        forget_replicas(simulation)
        simulation.cut_off(first.name)
        simulation.world.part([first.name, *rest, *watchers[1:]], [watchers[0]])
        for _ in range(120):
            await asyncio.sleep(0.5)
            assert [s.name for s in servers(simulation) if s.is_primary] == [first.name]

    simulate(scenario, snapshot=formed(failover()))


def problems(known: Reference, blows: list[Blow]) -> list[str]:
    told: dict[Blow, str] = {}
    strike_at_each(known, blows, told.__setitem__)
    return [problem for problem in told.values() if problem]


@pytest.mark.slow
def test_the_end_is_the_same_wherever_the_operator_dies_between_the_vote_and_the_promotion() -> (
    None
):
    known = reference(SILENT)
    kinds = {"redis PUBLISH", "redis SENTINEL IS-MASTER-DOWN-BY-ADDR", "redis REPLICAOF"}
    points = [e.number for e in known.effects if e.kind in kinds]
    votes = [e for e in known.effects if e.kind == "redis SENTINEL IS-MASTER-DOWN-BY-ADDR"]
    assert votes, "the operator had to ask for votes"
    some = spread(points, 8)
    blows = [(point, [*Strike][n % len(Strike)]) for n, point in enumerate(some)]
    assert problems(known, blows) == []
