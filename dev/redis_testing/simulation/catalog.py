"""Everything that happens to databases in simulation."""

from __future__ import annotations

from .changes import CHANGES, ENDS, MOVES, OVERLAPS
from .heals import CREATIONS, HEALS

__all__ = ["SCENARIOS"]

SCENARIOS = (*CREATIONS, *HEALS, *MOVES, *CHANGES, *OVERLAPS, *ENDS)
