"""What real servers tell of the weight of their slots."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_operator.operator.servers.probe import Question, probe
from redis_operator.planning.clusters import NotWeighed, Weighed
from redis_operator.planning.observed import Seen
from redis_operator.redis.resp import encode
from redis_operator.redis.slots import key_slot
from redis_testing.servers import EngineBinary, Servers, find_engines

pytestmark = pytest.mark.servers


async def _write(host: str, keys: list[str]) -> None:
    reader, writer = await asyncio.open_connection(host, 6379)
    writer.write(b"".join(encode(("SET", key, "x")) for key in keys))
    assert await reader.readexactly(5 * len(keys)) == b"+OK\r\n" * len(keys)
    writer.close()


@pytest.mark.parametrize("engine", find_engines(), ids=lambda engine: engine.name)
async def test_a_server_tells_how_many_keys_each_of_its_slots_has(
    engine: EngineBinary, database_of: Any
) -> None:
    async with Servers(engine) as servers:
        database = database_of(await servers.start(3), shards=3, replicas=0)
        observed = await database.settle()
        node = next(n for n in observed.seen if key_slot("{a}") in n.slots)
        await _write(node.pod.ip, [f"{{a}}{number}" for number in range(7)])
        target = database.targets()[node.pod.name]
        asked = await probe(database.links, Question(node.pod, target, (), True), timeout=2)
        assert isinstance(asked, Seen)
        assert asked.weighed == Weighed(((key_slot("{a}"), 7),), "key-count")
        unasked = await probe(database.links, Question(node.pod, target), timeout=2)
        assert isinstance(unasked, Seen)
        assert unasked.weighed == NotWeighed()
