"""A backup is loaded into a scratch server beside its worker, and says that it was."""

from __future__ import annotations

import re
from typing import Any

import pytest

from e2e.backup.test_restore import damage
from e2e.harness import until
from e2e.standalone.conftest import Alone

pytestmark = pytest.mark.e2e

ALONE: dict[str, Any] = {"mode": "Standalone", "shards": 1, "replicas": 0}


async def verified(store: Any, name: str, status: str) -> dict[str, Any]:
    async def told() -> dict[str, Any] | None:
        for one in store.status(name).get("conditions") or ():
            if one["type"] == "Verified" and one["status"] == status:
                return dict(one)
        return None

    try:
        found: dict[str, Any] = await until(told, seconds=90, what=f"Verified={status}", every=0.5)
    except AssertionError as error:
        raise AssertionError(f"{error}; status: {store.status(name)}") from error
    return found


async def test_what_was_backed_up_is_counted_by_a_scratch_server(database: Any, store: Any) -> None:
    cache = Alone(await database(**ALONE))
    await cache.wait_ready()
    await cache.write(300)
    store.take("monday", verify=True)
    told = await verified(store, "monday", "True")
    assert "300 keys" in told["message"]
    status = store.status("monday")
    assert (status["keys"], status["parts"][0]["keys"]) == (300, 300)
    listed = store.cluster.kubectl("get", "rdb", "-n", store.namespace)
    assert "VERIFIED" in listed

    async def gone() -> bool:
        pods = store.cluster.kubectl(
            "get", "pods", "-l", "redisoperator.dev/worker=verify", "-n", store.namespace
        )
        return "Running" not in pods

    await until(gone, seconds=60, what="the scratch server to end")


async def test_a_cluster_is_verified_shard_by_shard(database: Any, store: Any) -> None:
    cache = await database(shards=3, replicas=0)
    await cache.wait_ready(seconds=90)
    await cache.fill(200)
    store.take("monday", verify=True)
    await verified(store, "monday", "True")
    status = store.status("monday")
    assert status["keys"] > 0
    assert sum(part["keys"] for part in status["parts"]) == status["keys"]
    assert all(part["keys"] for part in status["parts"])


async def test_a_part_that_was_damaged_is_named(database: Any, store: Any) -> None:
    cache = Alone(await database(**ALONE))
    await cache.wait_ready()
    await cache.write(50)
    in_the_way = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "monday-verify-1"},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "busybox", "command": ["true"]}],
                }
            }
        },
    }
    store.apply(in_the_way)  # a Job of somebody else, which is neither taken nor removed
    store.take("monday", verify=True)
    await store.wait("monday", "Completed")

    async def refused() -> bool:
        return "does not belong to this backup" in str(store.status("monday"))

    await until(refused, seconds=30, what="the Job in the way to be named")
    damage(store)
    store.cluster.kubectl("delete", "job", "monday-verify-1", "-n", store.namespace)
    told = await verified(store, "monday", "False")
    assert told["reason"] == "BackupDamaged"
    assert re.search(r"server-0-1-\w+\.rdb\.zst is damaged", told["message"])
