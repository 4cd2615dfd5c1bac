"""Both sides of a comparison in turns: A, B, B, A, and so on (ABBA).

Whatever else changes on the machine meanwhile then falls on both sides alike.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["RUNS", "in_turns"]

T = TypeVar("T")
RUNS = int(os.environ.get("BENCH_RUNS", "5"))
"""How often each side of a comparison runs at least."""


async def in_turns(
    ours: Callable[[], Awaitable[T]], *peers: Callable[[], Awaitable[T]], runs: int = RUNS
) -> list[list[T]]:
    """Run every side so often, each round in the opposite order of the last; results by side."""
    sides = [ours, *peers]
    results: list[list[T]] = [[] for _ in sides]
    for number in range(runs):
        order = range(len(sides)) if number % 2 == 0 else reversed(range(len(sides)))
        for side in order:
            results[side].append(await sides[side]())
    return results
