"""Changes that meet each other: everything at once, and something else before it is done."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from e2e.harness import until

pytestmark = pytest.mark.e2e


async def test_shards_replicas_settings_and_pods_change_in_one_edit(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    before = await cache.fill(500)
    async with cache.under_load() as application:
        await cache.patch(
            shards=4,
            replicas=2,
            config={"slowlog-max-len": 50},
            pod={"annotations": {"example.com/team": "blue"}},
        )

        async def arrived() -> bool:
            pods = (await cache.pods()).values()
            blue = [p.metadata.annotation("example.com/team") == "blue" for p in pods]
            return len(blue) == 12 and all(blue)

        await until(arrived, seconds=150, what="12 new pods", every=0.3)
        await cache.wait_ready(shards=4, seconds=90)
    report = await application.verify()
    assert report.lost == (), report
    assert await cache.check(before) == []


async def test_a_spec_that_changes_all_the_time_ends_where_it_ends(database: Any) -> None:
    seed = 11
    chance = random.Random(seed)
    cache = await database()
    await cache.wait_ready()
    async with cache.under_load() as application:
        for _ in range(8):
            await cache.patch(
                shards=chance.choice([3, 4]),
                replicas=chance.choice([1, 2]),
                config={"slowlog-max-len": chance.choice([10, 20])},
            )
            await asyncio.sleep(chance.uniform(0.2, 3.0))
        await cache.patch(shards=3, replicas=1, config={"slowlog-max-len": None})
        await cache.wait_ready(shards=3, seconds=120)
    report = await application.verify()
    assert report.lost == (), report

    async def back() -> bool:
        return len(await cache.pods()) == 6

    await until(back, seconds=60, what="six pods")
