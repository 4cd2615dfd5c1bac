"""Shards come and go under load: only slots move, nothing restarts, nothing is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.harness import until
from redis_operator.redis import commands
from redis_operator.redis.errors import RedisError
from redis_operator.redis.slots import SlotSet

pytestmark = pytest.mark.e2e


async def test_shards_are_added_and_taken_away_under_load(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    old = await cache.uids()
    before = await cache.fill(3000)
    async with cache.under_load() as application:
        for shards in (4, 5, 3):
            await cache.patch(shards=shards)
            status = await cache.wait_ready(shards=shards, seconds=120)
            shares = [len(SlotSet.parse(s["slots"])) for s in status["shards"]]
            assert len(shares) == shards
            assert sum(shares) == 16384
            assert max(shares) - min(shares) <= 1
            assert status["ready"] == f"{2 * shards}/{2 * shards}"
    report = await application.verify()
    assert report.lost == (), report
    assert report.longest_wait_seconds < 3, report
    assert await cache.check(before) == []
    await until(lambda: _has_pods(cache, set(old)), seconds=60, what="the old pods to be gone")
    assert await cache.uids() == old  # those that stayed were not touched
    assert await cache.restarts() == 0
    budgets = cache.cluster.kubectl("-n", cache.namespace, "get", "pdb", "-o", "name").split()
    assert len(budgets) == 3


async def _has_pods(cache: Any, names: set[str]) -> bool:
    return set(await cache.pods()) == names


async def test_a_spec_taken_back_halfway_turns_round(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    old = await cache.uids()
    async with cache.under_load() as application:
        await cache.patch(shards=5)
        await until(lambda: _slots_move(cache), seconds=60, what="slots to move", every=0.02)
        await cache.patch(shards=3)
        await cache.wait_ready(shards=3, seconds=120)
    report = await application.verify()
    assert report.lost == (), report
    await until(lambda: _has_pods(cache, set(old)), seconds=60, what="the new pods to be gone")
    assert await cache.uids() == old


async def _slots_move(cache: Any) -> bool:
    """Tell whether a pod of a new shard takes part in a move, or owns something already."""
    for name in ("cache-3-0", "cache-3-1", "cache-4-0", "cache-4-1"):
        pod = (await cache.pods()).get(name)
        if pod is None or not pod.status.pod_ip:
            continue
        try:
            async with cache.server(name) as connection:
                nodes = await connection.run(commands.cluster_nodes(), timeout=5)
        except (OSError, RedisError):
            continue
        myself = next(node for node in nodes if node.is_myself)
        if myself.slots or myself.importing:
            return True
    return False


async def test_an_operator_killed_while_slots_move_finishes_the_move(
    database: Any, cluster: Any
) -> None:
    cache = await database()
    await cache.wait_ready()
    async with cache.under_load() as application:
        await cache.patch(shards=4)
        await until(lambda: _slots_move(cache), seconds=60, what="slots to move", every=0.02)
        cluster.kill_operator()
        await cache.wait_ready(shards=4, seconds=120)
    report = await application.verify()
    assert report.lost == (), report


@pytest.mark.parametrize("end", ["source", "target"])
async def test_an_end_of_a_move_that_dies_loses_nothing_that_was_replicated(
    database: Any, end: str
) -> None:
    cache = await database()
    await cache.wait_ready()
    before = await cache.fill(2000)
    async with cache.under_load() as application:
        await cache.patch(shards=4)
        await until(lambda: _slots_move(cache), seconds=60, what="slots to move", every=0.02)
        victim = await cache.primary_of(0) if end == "source" else await _leader(cache, 3)
        await cache.crash(victim)
        await asyncio.sleep(2)
        await cache.wait_ready(shards=4, seconds=120)
    report = await application.verify()
    assert len(report.lost) <= 5, report  # not yet replicated when it died
    assert await cache.check(before) == []


async def _leader(cache: Any, shard: int) -> str:
    for name in sorted(await cache.pods()):
        if not name.startswith(f"cache-{shard}-"):
            continue
        async with cache.server(name) as connection:
            nodes = await connection.run(commands.cluster_nodes(), timeout=5)
        myself = next(node for node in nodes if node.is_myself)
        if myself.slots or myself.importing:
            return str(name)
    return f"cache-{shard}-0"


async def test_shards_stay_when_the_data_would_not_fit_into_fewer(database: Any) -> None:
    cache = await database(shards=4, config={"repl-backlog-size": "1mb"})
    await cache.wait_ready(seconds=90)
    before = await cache.fill(300)
    used = [await _used_memory(cache, shard) for shard in range(4)]
    await cache.patch(config={"maxmemory": str(round(max(used) * 1.25))})
    await cache.wait_ready()
    await cache.patch(shards=3)
    line = await cache.wait_plan("maxmemory is")
    assert "would get about" in line
    status = await cache.status()
    assert len(status["shards"]) == 4
    assert status["slots"] == "16384/16384"
    assert await cache.check(before) == []
    await cache.patch(shards=4)
    await cache.wait_ready()


async def _used_memory(cache: Any, shard: int) -> int:
    async with cache.server(await cache.primary_of(shard)) as connection:
        info = await connection.run(commands.info(), timeout=5)
    return int(info.memory.used_bytes)


async def test_a_leaving_shard_is_known_by_what_it_owns_and_not_by_its_first_pod(
    database: Any,
) -> None:
    cache = await database(shards=4)
    await cache.wait_ready(seconds=90)
    before = await cache.fill(1000)
    first = await cache.primary_of(3)
    second = "cache-3-1" if first == "cache-3-0" else "cache-3-0"
    await cache.annotate(**{"redisoperator.dev/switch-primary-to": second})
    assert await cache.wait_new_primary(3, first) == second
    await cache.wait_ready()
    async with cache.under_load() as application:
        await cache.patch(shards=3)
        await cache.wait_ready(shards=3, seconds=120)
    report = await application.verify()
    assert report.lost == (), report
    assert await cache.check(before) == []
