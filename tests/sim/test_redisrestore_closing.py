"""While data are replaced no client is let in: not by a server that starts again either."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubecontroller.client.errors import NotFound
from redis_operator.operator.world import REDIS_RESTORES
from redis_testing.cluster.users import lets_clients_in
from redis_testing.simulation.scenarios import formed
from redis_testing.simulation.system import NAMESPACE, Simulation, database, simulate
from sim.test_redisrestore import restore, wait_phase

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine


def servers_that_let_clients_in(simulation: Simulation) -> list[str]:
    known = simulation.world.passwords
    return [name for name in sorted(simulation.world.servers) if lets_clients_in(known[name])]


async def told(simulation: Simulation, name: str = "back") -> dict[str, Any]:
    found = await simulation.client.get(REDIS_RESTORES, (NAMESPACE, name))
    return dict(found.get("status") or {})


async def never_open(simulation: Simulation, seconds: float) -> None:
    for _ in range(int(seconds / 0.1)):
        assert servers_that_let_clients_in(simulation) == []
        await asyncio.sleep(0.1)


@pytest.mark.slow
def test_a_server_that_starts_again_while_data_are_replaced_lets_no_client_in() -> None:
    async def run(simulation: Simulation) -> None:
        operator = simulation.start_operator()
        await simulation.client.create(REDIS_RESTORES, restore("back"))
        await wait_phase(simulation, "back", "Restoring", within=300.0)
        operator.die()  # nobody is there to see the server
        victim = min(simulation.world.servers)
        simulation.kill(victim)
        await never_open(simulation, 3.0)
        await wait_phase(simulation, "back", "Completed", within=300.0)
        await simulation.until_ready(within=60.0)
        assert len(servers_that_let_clients_in(simulation)) == len(simulation.world.servers)

    simulate(run, snapshot=formed(database()))


@pytest.mark.slow
def test_no_data_are_replaced_where_a_pod_has_the_old_file_of_users() -> None:
    async def run(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(1.0)
        late = sorted(simulation.world.servers)[1]
        simulation.kubelet.mounts.freeze(late)
        await simulation.client.create(REDIS_RESTORES, restore("back"))
        await wait_phase(simulation, "back", "Failed", within=900.0)
        status = await told(simulation)
        assert status["conditions"][0]["reason"] == "NotClosed"
        assert f"{late} does not have the file of users yet" in status["message"]
        assert "kept" not in status
        assert len(servers_that_let_clients_in(simulation)) == len(simulation.world.servers)

    simulate(run, snapshot=formed(database(replicas=0)))


def test_a_node_that_refreshes_its_files_late_is_waited_for() -> None:
    async def run(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(1.0)
        late = sorted(simulation.world.servers)[1]
        simulation.kubelet.mounts.freeze(late)
        await simulation.client.create(REDIS_RESTORES, restore("back"))

        async def shut() -> bool:
            return bool((await told(simulation)).get("closedTime"))

        await simulation.until_all(shut, within=300.0, what="clients are shut out")
        await asyncio.sleep(30.0)
        assert servers_that_let_clients_in(simulation) == [late]
        simulation.kubelet.mounts.thaw(late)
        await wait_phase(simulation, "back", "Completed", within=300.0)

    simulate(run, snapshot=formed(database(replicas=0)))


def test_clients_are_served_while_files_are_refreshed() -> None:
    async def run(simulation: Simulation) -> None:
        simulation.start_operator()
        await simulation.client.create(REDIS_RESTORES, restore("back"))
        await wait_phase(simulation, "back", "Closing", within=300.0)
        for _ in range(60):
            assert len(servers_that_let_clients_in(simulation)) == len(simulation.world.servers)
            assert (await told(simulation)).get("closedTime") is None
            await asyncio.sleep(1.0)
        await wait_phase(simulation, "back", "Completed", within=300.0)

    simulate(run, snapshot=formed(database()))


@pytest.mark.slow
def test_completed_is_written_when_every_server_lets_clients_in() -> None:
    async def run(simulation: Simulation) -> None:
        simulation.start_operator()
        await simulation.client.create(REDIS_RESTORES, restore("back"))
        await wait_phase(simulation, "back", "Restoring", within=300.0)
        phases = []
        while not phases or phases[-1] != "Completed":
            await asyncio.sleep(0.01)
            phases.append((await told(simulation))["phase"])
            if phases[-1] == "Completed":
                everybody = len(simulation.world.servers)
                assert len(servers_that_let_clients_in(simulation)) == everybody

    simulate(run, snapshot=formed(database()))


def test_a_restore_does_not_end_before_a_paused_database_lets_clients_in() -> None:
    async def run(simulation: Simulation) -> None:
        simulation.start_operator()
        await simulation.client.create(REDIS_RESTORES, restore("back"))
        await wait_phase(simulation, "back", "Saving", within=300.0)
        await simulation.change(paused=True)
        await simulation.client.delete(REDIS_RESTORES, (NAMESPACE, "back"))
        await asyncio.sleep(30.0)
        status = await told(simulation)
        assert status["phase"] == "Opening", status
        assert servers_that_let_clients_in(simulation) == []
        await simulation.change(paused=False)

        async def over() -> bool:
            try:
                return not await told(simulation)
            except NotFound:
                return True

        await simulation.until_all(over, within=60.0, what="the restore is gone")
        assert len(servers_that_let_clients_in(simulation)) == len(simulation.world.servers)

    simulate(run, snapshot=formed(database()))
