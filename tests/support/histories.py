"""How many of the possible histories a run plays: a few drawn by its seed, or all of them.

`make test` draws other ones in each run, and `SEED=...` repeats them. `make seeds` sets
HISTORIES=all and plays every one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from random import Random
from typing import TypeVar

from kubecontroller.testing.seeds import derive

__all__ = ["ALL", "draw_some"]

T = TypeVar("T")

ALL = os.environ.get("HISTORIES") == "all"


def draw_some(found: Iterable[T], count: int, *, name: str) -> list[T]:
    """Return so many of what was found, in its order, or everything when all is to be played."""
    everything = list(found)
    if ALL or len(everything) <= count:
        return everything
    chosen = sorted(Random(derive(f"some {name}")).sample(range(len(everything)), count))
    return [everything[number] for number in chosen]
