"""Slot moves that go on beside the passes, one task for each pair of servers.

A pass starts a move and returns; the database is looked at again when the move ends, and it can be
stopped at its next boundary. What a move leaves behind when the process dies (open slots at worst)
is found and finished by the next look. I13
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from redis_operator.kube.meta import Key
from redis_operator.operator.errors import ActionError, Refused
from redis_operator.operator.servers import Servers
from redis_operator.planning.actions import MoveSlots, RescueKeys, StopMoving
from redis_operator.planning.observed import Moving, NodeId
from redis_operator.redis.errors import RedisError
from redis_operator.runtime.logs import fields

__all__ = ["DatabaseMovers", "SlotMovers"]

_LOG = logging.getLogger(__name__)


class SlotMovers:
    """The moves of all databases of one operator."""

    def __init__(self, *, on_end: Callable[[Key], None]) -> None:
        self._on_end = on_end
        self._tasks: dict[tuple[Key, NodeId, NodeId], tuple[asyncio.Task[None], Moving]] = {}

    def of(self, key: Key) -> DatabaseMovers:
        """Return the moves of one database, as its executor uses them."""
        return DatabaseMovers(self, key)

    def moving(self, key: Key) -> tuple[Moving, ...]:
        """Return the moves of a database that are under way."""
        return tuple(moving for (owner, _, _), (_, moving) in self._tasks.items() if owner == key)

    def start(self, key: Key, moving: Moving, work: Coroutine[Any, Any, None]) -> None:
        """Begin a move unless one of this pair is under way."""
        place = (key, moving.source, moving.target)
        if place in self._tasks:
            work.close()
            return
        task = asyncio.create_task(self._run(place, work))
        self._tasks[place] = (task, moving)

    async def _run(
        self, place: tuple[Key, NodeId, NodeId], work: Coroutine[Any, Any, None]
    ) -> None:
        try:
            await work
        except (ActionError, RedisError) as error:
            _LOG.warning("a slot move ended early", extra=fields(database=place[0], why=error))
        finally:
            self._tasks.pop(place, None)
            self._on_end(place[0])

    async def stop(self, key: Key, source: NodeId, target: NodeId) -> None:
        """End a move and wait until it has ended."""
        found = self._tasks.get((key, source, target))
        if found is not None:
            found[0].cancel()
            await asyncio.wait([found[0]])

    async def close(self) -> None:
        """Stop every move; what is half done is finished by whoever looks next."""
        tasks = [task for task, _ in self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class DatabaseMovers:
    """The moves of one database."""

    def __init__(self, movers: SlotMovers, key: Key) -> None:
        self._movers = movers
        self._key = key

    async def move(self, servers: Servers, action: MoveSlots) -> None:
        """Begin to move slots."""
        raise Refused("slots are not moved by this version yet")

    async def rescue(self, servers: Servers, action: RescueKeys) -> None:
        """Bring stray keys to the owner of their slots."""
        raise Refused("keys are not moved by this version yet")

    async def stop(self, action: StopMoving) -> None:
        """End a move at its next boundary."""
        await self._movers.stop(self._key, action.source, action.target)
