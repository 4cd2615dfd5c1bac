"""A replica whose buffer overflows copies everything again and again: told, and cured. ST-06"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.cluster.test_memory import Writer, tag_of
from redis_operator.redis import commands

pytestmark = pytest.mark.e2e

_SMALL = {"repl-backlog-size": "16384", "client-output-buffer-limit": "replica 32768 32768 1"}
_LARGE = {"repl-backlog-size": "64mb", "client-output-buffer-limit": "replica 256mb 64mb 60"}


async def _write_on(writer: Writer, tag: str) -> None:
    """Write values larger than the buffer, each of which throws the replica off."""
    number = 0
    while True:
        number += 1
        await writer.ask("SET", f"{{{tag}}}{number % 20}", "x" * 200_000)
        await asyncio.sleep(0.3)


async def test_a_replica_that_is_thrown_off_again_and_again_is_told_and_larger_buffers_cure_it(
    database: Any,
) -> None:
    cache = await database(config=_SMALL)
    await cache.wait_ready()
    uids, primary, tag = await cache.uids(), await cache.primary_of(0), await tag_of(cache, 0)
    writer = await Writer.of(cache, primary)
    task = asyncio.create_task(_write_on(writer, tag))
    try:
        told = await cache.wait_condition("Degraded", "True", reason="ReplicaOutOfSync", seconds=90)
        for part in (primary, "repl-backlog-size", "client-output-buffer-limit"):
            assert part in told["message"]
        assert await cache.primary_of(0) == primary
        await cache.patch(config=_LARGE)
        await cache.wait_condition("ConfigApplied", "True", seconds=60)
        async with cache.server(primary) as connection:
            await asyncio.sleep(5)  # whoever was copying is done
            before = (await connection.run(commands.info(), timeout=5)).stats.full_syncs
            await asyncio.sleep(10)
            after = (await connection.run(commands.info(), timeout=5)).stats.full_syncs
        assert after == before, "its replica is in sync again, and stays so"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        writer.close()
    assert await cache.uids() == uids
