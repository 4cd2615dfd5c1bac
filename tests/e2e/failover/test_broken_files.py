"""Files that cannot be loaded: their server copies the primary again, in mode Failover. ST-07"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.cluster.test_broken_files import break_files, claim_uids
from e2e.harness import until

pytestmark = pytest.mark.e2e

STORED = {"storage": {"size": "64Mi"}, "durability": {"persistence": "aof"}}


async def _is_new(cache: Any, pod: str, uids: dict[str, str]) -> bool:
    return (await cache.uids()).get(pod, uids[pod]) != uids[pod]


async def test_a_replica_with_broken_files_copies_its_primary_again(watched: Any) -> None:
    cache = await watched(**STORED)
    await cache.wait_ready(seconds=90)
    async with cache.writing() as writer:
        pass
    uids, claims = await cache.uids(), await claim_uids(cache)
    primary = await cache.primary()
    replica = next(pod for pod in await cache.roles() if pod != primary)
    await break_files(cache, replica)
    await until(lambda: _is_new(cache, replica, uids), seconds=120, what=f"a new {replica}")
    await cache.wait_ready(seconds=120)
    now, pods = await claim_uids(cache), await cache.uids()
    assert [name for name in claims if now[name] != claims[name]] == [f"data-{replica}"]
    assert [name for name in uids if pods[name] != uids[name]] == [replica]
    assert await cache.primary() == primary
    assert await cache.lost(writer) == []


async def test_a_primary_with_broken_files_is_replaced_and_then_copies_its_successor(
    watched: Any,
) -> None:
    cache = await watched(**STORED)
    await cache.wait_ready(seconds=90)
    async with cache.writing() as writer:
        pass
    await asyncio.sleep(1)  # replicas have it all
    uids, primary = await cache.uids(), await cache.primary()
    await break_files(cache, primary)
    await until(lambda: _is_new(cache, primary, uids), seconds=120, what=f"a new {primary}")
    await cache.wait_ready(seconds=120)
    assert await cache.primary() != primary
    assert await cache.lost(writer) == []
