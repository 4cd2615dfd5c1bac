"""What an archive spans, from few of its manifests: its first base, its last one, and its gaps.

Unlike `find.find_window` it does not read every segment, so that it can be asked again and again:
what is missing or damaged within a line is not found here.
"""

from __future__ import annotations

from msgspec import Struct

from ..task import ToldGap
from .catalogue import Catalogue
from .records import Segment

__all__ = ["Outline", "end_of", "read_outline"]


class Outline(Struct, frozen=True):
    """Times are microseconds since 1970; 0: there is none."""

    oldest: int = 0
    based: int = 0
    gaps: tuple[ToldGap, ...] = ()


async def read_outline(catalogue: Catalogue) -> Outline:
    """Return what the archive of a shard spans. Raises `WorkerError`."""
    oldest = based = ended = 0
    gaps: list[ToldGap] = []
    for listed in catalogue.lines:
        bases = await catalogue.bases(listed.line)
        if not bases:
            continue
        oldest, based = oldest or bases[0].taken, bases[-1].taken
        if ended and listed.line > 1:
            gaps.append(ToldGap(ended, bases[0].taken, bases[0].reason))
        if listed.segments:
            ended = end_of(await catalogue.segment(listed.line, listed.segments[-1]))
    return Outline(oldest, based, tuple(gaps))


def end_of(segment: Segment | None) -> int:
    """Return up to when a segment can be gone back to, by the primary's clock if it was asked."""
    if segment is None:
        return 0
    return segment.samples[-1].server if segment.samples else segment.ended
