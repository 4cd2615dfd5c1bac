"""Changes that meet each other: everything at once, and something else before it is done."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from e2e.harness import until
from redis_operator.redis import commands

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


_EDITS, _AT_ONCE = 300, 10


async def test_a_hundred_edits_a_second_cost_each_pod_two_restarts_at_most(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    seen: set[str] = set((await cache.uids()).values())

    async def observe() -> None:
        while True:
            seen.update((await cache.uids()).values())
            await asyncio.sleep(0.05)

    async def edit(number: int) -> None:
        team = {"example.com/team": ("red", "green")[number % 2]}
        await cache.patch(pod={"annotations": team}, config={"slowlog-max-len": 10 + number})

    watching = asyncio.create_task(observe())
    try:
        async with cache.under_load() as application:
            for first in range(0, _EDITS, _AT_ONCE):
                await asyncio.gather(*(edit(first + n) for n in range(_AT_ONCE)))
            await cache.patch(
                pod={"annotations": {"example.com/team": "blue"}}, config={"slowlog-max-len": 7}
            )
            await until(lambda: _is_blue(cache), seconds=120, what="six blue pods", every=0.3)
            await cache.wait_ready(seconds=60)
    finally:
        watching.cancel()
    report = await application.verify()
    assert report.lost == (), report
    assert len(seen) <= 6 + 2 * 6, f"{len(seen)} pods came and went for one change"
    for pod in await cache.pods():
        async with cache.server(pod) as connection:
            found = await connection.run(commands.config_get("slowlog-max-len"), timeout=5)
        assert found == {"slowlog-max-len": "7"}


async def _is_blue(cache: Any) -> bool:
    pods = (await cache.pods()).values()
    blue = [pod.metadata.annotation("example.com/team") == "blue" for pod in pods]
    return len(blue) == 6 and all(blue)
