"""All shards of a cluster are backed up at one moment, while an application writes."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.e2e


async def test_writes_wait_for_a_moment_and_all_shards_are_of_it(database: Any, store: Any) -> None:
    cache = await database(shards=3, replicas=1)
    await cache.wait_ready(seconds=120)
    async with cache.under_load() as application:
        store.take("monday", consistency="Cut", verify=True)
        status = await store.wait("monday", "Completed", seconds=120)
    assert 0 < status["pausedMilliseconds"] < 3000
    assert len(status["parts"]) == 3
    primaries = {shard["primary"] for shard in (await cache.status())["shards"]}
    assert not primaries & {part["pod"] for part in status["parts"]}
    assert await cache.check(application) == []
