"""Atomic slot migration: Valkey 9 and Redis 8.4 both have it, with different commands.

The engine copies the slots while it serves clients, then changes the owner in one step; a migration
that fails or is cancelled leaves everything with the source. A job is started, or one that an
earlier attempt started is found; it is polled until it ends, and then the owner of the slots is
read: only that counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from . import commands
from .command import Command, Link
from .moving import Move, MoveError
from .replies import MigrationJob
from .slots import SlotSet

__all__ = ["MAXIMUM_REDIS_CHUNK", "import_with_redis", "migrate_with_valkey"]

MAXIMUM_REDIS_CHUNK: Final = 1024
"""Redis retries by itself, from the start of the task: smaller tasks make that cheap."""
_TIMEOUT: Final = 5.0
_LOOK_SECONDS: Final = 0.01
_LONGEST_LOOK_SECONDS: Final = 0.025


async def migrate_with_valkey(source: Link, move: Move, slots: SlotSet) -> bool:
    """Move slots by one job on the source (Valkey 9); each job costs one write pause.

    False when it only waited for a job that an earlier attempt had started: the caller finds out
    which slots that one moved.
    """
    jobs = commands.slot_migrations()
    before = await source.run(jobs, timeout=_TIMEOUT)
    running = [job for job in before if not job.is_finished and job.target == move.target.id]
    if running:
        await _watch(source, jobs, lambda job: job.name == running[0].name)
        return False
    known = {job.name for job in before}
    await source.run(commands.migrate_slots(slots, move.target.id), timeout=_TIMEOUT)
    await _watch(source, jobs, lambda job: job.name not in known and job.target == move.target.id)
    return True


async def import_with_redis(target: Link, slots: SlotSet) -> bool:
    """Move slots by tasks on the target (Redis 8.4), one after another: it does one at a time.

    False when it only waited for an earlier task, as above.
    """
    status = commands.migration_status()
    for running in await target.run(status, timeout=_TIMEOUT):
        if not running.is_finished:
            await _watch(target, status, lambda job, name=running.name: job.name == name)  # type: ignore[misc]
            return False
    left = slots
    while left:
        chunk = left.lowest(MAXIMUM_REDIS_CHUNK)
        task = await target.run(commands.migration_import(chunk), timeout=_TIMEOUT)
        await _watch(target, status, lambda job, name=task: job.name == name)  # type: ignore[misc]
        left -= chunk
    return True


async def _watch(
    link: Link,
    question: Command[tuple[MigrationJob, ...]],
    is_ours: Callable[[MigrationJob], bool],
) -> None:
    """Poll a job until it has ended; raise when it failed."""
    pause = _LOOK_SECONDS
    while True:
        jobs = await link.run(question, timeout=_TIMEOUT)
        ours = next((job for job in jobs if is_ours(job)), None)
        if ours is None:
            raise MoveError("the server no longer reports the slot migration that was started")
        if ours.is_successful:
            return
        if ours.is_finished:
            raise MoveError(f"slot migration {ours.state}: {ours.message or 'no reason was given'}")
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_LOOK_SECONDS)
