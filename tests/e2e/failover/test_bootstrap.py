"""A database starts as a replica of a server elsewhere, follows it, and is promoted on request."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import until
from e2e.outside import Outside
from redis_operator.redis import commands

pytestmark = pytest.mark.e2e

ACCEPT = "redisoperator.dev/accept-data-loss"


async def follows(cache: Any, pod: str) -> str:
    async with cache.server(pod) as connection:
        found = (await connection.run(commands.info(), timeout=5)).replication
    return "" if found.is_primary else f"{found.primary_host}:{found.primary_port}"


async def test_it_follows_under_load_and_is_promoted_with_every_write(
    watched: Any, outside: Outside
) -> None:
    await outside.start()
    await outside.write(500)
    cache = await watched(bootstrap={"fromRedis": await outside.secret()})
    async with outside.under_load():
        await cache.wait_condition("Following", "True", reason="InSync")
        status = await cache.status()
        assert status["phase"] == "Following"
        assert status["source"]["address"] == f"{outside.address}:6379"
        assert status["source"]["link"] == "up"
        assert not status.get("primary")
        assert "fromRedis" in status["message"]
        assert (await cache.condition("Available"))["reason"] == "ReadOnly"
        assert (await cache.condition("Degraded"))["status"] == "False"
        head = status["source"]["pod"]
        heads = [pod for pod in await cache.roles() if await follows(cache, pod) == f"{outside.address}:6379"]
        assert heads == [head]
        assert set((await cache.roles()).values()) == {"replica"}
        assert [await cache.named(f"cache-sentinel-{n}") for n in range(3)] == ["", "", ""]
        assert [r["link"] for r in status["shards"][0]["replicas"]].count("up") == 2
    await cache.patch(bootstrap={"fromRedis": None})  # whoever wrote there has just stopped
    status = await cache.wait_ready()
    assert status["primary"] == head
    assert "source" not in status
    peer = await cache.connect()
    assert await outside.missing(peer) == []
    assert await peer.ask("SET", "new", "1") == "OK"
    peer.close()
    assert {await cache.named(f"cache-sentinel-{n}") for n in range(3)} == {
        (await cache.pods())[head].status.pod_ip
    }
    assert await outside.run("GET", "new") is None
