"""A backup becomes a database of any shape, and no client is let in before all keys are there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.harness import until
from e2e.standalone.conftest import Alone
from e2e.writing import Peer
from redis_operator.redis.slots import key_slot

pytestmark = pytest.mark.e2e

FROM_MONDAY: dict[str, Any] = {"bootstrap": {"fromBackup": {"name": "monday"}}}
CLUSTER: dict[str, Any] = {"mode": "Cluster", "shards": 3, "replicas": 1}
FAILOVER: dict[str, Any] = {"mode": "Failover", "shards": 1, "replicas": 1}
ALONE: dict[str, Any] = {"mode": "Standalone", "shards": 1, "replicas": 0}


async def answers(address: tuple[str, int], *commands: tuple[str, ...]) -> list[Any]:
    """Ask a server on a connection of its own."""
    peer = Peer(*await asyncio.open_connection(*address))
    try:
        return [await peer.ask(*words) for words in commands]
    finally:
        peer.close()


async def test_a_cluster_begins_with_the_backup_of_another_that_is_in_use(
    database: Any, store: Any
) -> None:
    cache = await database(**CLUSTER)
    await cache.wait_ready(seconds=90)
    async with cache.under_load(writes_per_second=200):
        written = await cache.fill(2000)
        store.take("monday")
        await store.wait("monday", "Completed")
        copy = await database("copy", **CLUSTER | {"shards": 5, "replicas": 0}, **FROM_MONDAY)
        told = await copy.wait_condition("Available", "False", reason="Restoring", seconds=90)
        assert "clients cannot connect yet" in told["message"]
        status = await copy.wait_ready(seconds=120)
    assert await copy.check(written) == []
    assert status["shardCount"] == 5
    restored = status["restore"]
    assert restored["backup"] == "monday"
    assert restored["completionTime"]
    assert restored["keys"] >= len({one.partition("=")[0] for one in written.acknowledged})

    async def is_over() -> bool:
        return "copy-restore" not in store.cluster.kubectl("get", "jobs", "-n", store.namespace)

    await until(is_over, seconds=30, what="the worker to go")
    assert await cache.check(written) == []


async def test_a_cluster_becomes_one_server_and_that_a_cluster_again(
    database: Any, store: Any
) -> None:
    cache = await database(**CLUSTER | {"replicas": 0})
    await cache.wait_ready(seconds=90)
    written = await cache.fill(1000)
    store.take("monday")
    await store.wait("monday", "Completed")
    one = Alone(await database("one", **ALONE, **FROM_MONDAY))
    await one.wait_ready(seconds=120)
    one.acknowledged = dict(entry.split("=") for entry in written.acknowledged)
    assert await one.lost() == []

    store.take("tuesday", redis="one")
    await store.wait("tuesday", "Completed")
    tuesday = {"bootstrap": {"fromBackup": {"name": "tuesday"}}}
    again = await database("again", **CLUSTER | {"replicas": 0}, **tuesday)
    await again.wait_ready(seconds=120)
    assert await again.check(written) == []


async def test_no_client_can_write_before_everything_is_there(database: Any, store: Any) -> None:
    """Whoever has the password is shut out, from the first start of the first server."""
    cache = Alone(await database(**FAILOVER))
    await cache.wait_ready(seconds=90)
    await cache.write(300)
    copy = await database("copy", **CLUSTER | {"replicas": 0}, **FROM_MONDAY)
    await copy.wait_condition("Available", "False", reason="Restoring", seconds=90)
    seeds = await copy.seeds()
    admin = await copy.secret("copy-admin", "password")
    for pod in (await copy.pods()).values():  # the Service leads to none before they are ready
        address = (pod.status.pod_ip, 6379)
        for login in ((seeds.username, seeds.password), ("admin", admin)):
            told = await answers(address, ("AUTH", *login), ("SET", "key", "value"))
            assert [str(one).split()[0] for one in told] == ["WRONGPASS", "NOAUTH"]
    assert "binding" not in await copy.status()
    store.take("monday")
    await copy.wait_ready(seconds=180)
    status = await copy.status()
    assert status["restore"]["keys"] == 300
    owners = {}
    for shard in status["shards"]:
        first, _, last = shard["slots"].partition("-")
        owners |= dict.fromkeys(range(int(first), int(last) + 1), shard["primary"])
    pods = {name: pod.status.pod_ip for name, pod in (await copy.pods()).items()}
    for key, value in cache.acknowledged.items():
        login = ("AUTH", seeds.username, seeds.password)
        place = (pods[owners[key_slot(key)]], 6379)
        assert await answers(place, login, ("GET", key)) == ["OK", value]
