"""A server that reads its files after a start: simulated and real servers agree."""

from __future__ import annotations

from typing import Any

import pytest

from redis_operator.redis.errors import LoadingError
from redis_operator.redis.slots import even_shares
from sim import fleet as f

pytestmark = pytest.mark.servers
AOF = {"appendonly": "yes", "save": ""}
ALWAYS = (("INFO",), ("ROLE",), ("CONFIG", "GET", "maxmemory"))
NEVER = (
    *(("PING",), ("DBSIZE",), ("WAIT", 0, 1), ("CLUSTER", "COUNTKEYSINSLOT", 1)),
    *(("CLUSTER", "BUMPEPOCH"), ("CLUSTER", "RESET"), ("CLUSTER", "MEET", "127.0.0.1", 6379)),
)
BOOK = (("CLUSTER", "NODES"), ("CLUSTER", "INFO"), ("CLUSTER", "MYID"))


async def test_a_server_that_reads_its_files_is_not_ready_for_anything_and_tells_so(
    fleet_of: Any,
) -> None:
    """Valkey tells its book of nodes meanwhile, and counts the keys it has read so far."""
    fleet = await fleet_of(1, **AOF)
    await f.form(fleet, primaries=1, count=1)
    await f.write_much(fleet, 0)
    await fleet.end(0)
    await fleet.start_slowly(0)
    asked = (*ALWAYS, *NEVER, *BOOK, ("INFO", "keyspace"))
    *answers, counted = await fleet.pipe(0, *asked)  # at once: it looks up now and then only
    refused = {words for words, a in zip(asked, answers, strict=False) if _is_refusal(a)}
    assert refused == set(NEVER) | (set() if fleet.version.engine == "valkey" else set(BOOK))
    assert b"keys=10" not in counted
    await fleet.end(0)
    await fleet.start(0)
    assert await f.keys(fleet, 0) == 10


def _is_refusal(answer: object) -> bool:
    return isinstance(answer, LoadingError)


async def _is_loaded(fleet: f.Fleet, index: int) -> bool:
    return b"loading:0" in await fleet.call(index, "INFO", "persistence")


async def test_a_primary_that_reads_its_files_for_longer_than_the_node_timeout_is_replaced(
    fleet_of: Any,
) -> None:
    """It lets its peers connect and answers none of them: to them it is a silent one."""
    fleet = await fleet_of(6, **AOF)
    ids = await f.form(fleet, primaries=3, count=6)
    await f.write_much(fleet, 0)

    async def copied() -> bool:
        return await f.keys(fleet, 3) == 10

    await f.until(fleet, copied)
    await fleet.end(0)
    await fleet.start_slowly(0)

    async def replaced() -> bool:
        node = (await f.nodes(fleet, 1))[ids[3]]
        return node.is_primary and node.slots == even_shares(3)[0]

    await f.until(fleet, replaced)
    await f.until(fleet, lambda: _is_loaded(fleet, 0))

    async def follows() -> bool:
        return (await f.myself(fleet, 0)).primary == ids[3] and await f.link_up(fleet, 0)

    await f.until(fleet, follows)
    assert await f.keys(fleet, 0) == 10
