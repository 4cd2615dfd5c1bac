"""Sentinels that know nothing and a primary that is dead, for a minute: replicas are left alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.harness import until

pytestmark = pytest.mark.e2e


async def test_replicas_that_have_the_data_outlive_bare_sentinels_and_a_dead_primary(
    watched: Any,
) -> None:
    """Nobody can promote one, and nothing restarts them; the operator is away. SE-22"""
    cache = await watched()
    old = (await cache.wait_ready())["primary"]
    replicas = {pod for pod, role in (await cache.roles()).items() if role == "replica"}
    uids = await cache.uids()
    async with cache.writing() as writer:
        pass
    cache.cluster.stop_operator()
    try:
        sentinels = [pod for pod in uids if "sentinel" in pod]
        await cache.delete_pods(*sentinels, grace_seconds=0)
        await cache.delete_pods(old, grace_seconds=0)

        async def replaced() -> bool:
            found = await cache.uids()
            return all(found.get(pod, uids[pod]) != uids[pod] for pod in (*sentinels, old))

        await until(replaced, seconds=60, what="sentinels and the primary to be recreated")
        await asyncio.sleep(60)  # longer than any probe is patient
        found = await cache.pods()
        for pod in replicas:
            assert found[pod].metadata.uid == uids[pod]
            assert all(c.restart_count == 0 for c in found[pod].status.container_statuses)
    finally:
        cache.cluster.start_operator()
    assert await cache.wait_other_primary(old, seconds=90) in replicas
    status = await cache.wait_ready(seconds=90)
    assert await cache.lost(writer) == []
    assert "lastDataLoss" not in status
