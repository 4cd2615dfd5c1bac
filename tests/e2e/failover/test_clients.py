"""A client library that follows the sentinels."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from redis.asyncio.sentinel import Sentinel
from redis.exceptions import RedisError

from e2e.harness import PATIENCE, until

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("operator", ["there", "away"])
async def test_a_client_that_asks_the_sentinels_writes_on_after_a_kill(
    watched: Any, operator: str
) -> None:
    cache = await watched()
    old = (await cache.wait_ready())["primary"]
    pid = await cache.server_pid(old) if operator == "away" else 0
    password = await cache.secret("cache-conn", "password")
    assert await cache.secret("cache-conn", "sentinel-primary") == cache.primary_name
    pods = await cache.pods()
    places = [(p.status.pod_ip, 26379) for n, p in pods.items() if n.startswith("cache-sentinel")]
    asking = Sentinel(
        places, sentinel_kwargs={"password": password}, password=password, socket_timeout=PATIENCE
    )
    client = asking.master_for(cache.primary_name)
    assert await client.set("a", "1")
    if operator == "away":
        cache.cluster.stop_operator()
    try:
        if operator == "away":
            os.kill(pid, signal.SIGKILL)
        else:
            await cache.crash(old)

        async def written() -> bool:
            try:
                return bool(await client.set("a", "2"))
            except (RedisError, OSError, TimeoutError):
                return False

        await until(written, seconds=20 * PATIENCE, what="the client to write again", every=0.05)
        assert await client.get("a") == b"2"
    finally:
        if operator == "away":
            cache.cluster.start_operator()
    await cache.wait_other_primary(old)
    await cache.wait_ready(seconds=90)
    assert await client.get("a") == b"2"
    await client.aclose()
    for sentinel in asking.sentinels:
        await sentinel.aclose()
