"""Persistence that is changed while servers run, and killed in between. CL-33"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("replicas", [0, 1])
async def test_no_key_is_lost_whatever_persistence_is_changed_to(
    database: Any, replicas: int
) -> None:
    cache = await database(
        storage={"size": "1Gi"},
        replicas=replicas,
        durability={"persistence": "rdb"},
    )
    await cache.wait_ready(seconds=90)
    before = await cache.fill(300)
    for persistence in ("aof", "rdb", "both"):
        await cache.patch(durability={"persistence": persistence})
        await cache.wait_ready(seconds=180)
        assert await cache.check(before) == [], persistence
    await asyncio.sleep(1.5)  # what is written once a second is on disk
    for pod in await cache.pods():
        await cache.crash(pod)
    await cache.wait_condition("Available", "False", seconds=30)
    await cache.wait_ready(seconds=120)
    assert await cache.check(before) == []
