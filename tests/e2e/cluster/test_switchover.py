"""Primaries where people and zones want them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.harness import until

pytestmark = pytest.mark.e2e

ASKED = "redisoperator.dev/switch-primary-to"


async def test_a_switchover_on_request_is_done_once_and_without_loss(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    uids = await cache.uids()
    first = await cache.primary_of(0)
    second = "cache-0-1" if first == "cache-0-0" else "cache-0-0"
    async with cache.under_load() as application:
        await cache.annotate(**{ASKED: second})

        async def leads() -> bool:
            return bool(await cache.primary_of(0) == second)

        await until(leads, seconds=30, what=f"{second} to lead")
        await until(lambda: _is_answered(cache), seconds=30, what="the request to be answered")
        await cache.wait_ready()
    report = await application.verify()
    assert report.lost == (), report
    assert report.longest_wait_seconds < 1, report
    assert await cache.uids() == uids
    # Good for one promotion: a later failover is not undone.
    await cache.crash(second)

    async def leads_again() -> bool:
        return bool(await cache.primary_of(0) == first)

    await until(leads_again, seconds=30, what=f"{first} to lead")
    await cache.wait_ready()
    await asyncio.sleep(3)
    assert await cache.primary_of(0) == first


async def _is_answered(cache: Any) -> bool:
    return ASKED not in ((await cache.get())["metadata"].get("annotations") or {})


async def test_a_request_for_a_pod_that_is_not_there_is_told_and_does_no_harm(
    database: Any,
) -> None:
    cache = await database()
    await cache.wait_ready()
    leader = await cache.primary_of(0)
    await cache.annotate(**{ASKED: "cache-9-9"})
    await cache.wait_plan("cache-9-9")
    assert (await cache.condition("Available"))["status"] == "True"
    assert await cache.primary_of(0) == leader
    await cache.annotate(**{ASKED: None})
    await cache.wait_ready()
