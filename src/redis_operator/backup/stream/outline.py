"""What an archive spans, from few of its manifests: its first base, its last one, and its gaps.

Unlike `find.find_window` it does not read every segment, so that it can be repeated often: objects
that are missing or empty within a line are found by the list of names alone, and bytes that were
changed are not found here.
"""

from __future__ import annotations

import logging

from msgspec import Struct
from msgspec.structs import replace

from ..errors import Damaged, WorkerError
from ..store import Shelf
from ..task import ReportedGap
from .catalogue import Catalogue, ListedLine, read_catalogue
from .records import Base, Segment

__all__ = ["End", "Outline", "Overview", "end_of", "read_outline"]

_LOG = logging.getLogger(__name__)
_LISTED_LATE = 3
_LOOKED_AT = 3  # segments from a base on, for the first answer of the primary after it


class Outline(Struct, frozen=True):
    """Times are microseconds since 1970; 0: there is none.

    `is_open`: a line has a base and no time yet that a restore can go back to. `is_broken`: there
    is no base yet after a missing segment, or the only one lost its bytes. `began_empty`: the shard
    of a cluster had no slot when its archive began.
    """

    oldest: int = 0
    based: int = 0
    gaps: tuple[ReportedGap, ...] = ()
    is_open: bool = False
    began_empty: bool = False
    is_broken: bool = False


class End(Struct, frozen=True):
    """Where an archive ends: its last segment, its last line and the bases of that.

    `damage`: which of these cannot be read, so that the line cannot continue.
    """

    stored: Segment | None
    line: int
    bases: tuple[Base, ...]
    damage: str = ""


class Overview:
    """The outline of an archive that grows: what it was when it was read last."""

    def __init__(self, shelf: Shelf) -> None:
        self.outline = Outline()
        self._shelf = shelf
        self._at: Segment | None = None

    @property
    def is_broken(self) -> bool:
        """Whether a base is needed: times after a missing segment cannot be restored without
        one."""
        return self.outline.is_broken

    async def read(self, catalogue: Catalogue | None = None) -> None:
        """Read again what the archive spans. Raises `WorkerError`."""
        self.outline = await read_outline(catalogue or await read_catalogue(self._shelf))

    async def based(self) -> None:
        """Read again after a base was stored; where that fails, the last result is kept."""
        self.outline = replace(self.outline, is_broken=False)
        try:
            await self.read()
        except WorkerError as error:
            _LOG.warning("what the archive spans cannot be read: %s", error)

    async def read_end(self) -> End:
        """Return where the archive ends. Raises `StoreError`: what is damaged ends a line alone."""
        catalogue = await read_catalogue(self._shelf)
        line = max((listed.line for listed in catalogue.lines), default=0)
        try:
            await self.read(catalogue)
        except Damaged as error:
            _LOG.warning("what the archive spans cannot be read: %s", error)
        try:
            stored = await catalogue.newest()
        except Damaged as error:
            return End(None, line, (), str(error))
        bases = tuple(await catalogue.bases(line)) if line else ()
        damaged = [text for place, text in catalogue.damaged.items() if place[0] == line]
        goes_on = bases or (stored is not None and stored.line == line)
        return End(stored, line, bases, "" if goes_on else "; ".join(damaged[-1:]))

    async def follow(self, newest: Segment | None) -> None:
        """Read again after a segment was stored that an open line may have waited for."""
        if self.outline.is_open and newest is not None and newest is not self._at:
            self._at = newest
            await self.read()


async def read_outline(catalogue: Catalogue) -> Outline:
    """Return what the archive of a shard spans. Raises `WorkerError`."""
    oldest = based = ended = 0
    gaps: list[ReportedGap] = []
    is_open = is_broken = began_empty = False
    for listed in catalogue.lines:
        bases = await catalogue.bases(listed.line)
        if not bases:
            is_broken = bool(listed.bases)
            continue
        based = bases[-1].taken
        begun = await _begun(catalogue, listed, bases[0])
        is_open = not begun
        if not begun:
            continue
        if not oldest:
            oldest = begun
            first = await catalogue.segment(listed.line, _from(listed, bases[0])[0])
            began_empty = bool(first.owned) and not first.owned[0].slots
        if ended:
            gaps.append(ReportedGap(ended, begun, bases[0].reason or "the stream was lost"))
        holes, is_broken = await _holes(catalogue, listed, bases)
        gaps += holes
        ended = end_of(await catalogue.segment(listed.line, listed.segments[-1]))
    return Outline(oldest, based, tuple(gaps), is_open, began_empty, is_broken)


async def _holes(
    catalogue: Catalogue, listed: ListedLine, bases: list[Base]
) -> tuple[list[ReportedGap], bool]:
    """Return the gaps that missing segments leave, and whether no base comes after the last one.

    A store may list the newest objects late: these are not missed.
    """
    first, last = bases[0].number, listed.segments[-1] - _LISTED_LATE
    present = set(listed.segments) - set(listed.hollow)
    missing = [number for number in range(first, last + 1) if number not in present]
    gaps: list[ReportedGap] = []
    upto = 0
    for number in missing:
        if number < upto:
            continue
        base = next((one for one in bases if one.number > number), None)
        before = max((one for one in present if one < number), default=0)
        if not before:
            continue
        ended = (await catalogue.segment(listed.line, before)).ended_at
        upto = base.number if base is not None else last + 1
        begun = await _begun(catalogue, listed, base) if base is not None else 0
        if base is not None and begun:
            why = f"segment {number} of line {listed.line} is missing from the store, or empty"
            gaps.append(ReportedGap(ended, begun, why))
    return gaps, bool(missing) and not any(base.number > missing[-1] for base in bases)


async def _begun(catalogue: Catalogue, listed: ListedLine, base: Base) -> int:
    """Return the first time that can be gone back to from a base on."""
    for number in _from(listed, base)[:_LOOKED_AT]:
        try:
            segment = await catalogue.segment(listed.line, number)
        except Damaged:
            continue
        for sample in segment.samples:
            if sample.offset >= base.part.offset:
                return sample.server
    return 0


def _from(listed: ListedLine, base: Base) -> list[int]:
    return [number for number in listed.segments if number >= base.number]


def end_of(segment: Segment | None) -> int:
    """Return up to when a segment can be gone back to, by the primary's clock if it was asked."""
    return segment.ended_at if segment is not None else 0
