"""Replicas that lost their link to the primary long before it ended, and its files on a volume.

They are not promoted: the primary comes back with everything that it acknowledged. SE-02, SE-18
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kubelocal.controllers.engine.caches import BUILT_IN_KINDS
from redis_operator.operator.world import REDISES
from redis_testing.cluster.state import Server
from redis_testing.cluster.wire import answer
from redis_testing.simulation.failover import failover, followers, is_whole, leader, servers
from redis_testing.simulation.nodes import node_of, power_off, power_on
from redis_testing.simulation.scenarios import formed, primary
from redis_testing.simulation.system import DATABASE, NAMESPACE, Simulation, database, simulate

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine

Trouble = Callable[[Simulation, Server], Awaitable[None]]


async def write_alone(simulation: Simulation) -> Server:
    """Break the links of all replicas for two minutes, then write; return the primary."""
    simulation.start_operator()
    await asyncio.sleep(3.0)
    first = leader(simulation)
    simulation.world.part([first.name], [other.name for other in followers(simulation)])
    await asyncio.sleep(120.0)
    assert leader(simulation) is first, "its sentinels reach it"
    assert answer(simulation.world, first, ["SET", "late", "1"]) == b"OK"
    await asyncio.sleep(3.0)  # it is on the disk
    return first


async def kill(simulation: Simulation, first: Server) -> None:
    simulation.kill(first.name)


async def delete(simulation: Simulation, first: Server) -> None:
    await simulation.delete_pod(first.name)


async def evict(simulation: Simulation, first: Server) -> None:
    """Its pod is gone at once, and the next one has another address."""
    simulation.kubelet.kill(first.name)
    key = (NAMESPACE, first.name)
    await simulation.client.delete(BUILT_IN_KINDS["pods"], key, grace_seconds=0)


async def lose_power(simulation: Simulation, first: Server) -> None:
    node = node_of(simulation, first.name)
    await power_off(simulation, node)
    await asyncio.sleep(30.0)
    assert not [s.name for s in servers(simulation) if s.is_primary and not s.stopped]
    await power_on(simulation, node)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [kill, delete, evict, lose_power])
def test_a_primary_with_files_leads_again_instead_of_replicas_without_its_writes(
    trouble: Trouble,
) -> None:
    async def scenario(simulation: Simulation) -> None:
        first = await write_alone(simulation)
        await trouble(simulation, first)
        simulation.world.cut.clear()

        async def whole() -> bool:
            return is_whole(simulation)

        await simulation.until_all(whole, within=120.0, what="whole")
        for server in servers(simulation):
            assert answer(simulation.world, server, ["GET", "late"]) == b"1", server.name

    simulate(scenario, snapshot=formed(failover()))


def test_a_person_may_go_on_with_the_data_of_the_replicas() -> None:
    async def scenario(simulation: Simulation) -> None:
        first = await write_alone(simulation)
        simulation.ledger.excuse(first)
        gone = await power_off(simulation, node_of(simulation, first.name))
        simulation.world.cut.clear()
        await asyncio.sleep(30.0)
        left = [s for s in servers(simulation) if s.name not in gone]
        assert not any(s.is_primary for s in left)
        found = await simulation.client.get(REDISES, (NAMESPACE, DATABASE))
        assert "lost the link to the primary long before" in found["status"]["message"]
        assert "redisoperator.dev/accept-data-loss=all" in found["status"]["message"]
        await simulation.annotate(**{"redisoperator.dev/accept-data-loss": "all"})

        async def led() -> bool:
            return any(s.is_primary for s in left)

        await simulation.until_all(led, within=60.0, what="led by a replica")

    simulate(scenario, snapshot=formed(failover()))


@pytest.mark.slow
def test_a_primary_with_files_leads_again_instead_of_a_late_replica_in_mode_cluster() -> None:
    """The operator sees the primary end, and FORCE would promote what the engine refuses. CL-02"""

    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        first = primary(simulation, 0)
        simulation.world.part([first.name], [s.name for s in simulation.world.copies(first)])
        await asyncio.sleep(120.0)
        assert primary(simulation, 0) is first
        assert answer(simulation.world, first, ["SET", "late", "1"]) == b"OK"
        await asyncio.sleep(3.0)  # it is on the disk
        simulation.kill(first.name)
        simulation.world.cut.clear()
        await asyncio.sleep(10.0)
        await simulation.until_ready(within=60.0)
        assert answer(simulation.world, primary(simulation, 0), ["GET", "late"]) == b"1"
        simulation.check_end()

    simulate(scenario, snapshot=formed(database()))
