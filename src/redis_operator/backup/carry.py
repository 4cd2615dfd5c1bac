"""Restore a backup into a database of any shape: each key goes to the primary that owns its slot.

The content is a backup, or an archive up to a moment. A part whose keys can be separated is split
by the worker (`split`). Any other one, and one with a stream after it, is loaded by the server
beside the worker, which sends keys to the new primaries itself (MIGRATE with COPY).

Guarantees:
    - Every part is read from end to end, and the first of those that are loaded is, before anything
      is dropped or sent.
    - Sending twice gives the same result: an attempt that ended anywhere is followed by another
    one.
    - Success means that every primary still has its history from the start of the task, and no
      fewer keys without a time to live than the backup, except for those that it evicted by its own
      settings (`maxmemory-policy allkeys-*`): it would evict them after the restore as well.
    - Memory is that of `split`, and of the server beside the worker for the largest part that is
      loaded.

Assumptions: no client can write to the database meanwhile.
Errors: `WorkerError`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import hiredis
from msgspec import Struct

from redis_operator.redis.resp import Argument
from redis_operator.redis.slots import SlotSet, key_slot

from .empty import empty, require_primary
from .errors import TargetError, WorkerError
from .fitting import check_fit
from .link import CommandLink, connect
from .loader import Keyspace, Loader, info_fields, keyspaces, open_loader
from .piece import Piece
from .primary import manifest_of, verify
from .replica import Login
from .scratch import ScratchError
from .send import PASSING, advice
from .split import Survey, give, survey
from .store import Shelf, open_shelf
from .stream.moments import find_pieces
from .stream.plan import text_of
from .task import CarryTask, FillTarget, Report, Store

__all__ = ["carry"]

_LOG = logging.getLogger(__name__)
_SCAN = 1000
_BATCH_KEYS = 1000
_BATCH_BYTES = 4 << 20
_MIGRATE_SECONDS = 20.0
_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.5
_READ_AT_ONCE = 2
_SIZES = (
    "local found = {} for i, key in ipairs(KEYS) do "
    "found[i] = redis.call('MEMORY', 'USAGE', key) or 0 end return found"
)


async def carry(
    task: CarryTask,
    shelf: Shelf,
    login: Callable[[], Login],
    *,
    folder: Path,
    host: str,
    patience: float = _PATIENCE_SECONDS,
    opened: Callable[[Store], Shelf] = open_shelf,
) -> Report:
    """Write everything that the backup has to the targets. Raises `WorkerError`.

    The server beside the worker waits for its settings in `folder`; both are at `host`. `opened`:
    how another folder of the store is opened.
    """
    if task.until is not None:
        fit = partial(check_fit, engine=task.engine, version=task.version, field=task.field)
        pieces = await find_pieces(task.store, task.until, task.field, fit, opened)
    else:
        pieces = await _backup_pieces(task, shelf)
    found = await _surveyed(task, pieces)
    await _same_primaries(task, login())
    carrier = _Carrier(task, login, patience)
    await carrier.begin()
    for one in found:
        carrier.check_databases(one.databases)
    async with AsyncExitStack() as stack:
        dropped = not task.empty
        each = zip(pieces, found, strict=True)
        for piece, surveyed in sorted(each, key=lambda one: not one[1].obstacle):
            if surveyed.obstacle:
                await carrier.load(stack, piece, folder, host)
            if task.rehearsal:
                continue
            if not dropped:
                await empty(task.targets, login())
                dropped = True
            if surveyed.obstacle:
                _LOG.info("%s is not split: %s", piece.part.object, surveyed.obstacle)
                await carrier.part(piece)
            else:
                await carrier.split(piece, surveyed.functions)
            _LOG.info("%s was carried: %s keys so far", piece.part.object, carrier.keys)
        await _same_primaries(task, login())
        if not task.rehearsal:
            await carrier.check()
    return Report(
        size=sum(piece.part.size + piece.stream_size for piece in pieces),
        stored=sum(piece.part.stored for piece in pieces),
        rdb=max(piece.part.rdb for piece in pieces),
        keys=carrier.keys,
        parts=tuple(
            {"name": piece.part.name, "offset": piece.offset, "time": text_of(piece.reached)}
            for piece in pieces
            if piece.stream is not None
        ),
    )


async def _backup_pieces(task: CarryTask, shelf: Shelf) -> tuple[Piece, ...]:
    """Return the parts of a backup."""
    manifest = await manifest_of(shelf)
    check_fit(manifest, task.engine, task.version, task.field)
    whole = len(manifest.parts) == 1
    return tuple(
        Piece(
            shelf,
            manifest,
            part,
            slots=None if whole or not part.slots else SlotSet.parse(part.slots),
        )
        for part in manifest.parts
    )


async def _surveyed(task: CarryTask, pieces: tuple[Piece, ...]) -> list[Survey]:
    """Return what is known of each piece. Raises `Damaged`: each is read from end to end."""
    turns = asyncio.Semaphore(_READ_AT_ONCE)

    async def one(piece: Piece) -> Survey:
        if piece.stream is not None:  # it was read when it was found
            return Survey(obstacle="a stream follows it")
        async with turns:
            if not task.rehearsal:
                return await survey(piece)
            await verify(piece.shelf, piece.part)
            return Survey(obstacle="a server has to load it")

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one(piece)) for piece in pieces]
    return [done.result() for done in running]


async def _same_primaries(task: CarryTask, login: Login) -> None:
    """Raise `TargetError` where a target is not the same primary any more, or restarted."""
    for target in task.targets:
        link = await connect(target.pod, host=target.host, port=target.port, login=login)
        try:
            await require_primary(link, target)
        finally:
            link.close()


class _KeyBatch(Struct):
    """Keys on their way to one target."""

    keys: list[bytes]
    size: int = 0


class _Carrier:
    """Moves keys from the server beside the worker to their owners."""

    def __init__(self, task: CarryTask, login: Callable[[], Login], patience: float) -> None:
        self._task = task
        self._loader: Loader | None = None  # started when it is needed
        self._login = login
        self._patience = patience
        self._owners = [] if task.rehearsal else _owners(task)
        self._functions = b""
        self._lasting = 0  # keys without a time to live that were seen
        self._evicted = 0  # by the targets, before
        self.keys = 0

    @property
    def _scratch(self) -> Loader:
        assert self._loader is not None
        return self._loader

    async def begin(self) -> None:
        """Read how many keys the targets have evicted so far."""
        self._evicted = sum(map(_evicted, await self._infos()))

    async def load(self, stack: AsyncExitStack, piece: Piece, folder: Path, host: str) -> None:
        """Have the server beside the worker load a piece; the first time it is started."""
        if self._loader is None:
            opened = open_loader(folder, host, self._task.scratch_port)
            self._loader = await stack.enter_async_context(opened)
        await self._loader.load(piece)
        databases = await self._loader.databases()
        self.check_databases(databases)
        if self._task.rehearsal:
            self.keys += sum(one.keys for one in databases)

    async def split(self, piece: Piece, functions: bytes) -> None:
        """Send the keys of a piece that can be split."""
        await self._carry_functions(functions)
        given = await give(piece, self._task.targets, self._owners, self._login, self._patience)
        self.keys += given.keys
        self._lasting += given.lasting

    async def part(self, piece: Piece) -> None:
        """Send everything that the server holds now of a part."""
        databases = await self._scratch.databases()
        await self._carry_functions(await self._scratch.functions())
        for database in databases:
            self._lasting += database.keys - database.mortal
            await self._database(database.number, piece)
        await self._scratch.link.ask("SELECT", 0)

    def check_databases(self, databases: list[Keyspace]) -> None:
        """Raise `TargetError` where the targets cannot have the keys of some."""
        others = [one for one in databases if one.number]
        if self._task.cluster and others:
            counted = ", ".join(f"{one.keys} keys in database {one.number}" for one in others)
            raise TargetError(
                f"the backup has {counted}, and mode Cluster has database 0 alone: restore it into "
                "mode Failover or Standalone; nothing was carried"
            )

    async def _carry_functions(self, payload: bytes) -> None:
        if not payload or payload == self._functions:
            return
        for target in self._task.targets:
            link = await self._connect(target)
            try:
                await link.ask("FUNCTION", "RESTORE", payload, "REPLACE")
            finally:
                link.close()
        self._functions = payload

    async def _database(self, number: int, piece: Piece) -> None:
        link, cursor = self._scratch.link, b"0"
        await link.ask("SELECT", number)
        batches: dict[int, _KeyBatch] = {}
        own, others = piece.slots, self._task.cluster or piece.slots is not None
        while True:
            cursor, keys = await link.ask("SCAN", cursor, "COUNT", _SCAN)
            if own is not None:
                keys = await self._without_closed(piece, keys)
            sizes = await link.ask("EVAL", _SIZES, len(keys), *keys) if keys else []
            for key, size in zip(keys, sizes, strict=True):
                slot = key_slot(key) if others else 0
                owner = self._owners[slot] if self._task.cluster else 0
                if own is not None and slot not in own:
                    await self._stray(key, owner)
                    continue
                batch = batches.setdefault(owner, _KeyBatch([]))
                if batch.keys and batch.size + size > _BATCH_BYTES:
                    await self._send(number, owner, batches.pop(owner))
                    batch = batches.setdefault(owner, _KeyBatch([]))
                batch.keys.append(key)
                batch.size += size
                if len(batch.keys) >= _BATCH_KEYS:
                    await self._send(number, owner, batches.pop(owner))
            if bytes(cursor) == b"0":
                break
        for owner, batch in batches.items():
            await self._send(number, owner, batch)

    async def _send(self, database: int, owner: int, batch: _KeyBatch) -> None:
        """Have the server beside the worker send keys; temporary errors are retried."""
        target, login = self._task.targets[owner], self._login()
        end = time.monotonic() + self._patience
        while True:
            milliseconds = int(_MIGRATE_SECONDS * 1000)
            goal: tuple[Argument, ...] = (target.host, target.port, "", database, milliseconds)
            options = ("COPY", "REPLACE", "AUTH2", login.user, login.password, "KEYS")
            command = ("MIGRATE", *goal, *options, *batch.keys)
            [answer] = await self._scratch.link.ask_all([command], timeout=_MIGRATE_SECONDS * 3)
            if not isinstance(answer, hiredis.ReplyError):
                self.keys += len(batch.keys)
                return
            text = str(answer)
            if not any(word in text for word in PASSING) or time.monotonic() > end:
                raise TargetError(
                    f"{target.pod} does not take {len(batch.keys)} keys ({batch.size} bytes): "
                    f"{text}{advice(text)}",
                    answer=text,
                )
            _LOG.info("%s: %s", target.pod, text)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _without_closed(self, piece: Piece, keys: list[bytes]) -> list[bytes]:
        """Return the keys without those of slots that another shard owned completely."""
        assert piece.slots is not None
        taken = piece.slots | piece.open
        closed = [key for key in keys if key_slot(key) not in taken]
        if not closed:
            return keys
        left = await self._scratch.link.ask_all([("PTTL", key) for key in closed])
        self._lasting -= sum(found == -1 for found in left)
        return [key for key in keys if key_slot(key) in taken]

    async def _stray(self, key: bytes, owner: int) -> None:
        """Send a key of a slot that was migrating, unless the part of its owner has it too."""
        link = self._scratch.link
        payload, left = await link.ask_all([("DUMP", key), ("PTTL", key)])
        if not isinstance(payload, bytes):
            return  # it expired
        self._lasting -= left < 0
        target = await self._connect(self._task.targets[owner])
        try:
            await target.ask("RESTORE", key, max(left, 1) if left >= 0 else 0, payload)
        except TargetError as error:
            if not error.answer.startswith("BUSYKEY"):
                raise
        finally:
            target.close()
        self.keys += 1

    async def check(self) -> None:
        """Raise `ScratchError` where targets have fewer lasting keys than were sent."""
        held = evicted = 0
        for info in await self._infos():
            held += sum(one.keys - one.mortal for one in keyspaces(info))
            evicted += _evicted(info)
        evicted -= self._evicted
        if held + evicted < self._lasting:
            raise ScratchError(
                f"the new database has {held} keys without a time to live, and the backup "
                f"{self._lasting}; the restore starts again"
            )
        if evicted > 0:
            self.keys -= evicted
            _LOG.warning(
                "the new database evicted %s keys (maxmemory-policy): it has too little memory for "
                "all of them (spec.resources.limits.memory)",
                evicted,
            )

    async def _infos(self) -> list[bytes]:
        found = []
        for target in self._task.targets:
            link = await self._connect(target)
            try:
                found.append(bytes(await link.ask("INFO")))
            finally:
                link.close()
        return found

    async def _connect(self, target: FillTarget) -> CommandLink:
        place: dict[str, Any] = {"host": target.host, "port": target.port}
        return await connect(target.pod, **place, login=self._login())


def _evicted(answer: bytes) -> int:
    """Return how many keys a server has evicted, where any key may be; from an answer to INFO."""
    fields = info_fields(answer)
    may_any = fields.get("maxmemory_policy", "").startswith("allkeys-")
    return int(fields.get("evicted_keys", "0")) if may_any else 0


def _owners(task: CarryTask) -> list[int]:
    """Return the target of each slot. Raises `WorkerError` where one has none."""
    if not task.cluster:
        return []
    found: list[int | None] = [None] * 16384
    for number, target in enumerate(task.targets):
        for slot in SlotSet.parse(target.slots):
            found[slot] = number
    owners = [owner for owner in found if owner is not None]
    if len(owners) < len(found):
        raise WorkerError(f"{len(found) - len(owners)} slots have no primary to be given to")
    return owners
