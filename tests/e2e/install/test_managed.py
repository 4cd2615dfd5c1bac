"""A `RedisOperator` describes the installation, and an installer in the cluster carries it out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.harness import Cluster, until
from e2e.install.conftest import Person
from e2e.install.test_life_cycle import operator_images

pytestmark = pytest.mark.e2e


async def test_a_redisoperator_installs_updates_and_goes_while_a_database_serves(
    cluster: Cluster, person: Person, namespace: str, database: Any
) -> None:
    if not cluster.is_local:
        pytest.skip("looks after all namespaces, which on a real cluster may be those of others")
    first, second = person.images
    said = await person.run("install", "--with-installer", "--image", first)
    assert "by its installer" in said
    cache = await database("cache", mode="Standalone", shards=1, replicas=0)
    await cache.wait_ready(seconds=120)
    before = await cache.uids()

    def status() -> dict[str, Any]:
        found = json.loads(cluster.kubectl("get", "redisoperator", "redis-operator", "-o", "json"))
        current = found["status"].get("observedGeneration") == found["metadata"]["generation"]
        return dict(found["status"]) if current else {}

    assert status()["phase"] == "Deployed"
    said = await person.run("upgrade", "--image", second, check=False)
    assert "kubectl edit redisoperator" in said
    change = json.dumps({"spec": {"image": second}})
    cluster.kubectl("patch", "redisoperator", "redis-operator", "--type", "merge", "-p", change)

    async def updated() -> bool:
        return status().get("phase") == "Deployed"

    await until(updated, seconds=90, what="the other image to be installed")
    assert await operator_images(cluster) >= {second}
    change = json.dumps({"spec": {"image": "no-such-operator:1"}})
    cluster.kubectl("patch", "redisoperator", "redis-operator", "--type", "merge", "-p", change)

    async def told() -> bool:
        return "no-such-operator:1" in status().get("message", "")

    await until(told, seconds=60, what="the image that is not there to be named")
    await cache.patch(config={"maxmemory-policy": "allkeys-lru"})
    await cache.wait_ready()  # the operator of before goes on
    await person.run("uninstall")
    assert namespace in cluster.kubectl("get", "redis", "--all-namespaces")
    assert await cache.uids() == before
