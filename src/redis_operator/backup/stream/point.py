"""Named restore points: where every shard is at one moment, exactly.

One shard: one transaction on its primary. Several: writes are paused on all primaries for the
fraction of a second that it takes to ask them all, so that no write lies between two answers. In
mode Cluster they also say which slots they have then, and which ones move: no key moves meanwhile.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import reduce
from operator import or_

from redis_operator.redis import commands
from redis_operator.redis.connection import Connection
from redis_operator.redis.errors import RedisError
from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS, SlotSet

from ..errors import PointTaken, SourceError, WorkerError
from ..replica import Login
from ..store import Shelf
from ..task import ShardTask
from .records import Point, PointMark, decode, encode, point_name
from .sampler import ask, look, open_link

__all__ = ["mark_point", "marks_of"]

_PAUSE_MILLISECONDS = 500
_NAME = re.compile(r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$")


async def mark_point(
    name: str,
    shards: tuple[ShardTask, ...],
    shelves: Mapping[str, Shelf],
    login: Login,
    *,
    request: str = "",
    cluster: bool = False,
) -> Point:
    """Write a restore point into the archive of every shard. Raises `WorkerError`.

    A name can be used once: `PointTaken`. A caller that repeats the same `request`, since the reply
    was lost, gets the point that was taken for it. A pause of writes ends by itself should this
    worker end.
    """
    if not _NAME.match(name):
        raise WorkerError(
            f"{name!r} cannot be the name of a restore point: use lower case letters, digits, "
            "dots and dashes, at most 63"
        )
    if not shards:
        raise SourceError(f"restore point {name}: the database has no shard that is known")
    known = await _known(name, shelves)
    if known is not None and (not request or known.request != request):
        raise PointTaken(f"there is a restore point {name} already; give another name")
    point = known or await _taken(name, shards, login, request, cluster=cluster)
    for shard in shards:
        if await shelves[shard.name].create(point_name(name), encode(point)) or known is not None:
            continue
        # After a lost reply the store refuses the worker's own point: its content shows whose it
        # is.
        written = await _known(name, {shard.name: shelves[shard.name]})
        if written != point:
            raise PointTaken(f"there is a restore point {name} already; give another name")
    return point


async def _known(name: str, shelves: Mapping[str, Shelf]) -> Point | None:
    """Return the restore point of a name that some shard has."""
    for shelf in shelves.values():
        raw = await shelf.get(point_name(name))
        if raw is not None:
            return decode(raw, Point, point_name(name))
    return None


async def _taken(
    name: str, shards: tuple[ShardTask, ...], login: Login, request: str, *, cluster: bool
) -> Point:
    """Return where every shard is at one moment."""
    async with AsyncExitStack() as stack:
        links = {shard.name: await _primary(shard, login, stack) for shard in shards}
        try:
            marks = await marks_of(links, cluster=cluster)
        except RedisError as error:
            raise SourceError(f"the restore point cannot be taken: {error}") from error
    return Point(name, marks, request=request)


async def _primary(shard: ShardTask, login: Login, stack: AsyncExitStack) -> Connection:
    answers = await asyncio.gather(*(look(source, login) for source in shard.sources))
    for source, answer in zip(shard.sources, answers, strict=True):
        if not isinstance(answer, str) and answer.is_primary:
            try:
                return await stack.enter_async_context(await open_link(source, login))
            except RedisError as error:
                raise SourceError(f"{source.pod}: {error}", passing=True) from error
    reasons = "; ".join(answer for answer in answers if isinstance(answer, str))
    raise SourceError(f"{shard.name} has no primary that responds {reasons}".strip(), passing=True)


async def marks_of(
    links: Mapping[str, Connection], *, cluster: bool = False
) -> dict[str, PointMark]:
    """Return where the primaries are, all of them at one moment. Raises `SourceError`."""
    paused, begun = len(links) > 1, time.monotonic()
    try:
        if paused:
            pause = commands.client_pause_writes(_PAUSE_MILLISECONDS)
            await asyncio.gather(*(link.run(pause, timeout=5) for link in links.values()))
        asked = await asyncio.gather(*(ask(link, cluster=cluster) for link in links.values()))
        taken = time.monotonic() - begun  # of the first pause that was asked for
    finally:
        if paused:
            unpause = commands.client_unpause()
            await asyncio.gather(
                *(link.run(unpause, timeout=5) for link in links.values()), return_exceptions=True
            )
    if paused and taken * 1000 > _PAUSE_MILLISECONDS:
        raise SourceError(
            f"the primaries took longer than {_PAUSE_MILLISECONDS} ms to respond, so they were not "
            "paused at one moment; try again"
        )
    owned = [SlotSet.parse(found.owned.slots) for found in asked if found.owned is not None]
    free = ALL_SLOTS - reduce(or_, owned, NO_SLOTS)
    if cluster and free:
        raise SourceError(
            f"no primary has the slots {free}: they changed hands just now, or are not covered",
            passing=True,
        )
    return {
        name: PointMark(
            found.replication.replication_id, found.sample.offset, found.sample.server, found.owned
        )
        for name, found in zip(links, asked, strict=True)
    }
