"""A `RedisOperator` describes the installation, and an installer in the cluster carries it out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.failover.conftest import Watched
from e2e.harness import Cluster, until
from e2e.install.conftest import Person
from e2e.install.test_life_cycle import operator_images, uids

pytestmark = pytest.mark.e2e
NAME = ("redisoperator", "redis-operator")


class Installation:
    """The `RedisOperator` as somebody with kubectl sees and changes it."""

    def __init__(self, cluster: Cluster) -> None:
        self.kubectl = cluster.kubectl

    def status(self) -> dict[str, Any]:
        """Return the status, or nothing while it is about an older spec."""
        found = json.loads(self.kubectl("get", *NAME, "-o", "json"))
        status = found.get("status") or {}
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        return dict(status) if current else {}

    def change(self, **spec: Any) -> None:
        change = json.dumps({"spec": spec})
        self.kubectl("patch", *NAME, "--type", "merge", "-p", change)

    async def deployed(self) -> dict[str, Any]:
        """Wait until what the spec says is installed whole; return the status."""

        async def done() -> bool:
            return self.status().get("phase") == "Deployed"

        await until(done, seconds=180, what=f"the installation, which is at {self.status()}")
        return self.status()

    async def gone(self) -> None:
        """Delete it, and wait until the operator is removed."""
        self.kubectl("delete", *NAME, "--wait=false")

        async def done() -> bool:
            return "redis-operator" not in self.kubectl("get", "redisoperator", "-o", "name")

        await until(done, seconds=180, what="the RedisOperator to go")


async def test_a_redisoperator_installs_updates_goes_back_and_goes_under_load(
    cluster: Cluster, person: Person, namespace: str, database: Any
) -> None:
    first, second = person.images
    said = await person.run(
        "install", "--with-installer", "--image", first, *person.scope(namespace), seconds=180
    )
    assert "by its installer" in said
    installation = Installation(cluster)
    begun = await installation.deployed()
    described = json.loads(cluster.kubectl("get", *NAME, "-o", "json"))["spec"]
    cache = await database("cache")
    patient = {"downAfterMilliseconds": 60_000}  # as in test_life_cycle
    queue = Watched(
        await database("queue", mode="Failover", shards=1, replicas=2, sentinel=patient)
    )
    await cache.wait_ready(seconds=180)
    await queue.wait_ready(seconds=180)
    before = await uids(cache, queue)

    async with cache.under_load(writes_per_second=100) as application, queue.writing() as writer:
        said = await person.run("upgrade", "--image", second, check=False)
        assert "kubectl edit redisoperator" in said
        installation.change(image=second)
        updated = await installation.deployed()
        assert await operator_images(cluster) >= {second}
        assert updated["observedConfiguration"] != begun["observedConfiguration"]
        await cache.wait_ready()

        installation.change(image="no-such-operator:1")

        async def named() -> bool:
            return "no-such-operator:1" in installation.status().get("message", "")

        await until(named, seconds=120, what="the image that is not there to be named")
        await cache.patch(config={"maxmemory-policy": "allkeys-lru"})
        await cache.wait_ready()  # the operator of before goes on

        installation.change(image=first)
        back = await installation.deployed()
        for field in ("observedVersion", "observedConfiguration"):
            assert back[field] == begun[field]
        await cache.wait_ready()

        await installation.gone()
        assert namespace in cluster.kubectl("get", "redis", "--all-namespaces")
        again = {"apiVersion": "redisoperator.dev/v1", "kind": "RedisOperator"}
        again |= {"metadata": {"name": "redis-operator"}, "spec": {**described, "image": second}}
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(again))
        await installation.deployed()
        await cache.patch(config={"maxmemory-policy": "volatile-lru"})
        await cache.wait_ready()
        await queue.wait_ready()
    assert await cache.check(application) == []
    assert await queue.lost(writer) == []
    assert await uids(cache, queue) == before
    assert await cache.restarts() + await queue.restarts() == 0
    await person.run("uninstall", seconds=120)
    assert namespace in cluster.kubectl("get", "redis", "--all-namespaces")
    assert await uids(cache, queue) == before
