from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import delete_and_wait, is_back, until
from kubecontroller.client.objects import (
    CONFIG_MAPS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
)
from kubecontroller.client.patches import MergePatch

pytestmark = pytest.mark.e2e

_DATABASE, _ROLE = "redisoperator.dev/database", "redisoperator.dev/role"


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
        await delete_and_wait(cache, kind, name)
    cache.cluster.kubectl(
        "-n", cache.namespace, "delete", "statefulset", "cache-0", "--cascade=orphan"
    )
    await until(lambda: is_back(cache, STATEFUL_SETS, "cache-0", ""), seconds=20, what="cache-0")
    await cache.wait_ready()
    assert await cache.uids() == uids
    assert await cache.restarts() == 0
    assert await cache.check(application) == []


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


async def _plain(cache: Any, kind: Any, name: str) -> Any:
    return await cache.client.get(kind.plain(), (cache.namespace, name))


@pytest.mark.parametrize("case", ["config", "budget", "labels", "owner", "role"])
async def test_what_people_edit_is_put_right_and_no_pod_is_restarted(
    database: Any, case: str
) -> None:
    cache = await database()
    await cache.wait_ready()
    uids, primary = await cache.uids(), await cache.primary_of(0)
    kind, name, change = {
        "config": (CONFIG_MAPS, "cache-config", {}),
        "budget": (POD_DISRUPTION_BUDGETS, "cache-0", {"spec": {"maxUnavailable": 2}}),
        "labels": (SERVICES, "cache", {"metadata": {"labels": {_DATABASE: None}}}),
        "owner": (SERVICES, "cache-nodes", {"metadata": {"ownerReferences": None}}),
        "role": (PODS, primary, {"metadata": {"labels": {_ROLE: "replica"}}}),
    }[case]
    before = await _plain(cache, kind, name)
    if case == "config":
        change = {"data": dict.fromkeys(before["data"], "maxmemory 1\n")}
    await cache.client.patch(kind, (cache.namespace, name), MergePatch(change))

    async def repaired() -> bool:
        return bool(_part(await _plain(cache, kind, name), case) == _part(before, case))

    await until(repaired, seconds=60, what=f"{name} to be as before")
    await cache.wait_ready()
    assert await cache.uids() == uids
    assert await cache.primary_of(0) == primary


def _part(found: Any, case: str) -> Any:
    meta = found["metadata"]
    match case:
        case "config":
            return found["data"]
        case "budget":
            return found["spec"]
        case "owner":
            return [o["uid"] for o in meta.get("ownerReferences") or ()]
        case _:
            return meta.get("labels") or {}


@pytest.mark.parametrize("name", ["cache-users", "cache-conn"])
async def test_a_deleted_secret_comes_back_and_nobody_is_locked_out(
    database: Any, name: str
) -> None:
    cache = await database()
    await cache.wait_ready()
    uids = await cache.uids()
    password = await cache.secret("cache-conn", "password")
    async with cache.under_load() as application:
        old = await cache.client.get(SECRETS, (cache.namespace, name))
        await cache.client.delete(SECRETS, (cache.namespace, name))
        await until(lambda: is_back(cache, SECRETS, name, old.metadata.uid), seconds=30, what=name)
        await cache.wait_ready(seconds=90)
    report = await application.verify()
    assert report.lost == (), report
    assert report.longest_wait_seconds < 3, report
    assert await cache.secret("cache-conn", "password") == password
    primary = await cache.primary_of(0)
    await cache.crash(primary)  # the operator can still do its work, with whatever it has now
    await cache.wait_new_primary(0, primary)
    await cache.wait_ready()
    assert await cache.uids() == uids
