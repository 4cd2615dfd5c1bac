"""Move stray keys to their owner: keys on a server that does not own their slots.

An interrupted move leaves them behind. A key that its owner has with another value is not moved:
which of the two is newer cannot be known. One call moves a batch, since a failover of the same
database waits for it; the next call continues. Only the slot whose keys are being moved is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from . import commands
from .command import Command, Link
from .errors import ReplyError
from .mover import known_of, owned_by, run_on_all
from .moving import Move, MoveError, Pace
from .slots import NO_SLOTS, SlotSet
from .versions import Ability, can

__all__ = ["Rescued", "rescue_keys"]

_TIMEOUT: Final = 5.0


class Rescued(Struct, frozen=True):
    """The result of one call.

    `moved` counts the keys that were moved, and the copies that were removed. `kept` are, by slot,
    the keys that stay because their owner has another value. `finished` are the slots with no other
    stray keys than those.
    """

    moved: int
    kept: Mapping[int, frozenset[bytes]]
    finished: SlotSet


async def rescue_keys(
    holder: Link,
    owner: Link,
    move: Move,
    *,
    kept: Mapping[int, frozenset[bytes]] | None = None,
    pace: Pace | None = None,
) -> Rescued:
    """Move keys of slots that `holder` (the source) does not own to their owner (the target).

    A copy of the same value is removed. `kept` are keys that stayed in an earlier call: they are
    not compared again, and those behind them are reached.
    """
    mine, theirs = await owned_by(holder), await owned_by(owner)
    wrong = (move.slots & mine) | (move.slots - theirs)
    if wrong:
        raise MoveError(f"slots {wrong} are not the owner's: nothing to rescue there")
    if move.slots - await known_of(holder, move.target.id):
        # From Valkey 8 on it would take a slot if it learned that the source no longer claims it.
        raise MoveError(f"{move.source.host} has not heard yet whose slots {move.slots} are")
    batch = _StrayBatch(holder, owner, move, pace or Pace())
    found: dict[int, frozenset[bytes]] = {}
    finished = NO_SLOTS
    for slot in move.slots:
        if finished and batch.is_over:
            break
        found[slot], is_finished = await batch.rescue(slot, (kept or {}).get(slot, frozenset()))
        if not is_finished:
            break
        finished |= SlotSet([slot])
    return Rescued(batch.moved, {slot: keys for slot, keys in found.items() if keys}, finished)


class _StrayBatch:
    """One call: both ends, and how much may still be done."""

    def __init__(self, holder: Link, owner: Link, move: Move, pace: Pace) -> None:
        self._holder = holder
        self._owner = owner
        self._move = move
        self._pace = pace
        self._left = pace.stray_keys
        self._until = asyncio.get_running_loop().time() + pace.stray_seconds
        self.moved = 0

    @property
    def is_over(self) -> bool:
        """Whether the rest is for the next call."""
        return self._left <= 0 or asyncio.get_running_loop().time() >= self._until

    async def rescue(self, slot: int, known: frozenset[bytes]) -> tuple[frozenset[bytes], bool]:
        """Move the keys of a slot; return those that stay, and whether no others are left."""
        opened = commands.set_slot_importing(slot, self._move.target.id)
        await run_on_all((self._holder,), [opened])
        finished = False
        try:
            kept, finished = await self._move_keys(slot, known)
        finally:
            # From Redis 8.4 on a server hides the keys of a slot that it neither owns nor imports:
            # those that are left would not be found again.
            if finished or not can(self._move.source.version, Ability.MIGRATION_IMPORT):
                await run_on_all((self._holder,), [commands.set_slot_stable(slot)])
        return kept, finished

    async def _move_keys(self, slot: int, known: frozenset[bytes]) -> tuple[frozenset[bytes], bool]:
        asked = len(known) + max(1, self._left)
        keys = await self._holder.run(commands.get_keys_in_slot(slot, asked), timeout=_TIMEOUT)
        kept: set[bytes] = set(known)
        for number, key in enumerate(key for key in keys if key not in known):
            if number and self.is_over:
                return frozenset(kept), False
            self._left -= 1
            if await self._move_key(key):
                self.moved += 1
            else:
                kept.add(key)
        return frozenset(kept), len(keys) < asked

    async def _move_key(self, key: bytes) -> bool:
        """Move one key, or remove it if its owner has a copy; return whether it is gone.

        MIGRATE of several keys would stop at the first one that exists on both sides.
        """
        move, patience = self._move, self._pace.migrate_milliseconds
        command = commands.migrate_keys(
            [key],
            host=move.target.host,
            port=move.target.port,
            timeout_milliseconds=patience,
            username=move.username,
            password=move.password,
            replace=False,
        )
        try:
            await self._holder.run(command, timeout=patience / 1000 * 2 + _TIMEOUT)
        except ReplyError as error:
            if "BUSYKEY" not in error.message:
                raise MoveError(f"MIGRATE failed: {error.message}") from error
            return await self._drop_copy(key)
        return True

    async def _drop_copy(self, key: bytes) -> bool:
        """Remove a stray key if its owner has the same value; return whether it is gone. I1"""
        theirs = await self._owner.run(commands.dump(key), timeout=_TIMEOUT)
        _, mine = await self._asking(commands.dump(key))
        if theirs is None or theirs != mine:
            return False
        _, gone = await self._asking(commands.unlink(key))
        return bool(gone == 1)

    async def _asking(self, command: Command[Any]) -> list[Any]:
        """Run a command on the slot that the holder imports."""
        return await self._holder.run_all([commands.asking(), command], timeout=_TIMEOUT)
