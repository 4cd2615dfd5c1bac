"""Disks that are really full: servers refuse writes, the status says so, and nobody is moved."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from e2e.cluster.test_memory import Writer, tag_of
from e2e.disks import Disk
from e2e.harness import PATIENCE
from redis_operator.redis import commands

pytestmark = pytest.mark.e2e

STORED: dict[str, Any] = {"storage": {"size": "1Gi"}, "durability": {"persistence": "aof"}}


async def _refusal(writer: Writer, tag: str) -> str:
    """Write until that is refused, and return the error: a snapshot fails seconds later."""
    deadline = time.monotonic() + 30 * PATIENCE
    number = 0
    while time.monotonic() < deadline:
        number += 1
        answer = await writer.ask("SET", f"{{{tag}}}{number % 2000}", "x" * 8192)
        if isinstance(answer, Exception):
            return str(answer)
        if number >= 2000:
            await asyncio.sleep(0.01)
    return ""


async def test_a_primary_whose_disk_is_full_is_told_until_there_is_room(
    database: Any, disk: Disk
) -> None:
    cache = await database(replicas=0, **STORED)
    await cache.wait_ready(seconds=90)
    uids, restarts, tag = await cache.uids(), await cache.restarts(), await tag_of(cache, 1)
    pod = await cache.primary_of(1)
    writer = await Writer.of(cache, pod)
    try:
        assert await writer.ask("SET", f"{{{tag}}}first", "v") == b"OK"
        disk.fill()
        assert "MISCONF" in await _refusal(writer, tag)
        told = await cache.wait_condition("Degraded", "True", reason="PersistenceFailed")
        for part in (pod, "append-only file", "MISCONF", f"data-{pod}", "spec.storage.size"):
            assert part in told["message"]
        assert "cache-0-0" not in told["message"], "nobody wrote to it"
        assert await writer.ask("GET", f"{{{tag}}}first") == b"v"
        disk.make_room()
        await cache.wait_ready(seconds=60)
        assert await writer.ask("SET", f"{{{tag}}}last", "v") == b"OK"
    finally:
        writer.close()
    assert await cache.uids() == uids
    assert await cache.restarts() == restarts
    async with cache.server(pod) as connection:
        assert await connection.run(commands.dbsize(), timeout=5) > 1


@pytest.mark.parametrize("persistence", ["aof", "rdb"])
async def test_the_server_of_mode_standalone_whose_disk_is_full_is_told_until_there_is_room(
    database: Any, disk: Disk, persistence: str
) -> None:
    spec = {**STORED, "durability": {"persistence": persistence}, "config": {"save": "1 1"}}
    if persistence == "aof":
        del spec["config"]
    cache = await database(mode="Standalone", shards=1, replicas=0, **spec)
    await cache.wait_ready(seconds=90)
    restarts = await cache.restarts()
    writer = await Writer.of(cache, "cache-0")
    try:
        disk.fill()
        assert "MISCONF" in await _refusal(writer, "any")
        told = await cache.wait_condition("Degraded", "True", reason="PersistenceFailed")
        word = {"aof": "append-only file", "rdb": "snapshot"}[persistence]
        for part in ("cache-0", word, "MISCONF", "data-cache-0", "spec.storage.size"):
            assert part in told["message"]
        disk.make_room()
        await cache.wait_ready(seconds=60)
        assert await writer.ask("SET", "last", "v") == b"OK"
    finally:
        writer.close()
    assert await cache.restarts() == restarts
