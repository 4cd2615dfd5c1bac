"""Servers that are there and do not respond: suspended, or busy. ST-10, ST-13, CL-13"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import pytest

from e2e.cluster.test_memory import Writer

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        bool(os.environ.get("KUBECONFIG")), reason="suspends server processes of this machine"
    ),
]

_ON_WAKING = 30  # acknowledged by a primary that wakes before it hears that it was replaced


async def test_a_frozen_primary_is_replaced_by_the_engine_and_returns_as_a_replica(
    database: Any,
) -> None:
    cache = await database()
    await cache.wait_ready()
    before = await cache.fill(300)
    uids, primary = await cache.uids(), await cache.primary_of(0)
    async with cache.under_load() as application:
        async with cache.frozen(primary):
            replica = await cache.wait_new_primary(0, primary, seconds=60)
            await asyncio.sleep(3)  # more than the probes' patience
        await cache.wait_ready(seconds=60)
    report = await application.verify()
    assert len(report.lost) <= _ON_WAKING, report
    assert await cache.check(before) == []
    assert await cache.primary_of(0) == replica
    assert not (await cache.myself(primary)).is_primary
    assert await cache.uids() == uids
    assert await cache.restarts() == 0


async def test_half_of_the_servers_silent_for_a_moment_makes_nobody_act(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    uids = await cache.uids()
    primaries = [await cache.primary_of(shard) for shard in range(3)]
    spare = next(name for name in uids if name.startswith("cache-2-") and name != primaries[2])
    silent = [primaries[0], primaries[1], spare]
    before = {pod: await cache.myself(pod) for pod in uids}
    async with cache.under_load() as application:
        async with cache.frozen(*silent):
            await asyncio.sleep(3)  # less than the node timeout, more than a probe waits
        await cache.wait_ready()
    report = await application.verify()
    assert report.lost == (), report
    now = {pod: await cache.myself(pod) for pod in uids}
    for pod, node in before.items():
        told = (now[pod].id, now[pod].is_primary, now[pod].slots, now[pod].config_epoch)
        assert told == (node.id, node.is_primary, node.slots, node.config_epoch), pod
    assert await cache.uids() == uids
    assert await cache.restarts() == 0


_LOOP = "local n = 0; while n < tonumber(ARGV[1]) do n = n + 1 end; return n"


async def test_a_server_that_is_busy_with_a_script_is_left_alone(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    uids, primary = await cache.uids(), await cache.primary_of(0)
    epoch = (await cache.myself(primary)).config_epoch
    writer = await Writer.of(cache, primary)
    try:
        turns = 1_000_000
        begun = time.monotonic()
        await writer.ask("EVAL", _LOOP, "0", str(turns))
        each = (time.monotonic() - begun) / turns
        async with cache.under_load() as application:
            for _ in range(3):  # each time longer than a probe waits, shorter than the node timeout
                await writer.ask("EVAL", _LOOP, "0", str(round(2.5 / each)))
                await asyncio.sleep(0.5)
            await cache.wait_ready()
    finally:
        writer.close()
    report = await application.verify()
    assert report.lost == (), report
    assert await cache.primary_of(0) == primary
    assert (await cache.myself(primary)).config_epoch == epoch
    assert await cache.uids() == uids
    assert await cache.restarts() == 0
