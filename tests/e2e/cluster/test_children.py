from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import until
from redis_operator.kube.errors import NotFound
from redis_operator.kube.objects import CONFIG_MAPS, SERVICES, STATEFUL_SETS
from redis_operator.kube.patches import MergePatch

pytestmark = pytest.mark.e2e


async def test_children_deleted_by_hand_come_back_and_no_pod_is_restarted(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    uids = await cache.uids()
    application = await cache.fill(100)
    for kind, name in (
        (SERVICES, "cache"),
        (SERVICES, "cache-nodes"),
        (CONFIG_MAPS, "cache-config"),
    ):
        old = await cache.client.get(kind, (cache.namespace, name))
        await cache.client.delete(kind, (cache.namespace, name))
        await until(
            lambda k=kind, n=name, o=old: _is_back(cache, k, n, o.metadata.uid),
            seconds=20,
            what=f"{name} to come back",
        )
    cache.cluster.kubectl(
        "-n", cache.namespace, "delete", "statefulset", "cache-0", "--cascade=orphan"
    )
    await until(lambda: _is_back(cache, STATEFUL_SETS, "cache-0", ""), seconds=20, what="cache-0")
    await cache.wait_ready()
    assert await cache.uids() == uids
    assert await cache.restarts() == 0
    assert await cache.check(application) == []


async def _is_back(cache: Any, kind: Any, name: str, old_uid: str) -> bool:
    try:
        found = await cache.client.get(kind, (cache.namespace, name))
    except NotFound:
        return False
    return bool(found.metadata.uid != old_uid)


async def test_a_child_edited_by_hand_is_put_right(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    uids = await cache.uids()
    wrong = MergePatch({"spec": {"selector": {"app": "something-else"}}})
    key = (cache.namespace, "cache")
    await cache.client.patch(SERVICES, key, wrong)

    async def repaired() -> bool:
        plain = await cache.client.get(SERVICES.plain(), key)
        return "app" not in plain["spec"]["selector"]

    await until(repaired, seconds=30, what="the selector to be repaired")
    scaled = MergePatch({"spec": {"replicas": 3}})
    await cache.client.patch(STATEFUL_SETS, (cache.namespace, "cache-0"), scaled)

    async def scaled_back() -> bool:
        found = await cache.client.get(STATEFUL_SETS, (cache.namespace, "cache-0"))
        return found.spec.replicas == 2 and set(await cache.uids()) == set(uids)

    await until(scaled_back, seconds=60, what="the extra pod to go")
    await cache.wait_ready()
    assert await cache.uids() == uids
