"""The primary's place is given to a replica as planned: no acknowledged write is lost."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import PATIENCE, until

pytestmark = pytest.mark.e2e

SWITCH = "redisoperator.dev/switch-primary-to"
RESTART = "kubectl.kubernetes.io/restartedAt"


async def test_a_switchover_on_request_loses_nothing(watched: Any) -> None:
    cache = await watched()
    old = (await cache.wait_ready())["primary"]
    target = next(f"cache-{n}" for n in range(3) if f"cache-{n}" != old)
    async with cache.writing() as writer:
        await cache.annotate(**{SWITCH: target})
        assert await cache.wait_other_primary(old) == target

        async def closed() -> bool:
            return SWITCH not in ((await cache.get())["metadata"].get("annotations") or {})

        await until(closed, seconds=30, what="the request to be taken off")
        await cache.wait_ready()
    assert await cache.lost(writer) == []
    assert writer.longest < 1.0 * PATIENCE


async def test_a_primary_that_is_deleted_hands_over_first(watched: Any) -> None:
    cache = await watched()
    old = (await cache.wait_ready())["primary"]
    uid = (await cache.uids())[old]
    async with cache.writing() as writer:
        await cache.delete_pods(old)
        await cache.wait_other_primary(old)

        async def recreated() -> bool:
            return (await cache.uids()).get(old, uid) != uid

        await until(recreated, seconds=60, what=f"{old} to be recreated")
        await cache.wait_ready()
    assert await cache.lost(writer) == []
    assert writer.longest < 1.0 * PATIENCE


async def test_a_restart_on_request_replaces_every_pod_and_loses_nothing(watched: Any) -> None:
    cache = await watched()
    await cache.wait_ready()
    uids = await cache.uids()
    assert len(uids) == 6
    async with cache.writing() as writer:
        await cache.annotate(**{RESTART: "2026-01-01T00:00:00Z"})

        async def replaced() -> bool:
            found = await cache.uids()
            return len(found) == 6 and not set(found.values()) & set(uids.values())

        await until(replaced, seconds=180, what="every pod to be recreated")
        await cache.wait_ready()
    assert await cache.lost(writer) == []
    assert writer.longest < 1.0 * PATIENCE


async def test_a_primary_that_is_deleted_with_all_sentinels_hands_over_first(watched: Any) -> None:
    cache = await watched()
    old = (await cache.wait_ready())["primary"]
    uid = (await cache.uids())[old]
    async with cache.writing() as writer:
        await cache.delete_pods(*[f"cache-sentinel-{n}" for n in range(3)], old)
        await cache.wait_other_primary(old)

        async def recreated() -> bool:
            return (await cache.uids()).get(old, uid) != uid

        await until(recreated, seconds=60, what=f"{old} to be recreated")
        await cache.wait_ready()
    assert await cache.lost(writer) == []
    assert writer.longest < 1.0 * PATIENCE
