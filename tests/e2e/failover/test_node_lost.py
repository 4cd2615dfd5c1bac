"""The node of the primary and of a sentinel loses its power."""

from __future__ import annotations

import os
from typing import Any

import pytest

from e2e.harness import Cluster
from redis_operator.redis import sentinel
from redis_operator.redis.command import Command

pytestmark = pytest.mark.e2e
SENTINELS = [f"cache-sentinel-{n}" for n in range(3)]


async def test_the_sentinels_fail_over_from_a_node_without_power(
    watched: Any, cluster: Cluster
) -> None:
    if not cluster.is_local and "E2E_POWER_OFF" not in os.environ:
        pytest.skip("no command cuts a node's power")
    cache = await watched()
    old = (await cache.wait_ready())["primary"]
    assert await _known(cache) == [2, 2, 2], "Ready: every sentinel has heard of both replicas"
    await _lose_power(cache, cluster, old)


async def test_a_primary_whose_replicas_no_sentinel_has_heard_of_is_replaced(
    watched: Any, cluster: Cluster
) -> None:
    """They hold it for dead, elect, and give up; the operator asks for their votes and promotes."""
    if not cluster.is_local and "E2E_POWER_OFF" not in os.environ:
        pytest.skip("no command cuts a node's power")
    cache = await watched()
    old = (await cache.wait_ready())["primary"]
    await _lose_power(cache, cluster, old, forget=True)


async def _lose_power(cache: Any, cluster: Cluster, old: str, *, forget: bool = False) -> None:
    pods = await cache.pods()
    node = pods[old].spec.node_name
    left = [name for name in SENTINELS if pods[name].spec.node_name != node]
    async with cache.writing() as writer:
        cluster.power("off", node)
        try:
            if forget:
                await _forget_replicas(cache, left, str(pods[old].status.pod_ip))
            await cache.wait_other_primary(old, seconds=60)
        finally:
            cluster.power("on", node)
        await cache.wait_ready(seconds=180)
    assert len(await cache.lost(writer)) <= 3
    assert await _known(cache) == [2, 2, 2]


async def _forget_replicas(cache: Any, names: list[str], ip: str) -> None:
    """Have sentinels begin again with a primary that cannot be asked for its replicas any more."""
    pods = await cache.pods()
    settings = {"down-after-milliseconds": "5000", "failover-timeout": "30000"}
    ids = {}
    for name in names:
        async with cache.sentinel(name) as connection:
            ids[name] = await connection.run(sentinel.my_id(), timeout=5)
    for name in names:
        others = [
            sentinel.hello(
                (str(pods[other].status.pod_ip), 26379, ids[other]), cache.primary_name, (ip, 6379)
            )
            for other in names
            if other != name
        ]
        words: list[Command[Any]] = [
            sentinel.remove(cache.primary_name),
            sentinel.monitor(cache.primary_name, ip, 6379, 2),
            sentinel.set_options(cache.primary_name, settings),
            *others,
        ]
        async with cache.sentinel(name) as connection:
            for answer in await connection.run_all(words, timeout=5):
                assert not isinstance(answer, Exception), answer
            found = await connection.run(sentinel.primary(cache.primary_name), timeout=5)
        assert (found.replicas, found.ip) == (0, ip)


async def _known(cache: Any) -> list[int]:
    """How many replicas each sentinel has heard of."""
    found = []
    for name in SENTINELS:
        async with cache.sentinel(name) as connection:
            primary = await connection.run(sentinel.primary(cache.primary_name), timeout=5)
        found.append(primary.replicas)
    return found
