"""Three servers and three sentinels: created, found by Services, and told of in the status."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import until
from redis_operator.redis import sentinel

pytestmark = pytest.mark.e2e

SENTINELS = [f"cache-sentinel-{n}" for n in range(3)]


async def test_four_lines_of_yaml_become_a_primary_replicas_and_sentinels(watched: Any) -> None:
    cache = await watched()
    status = await cache.wait_ready()
    assert (status["ready"], status["phase"]) == ("3/3", "Ready")
    primary = status["primary"]
    assert primary in ("cache-0", "cache-1", "cache-2")
    assert await cache.roles() == {
        name: "primary" if name == primary else "replica"
        for name in ("cache-0", "cache-1", "cache-2")
    }
    assert status["endpoints"]["sentinels"].endswith(":26379")
    assert status["endpoints"]["primaryName"] == cache.primary_name
    ip = (await cache.pods())[primary].status.pod_ip
    for name in SENTINELS:
        assert await cache.named(name) == ip
        async with cache.sentinel(name) as connection:
            found = await connection.run(sentinel.primary(cache.primary_name), timeout=5)
        assert (found.quorum, found.down_after_ms) == (2, 5000)

    async def reachable() -> bool:
        try:
            return bool(await cache.run("SET", "a", "1") == "OK")
        except (OSError, AssertionError):
            return False

    await until(reachable, seconds=10, what="the Service to lead to the primary")
