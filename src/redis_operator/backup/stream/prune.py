"""Delete objects that no restore needs any more.

Guarantees: a restore to any time after a given one stays possible: the last base at or before it
stays, and all that comes later. A base is deleted before the segments after it, so that nothing
partly deleted is chosen. The last base of an archive always stays. Restore points are deleted when
nothing that they name is left.

No single clock decides: the archive is never newer than the primaries' clocks say, and a base never
older.
"""

from __future__ import annotations

import re

from ..errors import Damaged
from ..store import Shelf
from .catalogue import Catalogue, read_catalogue
from .records import Base, point_name

__all__ = ["keep_after", "prune"]

_SLACK = 60_000_000  # microseconds: clocks of workers and primaries differ
_OBJECT = re.compile(r"^(\d{6})/(segment|base)-(\d{8})[-.]")


def keep_after(keep_seconds: int, *, now: int, newest: int) -> int:
    """Return since when times are kept; 0: nothing is deleted.

    `now` is the worker's clock. `newest`: the last time, by a primary's clock, that the store has.
    A worker whose clock is a year ahead would delete the past: the earlier of the two counts.
    """
    return min(now, newest) - keep_seconds * 1_000_000 if newest else 0


async def prune(shelf: Shelf, keep_after: int) -> int:
    """Delete what is not needed to go back to `keep_after` (microseconds); return how much."""
    catalogue = await read_catalogue(shelf)
    bases = [base for listed in catalogue.lines for base in await catalogue.bases(listed.line)]
    old = await _last_before(keep_after, bases, catalogue)
    if old is None:
        return 0
    kept = (old.line, old.number)
    expired: list[tuple[int, str]] = []
    for name in await shelf.names():
        found = _OBJECT.match(name)
        if found is None:
            continue
        place = (int(found[1]), int(found[3]))
        if place < kept:
            order = (0 if name.endswith(".json") else 1) + (0 if found[2] == "base" else 2)
            expired.append((order, name))
    await shelf.delete([name for _, name in sorted(expired)])
    if expired:
        await shelf.delete(await _points(catalogue, old.taken - _SLACK))
    return len(expired)


async def _last_before(time: int, bases: list[Base], catalogue: Catalogue) -> Base | None:
    """Return the last base before a time, by the clock of the worker that took it and by that of
    the primary: either may have been behind."""
    for base in reversed(bases):
        [listed] = [one for one in catalogue.lines if one.line == base.line]
        following = [number for number in listed.segments if number >= base.number]
        if base.taken > time or not following:
            continue
        try:
            ended = (await catalogue.segment(base.line, following[0])).ended_at
        except Damaged:
            continue
        if ended <= time:
            return base
    return None


async def _points(catalogue: Catalogue, before: int) -> list[str]:
    """Return the restore points that are older than all that is kept."""
    found = []
    for name in catalogue.points:
        try:
            point = await catalogue.point(name)
        except Damaged:
            continue
        if max((mark.server for mark in point.shards.values()), default=before) < before:
            found.append(point_name(name))
    return found
