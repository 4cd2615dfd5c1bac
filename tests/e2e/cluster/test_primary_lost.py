from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.harness import until

pytestmark = pytest.mark.e2e


async def test_a_crashed_primary_is_replaced_within_half_a_second(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    victim = await cache.primary_of(0)
    async with cache.under_load() as application:
        await cache.crash(victim)
        await asyncio.sleep(3)
    await cache.wait_ready()
    report = await application.verify()
    assert report.longest_wait_seconds < 0.5, report
    assert len(report.lost) <= 3, report  # not yet replicated when the primary died
    assert await cache.primary_of(0) != victim


async def test_a_deleted_primary_hands_over_without_losing_a_write(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    victim = await cache.primary_of(1)
    async with cache.under_load() as application:
        await cache.delete_pods(victim)
        await asyncio.sleep(4)
    await cache.wait_ready()
    report = await application.verify()
    assert len(report.lost) <= 3, report
    assert report.longest_wait_seconds < 3, report


async def _has_all(cache: Any, application: Any) -> bool:
    return not await cache.check(application)


async def _leads_another(cache: Any, victim: str) -> bool:
    return bool(await cache.primary_of(2) != victim)


async def test_the_engine_fails_over_by_itself_while_the_operator_is_away(
    database: Any, cluster: Any
) -> None:
    cache = await database()
    await cache.wait_ready()
    victim = await cache.primary_of(2)
    application = await cache.fill(200)
    cluster.stop_operator()
    try:
        await cache.crash(victim)
        # node timeout and election, longer where the machine is busy
        await until(
            lambda: _has_all(cache, application), seconds=45, what="the engine to fail over"
        )
    finally:
        cluster.start_operator()
    await until(lambda: _leads_another(cache, victim), seconds=30, what="the news to be told")
    await cache.wait_ready()
    assert await cache.primary_of(2) != victim  # what it found was adopted, not undone
    assert await cache.check(application) == []
