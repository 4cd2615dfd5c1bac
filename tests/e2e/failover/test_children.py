"""Objects of a Failover database deleted and edited by hand, while clients write. K-18, K-19"""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import PATIENCE, delete_and_wait, is_back, until
from kubecontroller.client.objects import (
    CONFIG_MAPS,
    POD_DISRUPTION_BUDGETS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
)
from kubecontroller.client.patches import MergePatch

pytestmark = pytest.mark.e2e


async def _spec(cache: Any, kind: Any, name: str) -> Any:
    return (await cache.client.get(kind.plain(), (cache.namespace, name)))["spec"]


async def test_objects_deleted_by_hand_come_back_and_no_pod_is_restarted(watched: Any) -> None:
    cache = await watched()
    primary = (await cache.wait_ready())["primary"]
    uids = await cache.uids()
    password = await cache.secret("cache-conn", "password")
    async with cache.writing() as writer:
        for kind, name in (
            (SERVICES, "cache-replicas"),
            (SERVICES, "cache-sentinel"),
            (SERVICES, "cache-nodes"),
            (CONFIG_MAPS, "cache-config"),
            (POD_DISRUPTION_BUDGETS, "cache"),
            (SECRETS, "cache-conn"),
            (SECRETS, "cache-users"),
        ):
            await delete_and_wait(cache, kind, name)
        for name in ("cache", "cache-sentinel"):
            old = await cache.client.get(STATEFUL_SETS, (cache.namespace, name))
            cache.cluster.kubectl(
                *("-n", cache.namespace, "delete", "statefulset", name, "--cascade=orphan")
            )
            await until(
                lambda n=name, o=old: is_back(cache, STATEFUL_SETS, n, o.metadata.uid),
                seconds=20,
                what=f"the StatefulSet {name} to come back",
            )
        await cache.wait_ready(seconds=90)
    assert await cache.lost(writer) == []
    assert writer.longest < 1.0 * PATIENCE
    assert await cache.secret("cache-conn", "password") == password
    assert await cache.primary() == primary
    assert await cache.uids() == uids
    assert await cache.restarts() == 0
    await cache.crash(primary)  # sentinels and operator can still do their work
    await cache.wait_other_primary(primary)
    await cache.wait_ready(seconds=90)


async def test_what_people_edit_is_put_right_and_no_pod_is_restarted(watched: Any) -> None:
    cache = await watched()
    primary = (await cache.wait_ready())["primary"]
    uids = await cache.uids()
    async with cache.writing() as writer:
        for kind, name, part, change in (
            (SERVICES, "cache", "selector", {"app": "something-else"}),
            (STATEFUL_SETS, "cache-sentinel", "replicas", 5),
            (STATEFUL_SETS, "cache", "replicas", 5),
            (POD_DISRUPTION_BUDGETS, "cache", "maxUnavailable", 3),
        ):
            before = await _spec(cache, kind, name)
            edit = MergePatch({"spec": {part: change}})
            await cache.client.patch(kind, (cache.namespace, name), edit)

            async def repaired(
                kind: Any = kind, name: str = name, part: str = part, before: Any = before
            ) -> bool:
                return bool((await _spec(cache, kind, name))[part] == before[part])

            await until(repaired, seconds=30, what=f"{part} of {name} to be as before")

        async def as_before() -> bool:
            return bool(await cache.uids() == uids)

        await until(as_before, seconds=90, what="the extra pods to go")
        await cache.wait_ready(seconds=90)
    assert await cache.lost(writer) == []
    assert await cache.primary() == primary
    assert await cache.restarts() == 0
