"""Fairness on the event loop: a task with much work lets other tasks run in between."""

from __future__ import annotations

import asyncio

__all__ = ["Turn"]

_SECONDS = 0.0005
_STEPS = 256


class Turn:
    """The turn of a task: over after half a millisecond, or 256 steps where time does not advance.

    Call `step` after each piece of work that may not have waited. A burst of ten thousand events
    then delays a lease renewal, a probe or a worker by about a millisecond, not by the whole burst.
    """

    __slots__ = ("_since", "_steps")

    def __init__(self) -> None:
        self._since = 0.0
        self._steps = 0

    async def step(self) -> None:
        """Count a piece of work, and let other tasks run if the turn is over."""
        self._steps += 1
        loop = asyncio.get_running_loop()
        if self._steps < _STEPS and loop.time() - self._since < _SECONDS:
            return
        await asyncio.sleep(0)
        self._steps = 0
        self._since = loop.time()
