"""An upgrade while an application writes, and a downgrade that is refused."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from e2e.harness import PATIENCE, until
from e2e.standalone.conftest import STORED
from e2e.versions import two_versions
from redis_operator.redis.command import Command

pytestmark = pytest.mark.e2e

_SERVER: re.Pattern[str] = re.compile(r"(valkey|redis)_version:(\d+\.\d+)")


def _version(answer: Any) -> str:
    """Read INFO as Valkey means it: what it calls `redis_version` is what it is compatible with."""
    return max(_SERVER.findall(bytes(answer).decode()), key=lambda found: found[0])[1]


_VERSION: Command[str] = Command(("INFO", "server"), _version)


async def _versions(cache: Any) -> set[str]:
    """Return what servers and sentinels say they run."""
    found = set()
    for pod in await cache.pods():
        opened = cache.sentinel(pod) if "sentinel" in pod else cache.server(pod)
        async with opened as connection:
            told = await connection.run(_VERSION, timeout=5)
        found.add(told)
    return found


@pytest.mark.parametrize("spec", [{}, STORED], ids=["in memory", "on volumes"])
async def test_an_upgrade_under_load_loses_nothing_and_the_way_back_is_refused(
    watched: Any, cluster: Any, spec: dict[str, Any]
) -> None:
    old, new = await two_versions(cluster)
    cache = await watched(**spec, **old)
    await cache.wait_ready(seconds=90)
    assert await _versions(cache) == {old["version"]}
    uids = await cache.uids()
    async with cache.writing() as writer:
        await cache.patch(**new)

        async def replaced() -> bool:
            found = await cache.uids()
            return found.keys() == uids.keys() and not set(found.values()) & set(uids.values())

        await until(replaced, seconds=180, what="every pod to be recreated", every=0.3)
        status = await cache.wait_ready(seconds=90)
    assert await cache.lost(writer) == []
    assert writer.longest < 1.0 * PATIENCE
    assert await _versions(cache) == {new["version"]}
    assert status["version"].startswith(new["version"])
    assert "lastDataLoss" not in status

    uids = await cache.uids()
    await cache.patch(**old)
    line = await cache.wait_plan("cannot read its data")
    assert f"runs {new['engine']} {new['version']}" in line
    await asyncio.sleep(3)
    assert await cache.uids() == uids
    await cache.patch(**new)
    await cache.wait_ready(seconds=60)
    assert await cache.uids() == uids
    assert await cache.lost(writer) == []
