"""Slot migrations that run beside the passes, one task for each pair of servers.

A pass starts a migration and returns; the database is observed again when it ends, and it can be
stopped after the current batch. What it leaves unfinished when the process dies (open slots at
worst) is found and finished after the next observation. I13
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from kubecontroller import Key, fields
from redis_operator.api.status import Progress
from redis_operator.operator.effects import Effect, Effects
from redis_operator.operator.errors import Refused
from redis_operator.operator.jobs import Job, Jobs, loop_time
from redis_operator.operator.servers.actions import PORT, Servers, version_of
from redis_operator.planning.at import At
from redis_operator.planning.cluster.actions import MoveSlots, RescueKeys, StopMoving
from redis_operator.planning.clusters import Moving
from redis_operator.planning.identity import NodeId
from redis_operator.planning.preconditions import ActionFacts
from redis_operator.redis import commands
from redis_operator.redis.connection import Connection, Credentials
from redis_operator.redis.mover import ExtraLinks, move_slots
from redis_operator.redis.moving import Method, Move, MoveProgress, Side, choose_method
from redis_operator.redis.rescue import Rescued, rescue_keys
from redis_operator.redis.slots import NO_SLOTS, SlotSet
from redis_operator.redis.versions import Ability, can

__all__ = ["DatabaseMovers", "SlotMovers"]

_LOG = logging.getLogger(__name__)
_TIMEOUT = 5.0
_MORE_LINKS = 15  # where each SETSLOT waits for replicas, one at a time on each link
_DUPLICATE_SECONDS = 300.0  # then it is retried: more stray keys may have come to the same slots
_Place = tuple[Key, NodeId, NodeId]
_Move = Job[Moving, MoveProgress]


class _Strays:
    """What is known of the stray keys of one server that belong to another one."""

    def __init__(self) -> None:
        self.kept: dict[int, frozenset[bytes]] = {}  # of slots where a batch ended
        self.duplicates: dict[int, float] = {}  # slots with no others, and until when


class SlotMovers(Jobs[Moving, MoveProgress]):
    """The migrations of all databases of one operator."""

    def __init__(
        self, *, on_end: Callable[[Key], None], may_act: Callable[[], bool] = lambda: True
    ) -> None:
        super().__init__(on_end=on_end, may_act=may_act)
        self._strays: dict[_Place, _Strays] = {}

    def of(self, key: Key, login: Credentials) -> DatabaseMovers:
        """Return the migrations of one database; servers log in to each other with `login`."""
        return DatabaseMovers(self, key, login)

    def start(
        self, key: Key, moving: Moving, work: Callable[[_Move], Coroutine[Any, Any, None]]
    ) -> None:
        """Begin a migration unless one of this pair is in progress."""
        self.run(key, (moving.source, moving.target), moving, work)

    def moving(self, key: Key) -> tuple[Moving, ...]:
        """Return the migrations of a database that are in progress."""
        return tuple(job.what for job in self.under_way(key))

    def duplicate_strays(self, key: Key) -> tuple[tuple[NodeId, SlotSet], ...]:
        """Return where stray keys were left recently because their owners also have them."""
        now = loop_time()
        found: dict[NodeId, SlotSet] = {}
        for place, strays in self._strays.items():
            slots = SlotSet(slot for slot, until in strays.duplicates.items() if now < until)
            if place[0] == key and slots:
                found[place[1]] = found.get(place[1], NO_SLOTS) | slots
        return tuple(sorted(found.items()))

    def kept(self, key: Key, action: RescueKeys) -> dict[int, frozenset[bytes]]:
        """Return the stray keys that the owner also has, of slots where the last batch ended."""
        strays = self._strays.get((key, action.holder.id, action.owner.id))
        return {} if strays is None else strays.kept

    def rescued(self, key: Key, action: RescueKeys, batch: Rescued) -> None:
        """Note the stray keys that their owner also has; those of whole slots are left a while."""
        now = loop_time()
        strays = self._strays.setdefault((key, action.holder.id, action.owner.id), _Strays())
        strays.kept = {
            slot: keys for slot, keys in batch.kept.items() if slot not in batch.finished
        }
        known = {slot: until for slot, until in strays.duplicates.items() if now < until}
        fresh = {slot: now + _DUPLICATE_SECONDS for slot in batch.kept if slot in batch.finished}
        strays.duplicates = known | fresh

    def forget(self, key: Key) -> None:
        """Forget a database that is gone."""
        super().forget(key)
        self._strays = {at: strays for at, strays in self._strays.items() if at[0] != key}

    def progress(self, key: Key) -> Progress | None:
        """Return the progress of all migrations of a database together."""
        found = list(self.under_way(key))
        if not found:
            return None
        reported = [job.progress for job in found if job.progress is not None]
        total = sum(len(job.what.slots) for job in found)
        moved = sum(len(p.slots_moved) for p in reported)
        # As of the last report: else a stalled migration would change the status all the time.
        spent = max(job.heard for job in found) - min(job.begun for job in found)
        return Progress(
            slots_moved=moved,
            slots_total=total,
            keys_moved=sum(p.keys_moved for p in reported),
            bytes_moved=sum(p.bytes_moved for p in reported),
            seconds_left=round(spent * (total - moved) / moved) if moved else 0,
        )


class DatabaseMovers:
    """The migrations of one database."""

    def __init__(self, movers: SlotMovers, key: Key, login: Credentials) -> None:
        self._movers = movers
        self._key = key
        self._login = login

    def effects(self, servers: Servers) -> Effects:
        """How slots and keys are moved between these servers."""

        async def move(action: MoveSlots, _: ActionFacts) -> None:
            await self.move(servers, action)

        async def rescue(action: RescueKeys, _: ActionFacts) -> None:
            await self.rescue(servers, action)

        async def stop(action: StopMoving, _: ActionFacts) -> None:
            await self.stop(action)

        return {MoveSlots: Effect(move), RescueKeys: Effect(rescue), StopMoving: Effect(stop)}

    async def move(self, servers: Servers, action: MoveSlots) -> None:
        """Begin to migrate slots; the ids of both ends were just checked."""
        why = self._movers.limitation(self._key, action.source.id, action.target.id)
        if why is not None:
            raise Refused(why)
        await asyncio.gather(servers.reach(action.source), servers.reach(action.target))
        moving = Moving(action.source.id, action.target.id, action.slots)
        self._movers.start(self._key, moving, lambda job: self._travel(servers, action, job))

    async def _travel(self, servers: Servers, action: MoveSlots, job: _Move) -> None:
        """Carry out one migration over separate connections: long commands would delay probes."""

        async with AsyncExitStack() as stack:
            source = await stack.enter_async_context(await servers.own_connection(action.source))
            target = await stack.enter_async_context(await servers.own_connection(action.target))
            nodes = await target.run(commands.cluster_nodes(), timeout=_TIMEOUT)
            ends = (action.source.id, action.target.id)
            others = [n.ip for n in nodes if n.is_primary and not n.is_failed and n.id not in ends]
            bystanders = [  # replicas too: they may be promoted one day
                n.ip for n in nodes if n.primary and n.primary not in ends and not n.is_failed
            ]
            replicas = [n.ip for n in nodes if n.primary == action.target.id and not n.is_failed]
            move = await self._move(source, target, action.source, action.target, action.slots)
            await move_slots(
                source,
                target,
                move,
                others=await servers.at_addresses(others),
                bystanders=await servers.at_addresses((*others, *bystanders), all_of_them=True),
                replicas=await servers.at_addresses(replicas),
                extra_links=await _extra_links(stack, servers, action, move),
                on_progress=job.note,
            )

    async def rescue(self, servers: Servers, action: RescueKeys) -> None:
        """Move a batch of stray keys to the owner of their slots, unless these are migrated."""
        for moving in self._movers.moving(self._key):
            if moving.slots & action.slots:
                raise Refused(f"slots {moving.slots & action.slots} are being migrated")
        async with AsyncExitStack() as stack:
            holder = await stack.enter_async_context(await servers.own_connection(action.holder))
            owner = await stack.enter_async_context(await servers.own_connection(action.owner))
            move = await self._move(holder, owner, action.holder, action.owner, action.slots)
            known = self._movers.kept(self._key, action)
            batch = await rescue_keys(holder, owner, move, kept=known)
        self._movers.rescued(self._key, action, batch)
        kept = sum(len(batch.kept[slot]) for slot in batch.kept if slot in batch.finished)
        _LOG.info("keys moved to their owner", extra=fields(keys=batch.moved, kept_by_owner=kept))
        if kept:
            _LOG.warning(
                "keys have two values on two servers since a move was interrupted; clients see the "
                "owner's, the others are left",
                extra=fields(keys=kept, on=action.holder.pod, owner=action.owner.pod),
            )

    async def _move(
        self, source: Connection, target: Connection, origin: At, end: At, slots: SlotSet
    ) -> Move:
        versions = await asyncio.gather(version_of(source), version_of(target))
        return Move(
            source=Side(origin.id, origin.ip, PORT, versions[0]),
            target=Side(end.id, end.ip, PORT, versions[1]),
            slots=slots,
            username=self._login.username,
            password=self._login.password,
        )

    async def stop(self, action: StopMoving) -> None:
        """Stop a migration after the current batch."""
        await self._movers.stop(self._key, action.source, action.target)


async def _extra_links(
    stack: AsyncExitStack, servers: Servers, action: MoveSlots, move: Move
) -> ExtraLinks:
    """Open more links to both ends of a migration where one would wait for replicas each slot."""
    versions = (move.source.version, move.target.version)
    atomic = choose_method(*versions) in (Method.VALKEY_ATOMIC, Method.REDIS_ATOMIC)
    if atomic or not any(can(version, Ability.REPLICATED_SETSLOT) for version in versions):
        return ExtraLinks()

    async def more(end: At) -> tuple[Connection, ...]:
        # Each is on the stack before the next one, which may fail.
        return tuple(
            [
                await stack.enter_async_context(await servers.own_connection(end))
                for _ in range(_MORE_LINKS)
            ]
        )

    return ExtraLinks(source=await more(action.source), target=await more(action.target))
