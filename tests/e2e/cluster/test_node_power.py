"""A node loses its power and gets it back. Only collected where this machine holds the switch."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.harness import until

pytestmark = pytest.mark.e2e


async def test_a_node_without_power_costs_a_moment_and_comes_back(
    database: Any, cluster: Any
) -> None:
    cache = await database()
    await cache.wait_ready()
    before = await cache.fill(300)
    node = (await cache.pods())[await cache.primary_of(0)].spec.node_name
    async with cache.under_load() as application:
        cluster.node("stop", node)
        try:

            async def moved() -> bool:
                pods = await cache.pods()
                leaders = [await cache.primary_of(shard) for shard in range(3)]
                return all(leaders) and all(
                    name not in pods or pods[name].spec.node_name != node for name in leaders
                )

            await until(moved, seconds=60, what="primaries elsewhere")
            assert (await cache.condition("Ready"))["status"] == "False"
            await asyncio.sleep(3)
        finally:
            cluster.node("start", node)
        await cache.wait_ready(seconds=120)
    report = await application.verify()
    assert len(report.lost) <= 5, report  # not yet replicated when the power went
    assert await cache.check(before) == []
