"""Deletes what a restore can no longer need.

Guarantees: what can be gone back to after a time stays: the last base at or before it, and all that
comes later. A base goes before the segments after it, so that nothing half deleted is chosen. The
last base of an archive always stays.
"""

from __future__ import annotations

import re

from ..store import Shelf
from .catalogue import read_catalogue

__all__ = ["prune"]

_OBJECT = re.compile(r"^(\d{6})/(segment|base)-(\d{8})[-.]")


async def prune(shelf: Shelf, keep_after: int) -> int:
    """Delete what is not needed to go back to `keep_after` (microseconds); return how much."""
    catalogue = await read_catalogue(shelf)
    bases = [base for listed in catalogue.lines for base in await catalogue.bases(listed.line)]
    old = [base for base in bases if base.taken <= keep_after]
    if not old:
        return 0
    kept = (old[-1].line, old[-1].number)
    doomed: list[tuple[int, str]] = []
    for name in await shelf.names():
        found = _OBJECT.match(name)
        if found is None:
            continue
        place = (int(found[1]), int(found[3]))
        if place < kept:
            order = (0 if name.endswith(".json") else 1) + (0 if found[2] == "base" else 2)
            doomed.append((order, name))
    await shelf.delete([name for _, name in sorted(doomed)])
    return len(doomed)
