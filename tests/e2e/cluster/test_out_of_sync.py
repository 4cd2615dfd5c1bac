"""A replica that never gets in sync is reported, and never promoted. ST-06"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.cluster.test_memory import Writer, tag_of

pytestmark = pytest.mark.e2e

# Every value is larger than what may wait for a replica, so each write cuts the replica off.
_TIGHT = {"client-output-buffer-limit": "replica 16kb 16kb 1", "repl-backlog-size": "16kb"}
_FREE = {"client-output-buffer-limit": None, "repl-backlog-size": None}


async def _write_for_ever(writer: Writer, tag: str) -> None:
    while True:
        await writer.write(tag, 1)


async def test_a_replica_that_is_cut_off_again_and_again_is_reported_and_holds_up_a_roll(
    database: Any,
) -> None:
    cache = await database()
    await cache.wait_ready()
    await cache.patch(config=_TIGHT)
    await cache.wait_ready()
    uids, primary = await cache.uids(), await cache.primary_of(0)
    writer = await Writer.of(cache, primary)
    writing = asyncio.create_task(_write_for_ever(writer, await tag_of(cache, 0)))
    try:
        replica = next(n for n in uids if n.startswith("cache-0-") and n != primary)
        found = await cache.wait_condition("Degraded", "True", seconds=120)
        assert replica in found["message"]
        await cache.patch(pod={"annotations": {"example.com/team": "blue"}})
        await asyncio.sleep(10)
        assert (await cache.uids())[primary] == uids[primary]
        assert await cache.primary_of(0) == primary
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        writer.close()
    await cache.patch(config=_FREE)
    await cache.wait_ready(seconds=120)
