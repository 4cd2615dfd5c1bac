"""What somebody broke is put right: sentinels, followers, a second primary, labels."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import until
from kubecontroller.client.objects import PODS
from kubecontroller.client.patches import MergePatch
from redis_operator.redis import commands, sentinel

pytestmark = pytest.mark.e2e


async def _ip(cache: Any, pod: str) -> str:
    return str((await cache.pods())[pod].status.pod_ip)


async def _wait_named(cache: Any, pod: str, ip: str) -> None:
    async def names() -> bool:
        return bool(await cache.named(pod) == ip)

    await until(names, seconds=60, what=f"{pod} to name {ip}")


async def test_a_sentinel_that_lost_everything_is_the_same_one_again(watched: Any) -> None:
    cache = await watched()
    primary = (await cache.wait_ready())["primary"]
    uid = (await cache.uids())["cache-sentinel-1"]
    async with cache.sentinel("cache-sentinel-1") as one:
        known = await one.run(sentinel.my_id(), timeout=5)
    await cache.delete_pods("cache-sentinel-1", grace_seconds=0)

    async def recreated() -> bool:
        found = (await cache.pods()).get("cache-sentinel-1")
        return found is not None and found.metadata.uid != uid and bool(found.status.pod_ip)

    await until(recreated, seconds=60, what="the sentinel's pod to be recreated")
    await cache.wait_ready()
    await _wait_named(cache, "cache-sentinel-1", await _ip(cache, primary))
    async with cache.sentinel("cache-sentinel-1") as one:
        assert await one.run(sentinel.my_id(), timeout=5) == known
    async with cache.sentinel("cache-sentinel-0") as other:
        found = await other.run(sentinel.primary(cache.primary_name), timeout=5)
    assert found.other_sentinels == 2  # one that moved, and none more


async def test_a_sentinel_that_names_another_server_is_corrected(watched: Any) -> None:
    cache = await watched()
    primary = (await cache.wait_ready())["primary"]
    replica = next(pod for pod, role in (await cache.roles()).items() if role == "replica")
    name = cache.primary_name
    async with cache.sentinel("cache-sentinel-0") as one:
        await one.run(sentinel.remove(name), timeout=5)
        await one.run(sentinel.monitor(name, await _ip(cache, replica), 6379, 2), timeout=5)
    await _wait_named(cache, "cache-sentinel-0", await _ip(cache, primary))
    await cache.wait_ready()
    assert await cache.primary() == primary


async def test_a_replica_of_a_replica_follows_the_primary_again(watched: Any) -> None:
    cache = await watched()
    primary = (await cache.wait_ready())["primary"]
    one, other = (pod for pod, role in (await cache.roles()).items() if role == "replica")
    async with cache.server(one) as server:
        await server.run(commands.replica_of(await _ip(cache, other), 6379), timeout=5)
    ip = await _ip(cache, primary)

    async def follows() -> bool:
        async with cache.server(one) as server:
            found = await server.run(commands.info_replication(), timeout=5)
        return bool(found.primary_host == ip and found.link_up)

    await until(follows, seconds=60, what=f"{one} to follow {primary}")
    await cache.wait_ready()


async def test_a_second_primary_follows_the_first_and_takes_no_traffic(watched: Any) -> None:
    cache = await watched()
    primary = (await cache.wait_ready())["primary"]
    one = next(pod for pod, role in (await cache.roles()).items() if role == "replica")
    async with cache.writing() as writer:
        async with cache.server(one) as server:
            await server.run(commands.replica_of_no_one(), timeout=5)

        async def follows() -> bool:
            async with cache.server(one) as server:
                found = await server.run(commands.info_replication(), timeout=5)
            return not found.is_primary and found.link_up

        await until(follows, seconds=60, what=f"{one} to follow {primary}")
        await cache.wait_ready()
    assert await cache.primary() == primary
    assert await cache.lost(writer) == []


async def test_a_label_that_was_moved_is_put_back(watched: Any) -> None:
    cache = await watched()
    await cache.wait_ready()
    roles = await cache.roles()
    replica = next(pod for pod, role in roles.items() if role == "replica")
    change = {"metadata": {"labels": {"redisoperator.dev/role": "primary"}}}
    await cache.client.patch(PODS, (cache.namespace, replica), MergePatch(change))

    async def back() -> bool:
        return bool(await cache.roles() == roles)

    await until(back, seconds=30, what="the label to be put back")


async def test_the_next_primary_is_killed_too(watched: Any) -> None:
    cache = await watched()
    first = (await cache.wait_ready())["primary"]
    async with cache.writing() as writer:
        await cache.crash(first)
        second = await cache.wait_other_primary(first)
        await cache.crash(second)
        await cache.wait_other_primary(second)
        await cache.wait_ready(seconds=90)
    assert len(await cache.lost(writer)) <= 3
