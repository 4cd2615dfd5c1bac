"""A node loses its power and gets it back. On a real cluster the caller has to give the switch."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from e2e.harness import until

_HAS_SWITCH = not os.environ.get("KUBECONFIG") or {"E2E_POWER_OFF", "E2E_POWER_ON"} <= {*os.environ}
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        not _HAS_SWITCH,
        reason="give the commands that switch a node of this cluster: E2E_POWER_OFF, E2E_POWER_ON",
    ),
]


async def test_a_node_without_power_costs_a_moment_and_comes_back(
    database: Any, cluster: Any
) -> None:
    cache = await database()
    await cache.wait_ready()
    before = await cache.fill(300)
    node = (await cache.pods())[await cache.primary_of(0)].spec.node_name
    async with cache.under_load() as application:
        cluster.power("off", node)
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
            cluster.power("on", node)
        await cache.wait_ready(seconds=120)
    report = await application.verify()
    assert len(report.lost) <= 5, report  # not yet replicated when the power went
    assert await cache.check(before) == []
