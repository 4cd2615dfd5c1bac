"""Memory that is full, and servers killed for it again and again: told with numbers. ST-09"""

from __future__ import annotations

import asyncio
from typing import Any

import hiredis
import pytest

from e2e.harness import until
from redis_operator.redis import commands
from redis_operator.redis.resp import encode
from redis_operator.redis.slots import key_slot

pytestmark = pytest.mark.e2e

_MIB = 2**20


class Writer:
    """An application that writes large values to one server until it refuses or dies."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._parser = hiredis.Reader()

    @classmethod
    async def of(cls, cache: Any, pod: str) -> Writer:
        address = (await cache.pods())[pod].status.pod_ip
        made = cls(*await asyncio.open_connection(address, 6379))
        await made.ask("AUTH", await cache.secret(f"{cache.name}-conn", "password"))
        return made

    async def ask(self, *words: str) -> Any:
        self._writer.write(encode(words))
        while (answer := self._parser.gets()) is False:
            piece = await asyncio.wait_for(self._reader.read(65536), timeout=10)
            if not piece:
                raise ConnectionResetError("the server ended the connection")
            self._parser.feed(piece)
        return answer

    async def write(self, tag: str, mebibytes: int) -> int:
        """Return how many sixteenths of a mebibyte were taken."""
        for number in range(mebibytes * 16):
            try:
                answer = await self.ask("SET", f"{{{tag}}}{number}", "x" * (_MIB // 16))
            except OSError:
                return number
            if isinstance(answer, Exception):
                return number
        return mebibytes * 16

    def close(self) -> None:
        self._writer.close()


async def tag_of(cache: Any, shard: int) -> str:
    """Return a tag whose slot the shard owns."""
    async with cache.server(await cache.primary_of(shard)) as connection:
        nodes = await connection.run(commands.cluster_nodes(), timeout=5)
    mine = next(node for node in nodes if node.is_myself).slots
    return next(f"t{number}" for number in range(1000) if key_slot(f"t{number}") in mine)


async def test_memory_that_is_full_is_told_and_nobody_is_moved_or_restarted(database: Any) -> None:
    cache = await database(config={"repl-backlog-size": "1mb"})
    await cache.wait_ready()
    uids, primary = await cache.uids(), await cache.primary_of(0)
    tag = await tag_of(cache, 0)
    async with cache.server(primary) as connection:
        used = (await connection.run(commands.info(), timeout=5)).memory.used_bytes
    await cache.patch(config={"maxmemory": str(used + 32 * _MIB)})
    await cache.wait_ready()
    writer = await Writer.of(cache, primary)
    try:
        taken = await writer.write(tag, 40)
        assert 100 < taken < 40 * 16
        told = await cache.wait_condition("Degraded", "True", reason="MemoryFull", seconds=30)
        for part in (primary, "maxmemory", "add shards"):
            assert part in told["message"]
        assert await cache.uids() == uids
        assert await cache.primary_of(0) == primary
        for number in range(taken):
            await writer.ask("DEL", f"{{{tag}}}{number}")
    finally:
        writer.close()
    await cache.wait_ready()


async def test_servers_killed_for_memory_are_told_with_numbers_and_more_memory_heals_them(
    database: Any, cluster: Any
) -> None:
    if not cluster.is_local:
        pytest.skip("how much memory an image needs by itself is known here only")
    cache = await database(
        storage={"size": "1Gi"},
        resources={"limits": {"memory": "96Mi"}},
        config={"maxmemory": "1gb", "repl-backlog-size": "1mb"},
    )
    await cache.wait_ready(seconds=90)
    uids, primary, tag = await cache.uids(), await cache.primary_of(0), await tag_of(cache, 0)
    writer = await Writer.of(cache, primary)
    written = await writer.write(tag, 120)
    writer.close()
    assert written < 120 * 16, "the limit is not enforced here"
    told = await cache.wait_condition("Degraded", "True", reason="OutOfMemory", seconds=60)
    for part in ("cache-0-", "limit of 96", "spec.resources.limits.memory"):
        assert part in told["message"]
    await asyncio.sleep(10)  # time enough to go round and round
    found = await cache.condition("Degraded")
    assert (found["status"], found["reason"]) == ("True", "OutOfMemory"), found
    assert {n: u for n, u in (await cache.uids()).items() if not n.startswith("cache-0-")} == {
        n: u for n, u in uids.items() if not n.startswith("cache-0-")
    }
    await cache.patch(resources={"limits": {"memory": "256Mi"}})
    await until(lambda: _serves_all(cache), seconds=150, what="every slot to be served")
    async with cache.server(await cache.primary_of(0)) as connection:
        kept = await connection.run(commands.dbsize(), timeout=5)
    assert kept >= written * 0.8  # all but the last second: what was not on any disk yet


async def _serves_all(cache: Any) -> bool:
    status = await cache.status()
    limits = [
        pod.spec.containers[0].resources.limits["memory"] == "256Mi"
        for pod in (await cache.pods()).values()
    ]
    return status.get("slots") == "16384/16384" and all(limits) and len(limits) == 6
