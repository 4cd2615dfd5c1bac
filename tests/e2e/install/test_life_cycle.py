"""The operator comes, changes, goes and comes again; databases do not notice."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.failover.conftest import Watched
from e2e.harness import Cluster, until
from e2e.install.conftest import Person
from kubecontroller.client.errors import NotFound
from kubecontroller.client.objects import DEPLOYMENTS, NAMESPACES, PODS
from kubecontroller.client.patches import MergePatch

pytestmark = pytest.mark.e2e
OPERATOR = ("redis-operator", "redis-operator")


async def operator_images(cluster: Cluster) -> set[str]:
    client = cluster.client()
    page = await client.list(PODS, namespace="redis-operator")
    await client.close()
    return {c.image for pod in page.items for c in pod.spec.containers or ()}


async def uids(*databases: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in databases:
        found |= await one.uids()
    return found


async def test_install_upgrade_uninstall_and_install_again_under_load(
    cluster: Cluster, person: Person, namespace: str, database: Any
) -> None:
    first, second = person.images
    client = cluster.client()
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    change = MergePatch({"metadata": {"labels": restricted}})
    await client.patch(NAMESPACES, ("", namespace), change)
    scope = person.scope(namespace)
    said = await person.run("install", "--image", first, *scope)
    assert "is installed in namespace redis-operator" in said
    cache = await database("cache")
    # A machine that stands still for seconds is no reason for sentinels to act here: without an
    # operator nobody would lead the application to another primary.
    patient = {"downAfterMilliseconds": 60_000}
    made = await database("queue", mode="Failover", shards=1, replicas=2, sentinel=patient)
    queue = Watched(made)
    await cache.wait_ready(seconds=120)
    await queue.wait_ready(seconds=120)
    before = await uids(cache, queue)

    async with cache.under_load(writes_per_second=100) as application, queue.writing() as writer:
        await person.run("upgrade", "--image", second, "--replicas", "3")
        assert await operator_images(cluster) == {second}
        found = await client.get(DEPLOYMENTS, OPERATOR)
        assert found.status.available_replicas == 3
        await cache.wait_ready()

        missing = ("upgrade", "--image", "no-such-operator:1")
        said = await person.run(*missing, check=False, seconds=8)
        assert "not ready after" in said
        assert "no-such-operator:1" in said
        found = await client.get(DEPLOYMENTS, OPERATOR)
        assert found.status.available_replicas == 3  # those of before go on
        await person.run("upgrade", "--image", first)
        assert await operator_images(cluster) == {first}

        which = ("-n", "redis-operator", "-l", "app.kubernetes.io/name=redis-operator")
        logs = cluster.kubectl("logs", *which, "--tail=-1").lower()
        assert "caches synced" in logs
        assert "forbidden" not in logs

        said = await person.run("uninstall")
        assert f"Redis {namespace}/cache: stays" in said
        assert "2 databases keep serving without it" in said
        with pytest.raises(NotFound):
            await client.get(DEPLOYMENTS, OPERATOR)
        assert not (await cache.get())["metadata"].get("finalizers")

        async def gone() -> bool:
            try:
                await client.get(NAMESPACES, ("", "redis-operator"))
            except NotFound:
                return True
            return False

        await until(gone, seconds=60, what="the operator's namespace to go")
        await person.run("install", "--image", second, *scope)
        await cache.patch(config={"maxmemory-policy": "allkeys-lru"})
        await cache.wait_ready()
        await queue.wait_ready()
    assert await cache.check(application) == []
    assert await queue.lost(writer) == []
    assert await uids(cache, queue) == before
    assert await cache.restarts() + await queue.restarts() == 0
    await client.close()
