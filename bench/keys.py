"""Keys in every slot, written by the servers themselves: a million in a few seconds."""

from __future__ import annotations

import asyncio
from functools import lru_cache

import hiredis

from redis_operator.redis import commands
from redis_operator.redis.resp import encode_all
from redis_operator.redis.slots import key_slot
from redis_testing.servers import Server

__all__ = ["fill", "keys_of"]

_SLOTS = 16384
_SCRIPT = (
    "for i = 1, tonumber(ARGV[2]) do"
    " redis.call('SET', KEYS[1] .. ':' .. i, ARGV[3]) end return redis.status_reply('OK')"
)
_BATCH = 256


@lru_cache(maxsize=1)
def _tags() -> tuple[str, ...]:
    """Return one hash tag for each slot."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < _SLOTS:
        tag = str(number)
        found.setdefault(key_slot(tag), tag)
        number += 1
    return tuple(found[slot] for slot in range(_SLOTS))


async def fill(servers: list[Server], *, keys: int, value_bytes: int = 32) -> int:
    """Write as many keys into each slot, so that there are `keys` in all; return how many.

    Fewer keys than slots go to every so manieth slot, one each.
    """
    each = -(-keys // _SLOTS)
    apart = max(1, _SLOTS // max(1, keys))
    written = await asyncio.gather(
        *(_fill(server, each, apart, "v" * value_bytes) for server in servers)
    )
    return sum(written)


async def _fill(server: Server, each: int, apart: int, value: str) -> int:
    async with await server.connect() as connection:
        nodes = await connection.run(commands.cluster_nodes(), timeout=10)
    owned = next(node for node in nodes if node.is_myself).slots
    slots = [slot for slot in owned if slot % apart == 0]
    # A connection of the product would refuse: scripts of others are not on its list.
    reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
    parser = hiredis.Reader()
    for start in range(0, len(slots), _BATCH):
        batch = slots[start : start + _BATCH]
        writer.write(encode_all(_words(slot, each, value) for slot in batch))
        await writer.drain()
        left = len(batch)
        while left:
            answer = parser.gets()
            if answer is False:
                parser.feed(await reader.read(65536))
                continue
            if answer != b"OK":
                raise RuntimeError(f"{server.address} says {answer!r}")
            left -= 1
    writer.close()
    await writer.wait_closed()
    return each * len(slots)


def _words(slot: int, count: int, value: str) -> tuple[str, ...]:
    return ("EVAL", _SCRIPT, "1", f"{{{_tags()[slot]}}}", str(slot), str(count), value)


async def keys_of(servers: list[Server]) -> int:
    """Return how many keys the servers hold together."""
    total = 0
    for server in servers:
        async with await server.connect() as connection:
            total += await connection.run(commands.dbsize(), timeout=10)
    return total
