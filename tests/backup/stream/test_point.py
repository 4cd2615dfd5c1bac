"""Restore points: what makes one exact, and whose a point is."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from backup.stream.conftest import LOGIN, replicated, shelf_in
from redis_operator.backup.errors import PointTaken, SourceError
from redis_operator.backup.store import Shelf
from redis_operator.backup.stream.point import mark_point, marks_of
from redis_operator.backup.task import ShardTask
from redis_testing.servers import find_engines

pytestmark = pytest.mark.servers

NEWEST = find_engines()[-1]


async def test_a_point_is_refused_where_a_pause_was_over_before_all_primaries_were_asked() -> None:
    """One primary responds after more than a second: the pause of the other has ended by then."""
    async with AsyncExitStack() as stack:
        one, other = [await stack.enter_async_context(replicated(NEWEST, 0)) for _ in range(2)]
        first, second = [
            await stack.enter_async_context(await shard.primary.connect()) for shard in (one, other)
        ]
        other.primary.send_signal(signal.SIGSTOP)
        asking = asyncio.create_task(marks_of({"shard-0": first, "shard-1": second}))
        await asyncio.sleep(0.7)  # longer than a pause: it is over, however long this takes
        other.primary.send_signal(signal.SIGCONT)
        with pytest.raises(SourceError, match="were not paused at one moment"):
            await asking


class Forgetful(Shelf):
    """A store whose reply is lost: the request that repeats the first is refused."""

    async def create(self, name: str, content: bytes) -> bool:
        await super().create(name, content)
        return False


async def test_a_point_whose_reply_was_lost_is_not_taken_for_that_of_another(
    tmp_path: Path,
) -> None:
    async with replicated(NEWEST, 0) as shard:
        inner = shelf_in(tmp_path)
        shelves: dict[str, Shelf] = {
            "server-0": Forgetful(inner._store, "volume:/x", inner._folder)
        }
        shards = (ShardTask("server-0", shard.sources()),)
        point = await mark_point("p", shards, shelves, LOGIN, request="u/1")
        assert point.request == "u/1"
        assert await mark_point("p", shards, shelves, LOGIN, request="u/1") == point
        with pytest.raises(PointTaken):
            await mark_point("p", shards, shelves, LOGIN, request="u/2")
