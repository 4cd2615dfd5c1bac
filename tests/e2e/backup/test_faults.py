"""The operator, the worker or the source ends in the middle of a backup, or of a restore."""

from __future__ import annotations

import os
from typing import Any

import pytest

from e2e.harness import until
from e2e.standalone.conftest import Alone

pytestmark = pytest.mark.e2e

ALONE: dict[str, Any] = {"mode": "Standalone", "shards": 1, "replicas": 0}
FAILOVER: dict[str, Any] = {"mode": "Failover", "shards": 1, "replicas": 2}


def pods(store: Any, label: str) -> list[str]:
    found = store.cluster.kubectl(
        "get",
        "pods",
        "-l",
        label,
        "-o",
        "jsonpath={.items[*].metadata.name}",
        "-n",
        store.namespace,
    )
    return list(found.split())


async def test_an_operator_that_dies_meanwhile_finds_its_worker_again(
    database: Any, store: Any, cluster: Any
) -> None:
    cache = Alone(await database(**ALONE))
    await cache.wait_ready()
    await cache.write(100)
    store.take("monday")
    await store.wait("monday", "Running")
    cluster.kill_operator()
    status = await store.wait("monday", "Completed")
    assert status["attempt"] == 1
    assert len(pods(store, "redisoperator.dev/backup=monday")) == 1


async def test_a_worker_that_is_killed_is_followed_by_another(database: Any, store: Any) -> None:
    cache = Alone(await database(**FAILOVER))
    await cache.wait_ready(seconds=90)
    await cache.write(100)
    for number in range(20):  # so that it is still read when its worker is killed
        await cache.run("SET", f"big:{number}", os.urandom(10_000).hex())
    store.take("monday", bandwidth="64Ki")

    async def begun() -> list[str]:
        return pods(store, "redisoperator.dev/backup=monday")

    [worker] = await until(begun, seconds=30, what="a worker", every=0.1)
    store.cluster.kubectl(
        "delete", "pod", worker, "--grace-period=0", "--force", "-n", store.namespace
    )
    status = await store.wait("monday", "Completed", seconds=120)
    assert status["attempt"] == 2
    copy = Alone(await database("copy", **FAILOVER, bootstrap={"fromBackup": {"name": "monday"}}))

    async def reading() -> list[str]:
        return pods(store, "redisoperator.dev/restores=copy")

    [reader] = await until(reading, seconds=30, what="the worker of the restore", every=0.1)
    store.cluster.kubectl(
        "delete", "pod", reader, "--grace-period=0", "--force", "-n", store.namespace
    )
    await copy.wait_ready(seconds=180)
    copy.acknowledged = dict(cache.acknowledged)
    assert await copy.lost() == []


async def test_deleting_a_database_that_is_being_restored_leaves_nothing(
    database: Any, store: Any
) -> None:
    copy = await database("copy", **ALONE, bootstrap={"fromBackup": {"name": "monday"}})
    await copy.wait_condition("Following", "False", reason="RestoreWaits")
    cache = Alone(await database(**ALONE))
    await cache.wait_ready()
    await cache.write(10)
    store.take("monday")
    await store.wait("monday", "Running")
    store.cluster.kubectl("delete", "redis", "copy", "-n", store.namespace, "--wait=false")

    async def gone() -> bool:
        return not pods(store, "redisoperator.dev/database=copy") and not pods(
            store, "redisoperator.dev/restores=copy"
        )

    await until(gone, seconds=90, what="all of it to be gone")
    assert await cache.lost() == []
