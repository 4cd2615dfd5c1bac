"""Ready at a generation means that everything it asks for was seen in place, at every moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import lru_cache

import pytest

from kubecontroller.client.meta import Manifest
from kubelocal.apiserver.storage.entries import decode
from kubelocal.apiserver.storage.store import unpack
from redis_operator.manifests.pod import SHAPE_ANNOTATION
from redis_testing.simulation.scenarios import formed
from redis_testing.simulation.system import Simulation, database, simulate
from support.histories import draw_some


@lru_cache(1000)
def decoded(kept: bytes) -> Manifest:
    """Return an object of the store: each write is judged by all of them, and changes one."""
    return decode(unpack(kept))


def stored(simulation: Simulation, resource: str) -> Iterator[Manifest]:
    for collection in simulation.server.core.store.collections():
        if collection.name.partition(".")[0] == resource:
            for entry in collection.entries.values():
                yield decoded(entry.kept)


def outdated(simulation: Simulation) -> list[str]:
    """Return pods that are not what their StatefulSet asks for."""
    wanted = {
        found["metadata"]["name"]: found["spec"]["template"]["metadata"]["annotations"]
        for found in stored(simulation, "statefulsets")
    }
    return [
        pod["metadata"]["name"]
        for pod in stored(simulation, "pods")
        if pod["metadata"]["annotations"].get(SHAPE_ANNOTATION)
        != wanted[pod["metadata"]["name"].rpartition("-")[0]].get(SHAPE_ANNOTATION)
    ]


def watch(simulation: Simulation, lies: list[str]) -> None:
    """Note every write after which a client that waits for Ready would go on too early."""

    def judge() -> None:
        for redis in stored(simulation, "redis"):
            status = redis.get("status") or {}
            conditions = {c["type"]: c["status"] for c in status.get("conditions", ())}
            current = status.get("observedGeneration") == redis["metadata"]["generation"]
            if current and conditions.get("Ready") == "True" and outdated(simulation):
                moment = asyncio.get_running_loop().time()
                lies.append(f"{moment:.3f}: {outdated(simulation)}, {status['message']}")

    for collection in simulation.server.core.store.collections():
        if collection.name.partition(".")[0] in ("redis", "statefulsets", "pods"):
            collection.wakers[id(lies)] = judge


@pytest.mark.slow
@pytest.mark.parametrize("first", draw_some(["aof", "rdb"], 1, name="judged"))
def test_a_database_is_not_ready_while_pods_are_to_be_recreated(first: str) -> None:
    """Settings are changed on the servers first, and the objects that pods are made from after."""
    others = {"aof": ("rdb", "both"), "rdb": ("aof", "both")}[first]
    lies: list[str] = []

    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        watch(simulation, lies)
        for persistence in others:
            await simulation.change(durability={"persistence": persistence})
            await simulation.until_ready()

    simulate(scenario, snapshot=formed(database(durability={"persistence": first})))
    assert lies == []
