"""A worker, the operator or a primary ends while keys are carried into a new cluster."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import until

pytestmark = pytest.mark.e2e

FROM_MONDAY: dict[str, Any] = {"bootstrap": {"fromBackup": {"name": "monday"}}}
CLUSTER: dict[str, Any] = {"mode": "Cluster", "shards": 3, "replicas": 1}


def workers(store: Any) -> list[str]:
    found = store.cluster.kubectl(
        "get",
        "pods",
        "-l",
        "redisoperator.dev/restores=copy",
        "-o",
        "jsonpath={.items[*].metadata.name}",
        "-n",
        store.namespace,
    )
    return list(found.split())


async def test_whoever_ends_meanwhile_every_key_arrives_before_any_client(
    database: Any, store: Any, cluster: Any
) -> None:
    cache = await database(**CLUSTER | {"replicas": 0})
    await cache.wait_ready(seconds=90)
    written = await cache.fill(2000)
    store.take("monday")
    await store.wait("monday", "Completed")
    copy = await database("copy", **CLUSTER, **FROM_MONDAY)

    async def begun() -> list[str]:
        return workers(store)

    [first] = await until(begun, seconds=120, what="a worker", every=0.1)
    store.cluster.kubectl(
        "delete", "pod", first, "--grace-period=0", "--force", "-n", store.namespace
    )

    async def another() -> list[str]:
        return [pod for pod in workers(store) if pod != first]

    await until(another, seconds=120, what="another worker", every=0.1)
    await copy.crash((await copy.status())["shards"][1]["primary"])
    cluster.kill_operator()
    await copy.wait_ready(seconds=200)
    assert await copy.check(written) == []
    assert "binding" in await copy.status()
