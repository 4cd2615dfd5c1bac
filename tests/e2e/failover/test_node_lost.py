"""The node of the primary and of a sentinel loses its power."""

from __future__ import annotations

import os
from typing import Any

import pytest

from e2e.harness import Cluster

pytestmark = pytest.mark.e2e


async def test_the_sentinels_fail_over_from_a_node_without_power(
    watched: Any, cluster: Cluster
) -> None:
    if not cluster.is_local and "E2E_POWER_OFF" not in os.environ:
        pytest.skip("no command cuts a node's power")
    cache = await watched()
    old = (await cache.wait_ready())["primary"]
    node = (await cache.pods())[old].spec.node_name
    async with cache.writing() as writer:
        cluster.power("off", node)
        try:
            await cache.wait_other_primary(old, seconds=60)
        finally:
            cluster.power("on", node)
        await cache.wait_ready(seconds=180)
    assert len(await cache.lost(writer)) <= 3
