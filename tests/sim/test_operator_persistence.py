"""Persistence changes on a database in use: files first, then pods that rely on them. CL-33"""

from __future__ import annotations

import asyncio

import pytest

from kubelocal.controllers.engine.caches import BUILT_IN_KINDS
from redis_testing.simulation.scenarios import formed, mine
from redis_testing.simulation.system import NAMESPACE, Simulation, database, simulate
from support.histories import draw_some

pytestmark = pytest.mark.timeout(300)
REWRITE_SECONDS = 40.0


async def started_with(simulation: Simulation) -> set[str]:
    """What pods that are made now would be told to keep."""
    workloads = await simulation.client.list(BUILT_IN_KINDS["statefulsets"], namespace=NAMESPACE)
    containers = [w["spec"]["template"]["spec"]["containers"][0] for w in workloads.items]
    return {
        variable["value"]
        for container in containers
        for variable in container["env"]
        if variable["name"] == "PERSISTENCE"
    }


async def in_file(simulation: Simulation, name: str) -> str:
    key = (NAMESPACE, "db-config")
    files = (await simulation.client.get(BUILT_IN_KINDS["configmaps"], key))["data"]
    text = next(text for file, text in files.items() if file.endswith(".conf"))
    return next(line for line in text.splitlines() if line.startswith(f"{name} "))


KINDS = (
    ("rdb", "aof", 1),
    ("rdb", "aof", 0),
    ("aof", "rdb", 0),
    ("rdb", "both", 0),
    ("none", "aof", 0),
)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after", "replicas"), draw_some(KINDS, 2, name="persistence"))
def test_pods_are_not_started_with_a_kind_whose_files_are_not_written(
    before: str, after: str, replicas: int
) -> None:
    manifest = database(replicas=replicas, durability={"persistence": before})

    async def run(simulation: Simulation) -> None:
        simulation.world.rewrite_seconds = REWRITE_SECONDS
        simulation.start_operator()
        await asyncio.sleep(3.0)
        writing = simulation.write_on()
        first = {server.started_at for server in mine(simulation)}
        await simulation.change(durability={"persistence": after})
        waited = 0
        while await started_with(simulation) == {before}:
            now = simulation.world.now
            servers = mine(simulation)
            assert {server.started_at for server in servers} == first, "none is ended meanwhile"
            waited += any(now < server.rewriting_until for server in servers)
            assert await in_file(simulation, "appendonly") == (
                "appendonly no" if before in ("rdb", "none") else "appendonly yes"
            )
            await asyncio.sleep(1.0)
        writes_first = after in ("aof", "both") and before in ("rdb", "none")
        assert waited >= (REWRITE_SECONDS / 2 if writes_first else 0)
        await simulation.until_ready(within=300)
        assert await started_with(simulation) == {after}
        wanted = "no" if after == "rdb" else "yes"
        assert {server.config["appendonly"] for server in mine(simulation)} == {wanted}
        writing.cancel()
        await asyncio.sleep(1.0)
        simulation.check_end()

    simulate(run, snapshot=formed(manifest))


def test_hibernation_waits_for_the_first_append_only_file() -> None:
    manifest = database(durability={"persistence": "rdb"})

    async def run(simulation: Simulation) -> None:
        simulation.world.rewrite_seconds = REWRITE_SECONDS
        simulation.start_operator()
        await asyncio.sleep(3.0)
        await simulation.change(durability={"persistence": "aof"}, hibernate=False)
        await asyncio.sleep(5.0)
        await simulation.change(hibernate=True)
        await asyncio.sleep(5.0)
        assert all(server.alive for server in mine(simulation))
        message = str((await simulation.redis())["status"])
        assert "is writing its append-only file" in message
        await asyncio.sleep(REWRITE_SECONDS + 20)
        assert not any(server.alive for server in mine(simulation))

    simulate(run, snapshot=formed(manifest))
