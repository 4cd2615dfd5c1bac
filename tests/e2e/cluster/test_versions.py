"""Upgrades of a running database, and downgrades that are refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.harness import until
from e2e.versions import two_versions
from redis_operator.redis import commands

pytestmark = pytest.mark.e2e


async def _versions(cache: Any) -> set[str]:
    found = set()
    for pod in await cache.pods():
        async with cache.server(pod) as connection:
            info = await connection.run(commands.info(), timeout=5)
        found.add(".".join(info.server.version.split(".")[:2]))
    return found


async def test_an_upgrade_loses_nothing_and_the_way_back_is_refused(
    database: Any, cluster: Any
) -> None:
    old, new = await two_versions(cluster)
    cache = await database(**old)
    await cache.wait_ready(seconds=90)
    assert await _versions(cache) == {old["version"]}
    uids = await cache.uids()
    async with cache.under_load() as application:
        await cache.patch(**new)
        await until(lambda: _rolled(cache, uids), seconds=150, what="the upgrade", every=0.3)
        status = await cache.wait_ready(seconds=60)
    report = await application.verify()
    assert report.lost == (), report
    assert report.longest_wait_seconds < 2, report
    assert await _versions(cache) == {new["version"]}
    assert status["version"].startswith(new["version"])
    uids = await cache.uids()
    await cache.patch(**old)
    line = await cache.wait_plan("cannot read its data")
    assert f"runs {new['engine']} {new['version']}" in line
    await asyncio.sleep(3)
    assert await cache.uids() == uids
    assert await _versions(cache) == {new["version"]}
    await cache.patch(**new)
    await cache.wait_ready(seconds=60)
    assert await cache.uids() == uids
    assert await cache.check(application) == []


async def _rolled(cache: Any, old: dict[str, str]) -> bool:
    now = await cache.uids()
    return now.keys() == old.keys() and not set(now.values()) & set(old.values())
