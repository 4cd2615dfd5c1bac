from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import until
from redis_operator.cli.application import ApplicationReport

pytestmark = pytest.mark.e2e


async def _crash_a_primary(database: Any) -> tuple[Any, str, ApplicationReport]:
    """Crash a primary under load; return the database, the victim, and what was noticed."""
    cache = await database()
    await cache.wait_ready()
    victim = await cache.primary_of(0)
    async with cache.under_load() as application:
        await cache.crash(victim)
        await cache.wait_new_primary(0, victim, seconds=60)
    return cache, victim, await application.verify()


async def test_a_crashed_primary_is_replaced_within_half_a_second(database: Any) -> None:
    cache, victim, report = await _crash_a_primary(database)
    assert report.longest_wait_seconds < 0.5, report
    assert len(report.lost) <= 3, report  # not yet replicated when the primary died
    await cache.wait_ready()
    assert await cache.primary_of(0) != victim


async def test_without_the_assisted_failover_half_a_second_is_not_kept(
    database: Any, cluster: Any
) -> None:
    """The test above must fail when nobody but the engine replaces the primary."""
    with cluster.operator_without("assist"):
        _, _, report = await _crash_a_primary(database)
    assert report.longest_wait_seconds >= 0.5, report
    assert report.unfinished == 0


async def test_a_deleted_primary_hands_over_without_losing_a_write(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    victim = await cache.primary_of(1)
    uid = (await cache.uids())[victim]
    async with cache.under_load() as application:
        await cache.delete_pods(victim)
        await cache.wait_new_primary(1, victim)
        await until(lambda: _is_new(cache, victim, uid), seconds=60, what=f"a new {victim}")
        await cache.wait_ready()
    report = await application.verify()
    assert report.lost == (), report
    assert report.longest_wait_seconds < 3, report
    assert await cache.primary_of(1) != victim


async def _is_new(cache: Any, pod: str, uid: str) -> bool:
    return bool((await cache.uids()).get(pod, uid) != uid)


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


async def test_a_dead_primary_is_forgotten_only_after_its_slots_have_another_owner(
    database: Any, cluster: Any
) -> None:
    cache = await database()
    await cache.wait_ready()
    application = await cache.fill(200)
    victim, witness = await cache.primary_of(0), await cache.primary_of(1)
    dead = (await cache.myself(victim)).id
    with cluster.operator_without("assist"):  # so that the election takes its time
        await cache.delete_pods(victim, grace_seconds=0)

        async def forgotten() -> bool:
            nodes = await cache.nodes_of(witness)
            owned = sum(len(node.slots) for node in nodes)
            assert owned == 16384, "slots of a node that was forgotten"
            return all(node.id != dead for node in nodes)

        await until(forgotten, seconds=90, what=f"{dead} to be forgotten", every=0.02)
        await cache.wait_new_primary(0, victim, seconds=60)
    await cache.wait_ready(seconds=60)
    assert len(await cache.check(application)) <= 3
