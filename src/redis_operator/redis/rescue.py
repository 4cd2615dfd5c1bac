"""Move stray keys to their owner: keys on a server that does not own their slots.

An interrupted move leaves them behind. A key that its owner has with another value is not moved:
which of the two is newer cannot be known. The slots are closed again in any case.
"""

from __future__ import annotations

from typing import Any, Final

from . import commands
from .command import Command, Link
from .errors import ReplyError
from .mover import known_of, owned_by, run_on_all
from .moving import Move, MoveError, Pace

__all__ = ["rescue_keys"]

_TIMEOUT: Final = 5.0


async def rescue_keys(
    holder: Link, owner: Link, move: Move, *, pace: Pace | None = None
) -> tuple[int, int]:
    """Move keys of slots that `holder` (the source) does not own to their owner (the target).

    Returns how many keys were moved and how many stay because the owner has another value of them:
    it is unknown which is newer. A copy of the same value is removed, and counts as moved. The
    slots are closed again in any case.
    """
    speed = pace or Pace()
    mine, theirs = await owned_by(holder), await owned_by(owner)
    wrong = (move.slots & mine) | (move.slots - theirs)
    if wrong:
        raise MoveError(f"slots {wrong} are not the owner's: nothing to rescue there")
    if move.slots - await known_of(holder, move.target.id):
        # From Valkey 8 on it would take a slot if it learned that the source no longer claims it.
        raise MoveError(f"{move.source.host} has not heard yet whose slots {move.slots} are")
    await run_on_all(
        (holder,), [commands.set_slot_importing(s, move.target.id) for s in move.slots]
    )
    brought = kept = 0
    try:
        for slot in move.slots:
            more, left = await _rescue_slot(holder, owner, move, slot, speed)
            brought, kept = brought + more, kept + left
    finally:
        await run_on_all((holder,), [commands.set_slot_stable(slot) for slot in move.slots])
    return brought, kept


async def _rescue_slot(
    holder: Link, owner: Link, move: Move, slot: int, pace: Pace
) -> tuple[int, int]:
    """Move one key at a time: a batch would stop at the first key that exists on both sides."""
    total = await holder.run(commands.count_keys_in_slot(slot), timeout=_TIMEOUT)
    keys = (
        await holder.run(commands.get_keys_in_slot(slot, total), timeout=_TIMEOUT) if total else ()
    )
    kept = 0
    for key in keys:
        command = commands.migrate_keys(
            [key],
            host=move.target.host,
            port=move.target.port,
            timeout_milliseconds=pace.migrate_milliseconds,
            username=move.username,
            password=move.password,
            replace=False,
        )
        try:
            await holder.run(command, timeout=pace.migrate_milliseconds / 1000 * 2 + _TIMEOUT)
        except ReplyError as error:
            if "BUSYKEY" not in error.message:
                raise MoveError(f"MIGRATE failed: {error.message}") from error
            kept += not await _drop_copy(holder, owner, key)
    return len(keys) - kept, kept


async def _drop_copy(holder: Link, owner: Link, key: bytes) -> bool:
    """Remove a stray key if its owner has the same value; return whether it is gone. I1"""
    theirs = await owner.run(commands.dump(key), timeout=_TIMEOUT)
    _, mine = await _asking(holder, commands.dump(key))
    if theirs is None or theirs != mine:
        return False
    _, gone = await _asking(holder, commands.unlink(key))
    return bool(gone == 1)


async def _asking(importing: Link, command: Command[Any]) -> list[Any]:
    """Run a command on a slot that the server imports."""
    return await importing.run_all([commands.asking(), command], timeout=_TIMEOUT)
