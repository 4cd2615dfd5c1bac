"""The primary's node is drained: it hands over before it goes."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from e2e.harness import PATIENCE, Cluster

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        int(os.environ.get("E2E_NODES", "3")) < 3, reason="a drain needs nodes that are left"
    ),
]


async def test_a_drain_of_the_primary_s_node_loses_nothing(watched: Any, cluster: Cluster) -> None:
    cache = await watched()
    old = (await cache.wait_ready())["primary"]
    node = (await cache.pods())[old].spec.node_name
    async with cache.writing() as writer:
        try:
            await asyncio.to_thread(
                cluster.kubectl,
                *("drain", node, "--ignore-daemonsets", "--delete-emptydir-data"),
                *("--pod-selector", "redisoperator.dev/database=cache", "--timeout", "100s"),
            )
            await cache.wait_other_primary(old)
        finally:
            cluster.kubectl("uncordon", node)
        await cache.wait_ready(seconds=120)
    assert await cache.lost(writer) == []
    assert writer.longest < 1.0 * PATIENCE
