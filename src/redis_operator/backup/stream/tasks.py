"""Tasks that run beside each other: how one ends, and how long to wait for a stop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from ..errors import Damaged, WorkerError

__all__ = ["end", "is_set"]


async def is_set(stop: asyncio.Event, *, within: float) -> bool:
    """Wait so many seconds at most; return whether `stop` is set then."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            await stop.wait()
    return stop.is_set()


async def end(task: asyncio.Future[Any]) -> None:
    """Cancel a task; its errors do not matter any more."""
    task.cancel()
    with suppress(asyncio.CancelledError, WorkerError, Damaged):
        await task
