"""What an archive spans, from few of its manifests: its first base, its last one, and its gaps.

Unlike `find.find_window` it does not read every segment, so that it can be asked repeatedly:
what is missing or damaged within a line is not found here.
"""

from __future__ import annotations

import logging

from msgspec import Struct

from ..errors import Damaged
from ..store import Shelf
from ..task import ToldGap
from .catalogue import Catalogue, Listed, read_catalogue
from .records import Base, Segment

__all__ = ["End", "Outline", "Overview", "end_of", "read_outline"]

_LOG = logging.getLogger(__name__)
_LOOKED_AT = 3  # segments from a base on, for the first answer of the primary after it


class Outline(Struct, frozen=True):
    """Times are microseconds since 1970; 0: there is none.

    `is_open`: a line has a base now and no time yet that it can be gone back to. `began_empty`:
    the shard of a cluster had no slot when its archive begins.
    """

    oldest: int = 0
    based: int = 0
    gaps: tuple[ToldGap, ...] = ()
    is_open: bool = False
    began_empty: bool = False


class End(Struct, frozen=True):
    """Where an archive ends: its last segment, its last line and the bases of that."""

    stored: Segment | None
    line: int
    bases: tuple[Base, ...]


class Overview:
    """The outline of an archive that grows: what it was when it was read last."""

    def __init__(self, shelf: Shelf) -> None:
        self.outline = Outline()
        self._shelf = shelf
        self._at: Segment | None = None

    async def read(self, catalogue: Catalogue | None = None) -> None:
        """Look again what the archive spans. Raises `WorkerError`."""
        self.outline = await read_outline(catalogue or await read_catalogue(self._shelf))

    async def read_end(self) -> End:
        """Return where the archive ends. Raises `WorkerError`, which names what is damaged.

        What is damaged elsewhere is no reason not to go on.
        """
        catalogue = await read_catalogue(self._shelf)
        stored = await catalogue.newest()
        line = max((listed.line for listed in catalogue.lines), default=0)
        bases = tuple(await catalogue.bases(line)) if line else ()
        try:
            await self.read(catalogue)
        except Damaged as error:
            _LOG.warning("what the archive spans cannot be read: %s", error)
        return End(stored, line, bases)

    async def follow(self, newest: Segment | None) -> None:
        """Look again where a segment was stored that an open line may have waited for."""
        if self.outline.is_open and newest is not None and newest is not self._at:
            self._at = newest
            await self.read()


async def read_outline(catalogue: Catalogue) -> Outline:
    """Return what the archive of a shard spans. Raises `WorkerError`."""
    oldest = based = ended = 0
    gaps: list[ToldGap] = []
    is_open = began_empty = False
    for listed in catalogue.lines:
        bases = await catalogue.bases(listed.line)
        if not bases:
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
            gaps.append(ToldGap(ended, begun, bases[0].reason or "the stream was lost"))
        ended = end_of(await catalogue.segment(listed.line, listed.segments[-1]))
    return Outline(oldest, based, tuple(gaps), is_open, began_empty)


async def _begun(catalogue: Catalogue, listed: Listed, base: Base) -> int:
    """Return the first time that can be gone back to from a base on."""
    for number in _from(listed, base)[:_LOOKED_AT]:
        segment = await catalogue.segment(listed.line, number)
        for sample in segment.samples:
            if sample.offset >= base.part.offset:
                return sample.server
    return 0


def _from(listed: Listed, base: Base) -> list[int]:
    return [number for number in listed.segments if number >= base.number]


def end_of(segment: Segment | None) -> int:
    """Return up to when a segment can be gone back to, by the primary's clock if it was asked."""
    if segment is None:
        return 0
    return segment.samples[-1].server if segment.samples else segment.ended
