"""The primary ends without a goodbye: another takes its place, and labels and Service follow."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import PATIENCE, until

pytestmark = pytest.mark.e2e


async def test_a_killed_primary_is_replaced_and_writes_go_on(watched: Any) -> None:
    cache = await watched()
    status = await cache.wait_ready()
    old = status["primary"]
    async with cache.writing() as writer:
        await cache.wait_streaming()
        await cache.crash(old)
        new = await cache.wait_other_primary(old)
        await cache.wait_ready()
        acknowledged = len(writer.acknowledged)
    assert acknowledged > 50
    # What the old primary acknowledged and had not sent yet is gone with it: a few writes at most.
    assert len(await cache.lost(writer)) <= 3
    assert writer.longest < 1.0 * PATIENCE
    assert (await cache.roles())[old] == "replica"
    ip = (await cache.pods())[new].status.pod_ip
    for name in ("cache-sentinel-0", "cache-sentinel-1", "cache-sentinel-2"):
        assert await cache.named(name) == ip


async def test_without_an_operator_the_sentinels_fail_over_and_it_adopts(watched: Any) -> None:
    cache = await watched()
    status = await cache.wait_ready()
    old = status["primary"]
    ip = (await cache.pods())[old].status.pod_ip
    cache.cluster.stop_operator()
    try:
        async with cache.frozen(old):
            new = await _named_by_sentinels(cache, ip)
    finally:
        cache.cluster.start_operator()
    found = await cache.wait_other_primary(old)
    assert (await cache.pods())[found].status.pod_ip == new
    await cache.wait_ready()
    assert (await cache.roles())[old] == "replica"


async def _named_by_sentinels(cache: Any, old: str) -> str:
    """Wait until all sentinels name another address."""

    async def other() -> str:
        named = {await cache.named(f"cache-sentinel-{n}") for n in range(3)}
        return named.pop() if len(named) == 1 and old not in named else ""

    found: str = await until(other, seconds=40, what="the sentinels to fail over")
    return found
