"""From a time, an offset or a restore point to the objects to read, or why it is impossible. Pure.

A time alone cannot name one command: samples pair the primary's clock with its offset every 50 ms.
`NOT_AFTER` takes the last sample at or before the time, and holds nothing later. `INCLUDE` takes
the first sample after it, and misses nothing that was acknowledged by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct

from ..errors import WorkerError
from .records import Base, PointMark, Sample, Segment

__all__ = [
    "AtTime",
    "Bound",
    "Gap",
    "NotArchived",
    "Offset",
    "ReplayPlan",
    "RestoreEnd",
    "Span",
    "Window",
    "chain",
    "cut_at",
    "plan",
    "text_of",
    "window",
]


class NotArchived(WorkerError):  # noqa: N818 - what it is
    """The requested moment is not in the archive. `earlier`: it may be from an earlier base on."""

    reason = "NotArchived"

    def __init__(self, message: str, *, earlier: bool = False) -> None:
        super().__init__(message)
        self.earlier = earlier


class Bound(Enum):
    """On which side of a time a restore ends."""

    NOT_AFTER = "notAfter"
    INCLUDE = "include"


class AtTime(Struct, frozen=True):
    """A moment, in microseconds since 1970."""

    time: int
    bound: Bound = Bound.NOT_AFTER


class Offset(Struct, frozen=True):
    """The exact end of a command in a history."""

    replication_id: str
    offset: int


class Span(Struct, frozen=True):
    """The part of a segment that belongs to the history: up to `until`, the rest is orphaned."""

    segment: Segment
    until: int

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The samples of what is not orphaned."""
        return tuple(found for found in self.segment.samples if found.offset <= self.until)


class RestoreEnd(Struct, frozen=True):
    """Where a restore ends: the last byte, and the primary's clock at it and after it."""

    replication_id: str
    offset: int
    reached: int = 0  # the sample at the offset; 0: unknown
    passed: int = 0  # the first sample beyond it


class ReplayPlan(Struct, frozen=True):
    """A base, the spans after it, and the cut in the last of them."""

    base: Base
    spans: tuple[Span, ...]
    cut: RestoreEnd


class Gap(Struct, frozen=True):
    """A time that no restore can go back to, and why. Times in microseconds; 0: open."""

    after: int
    before: int
    reason: str


class Window(Struct, frozen=True):
    """How far back, and how recent: any time between them but those in `gaps`. 0: nothing yet."""

    oldest: int = 0
    newest: int = 0
    gaps: tuple[Gap, ...] = ()


Wanted: TypeAlias = AtTime | Offset | PointMark


def text_of(microseconds: int) -> str:
    """Return a time as people write it."""
    moment = datetime.fromtimestamp(microseconds / 1e6, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def chain(segments: Sequence[Segment]) -> tuple[Span, ...]:
    """Return the spans of segments that follow on each other. Raises `NotArchived` at a break."""
    spans = [Span(segment, segment.last) for segment in segments]
    for place, (before, after) in enumerate(pairwise(segments)):
        if after.number != before.number + 1:
            raise NotArchived(
                f"segment {before.number + 1} of line {before.line} is missing from the archive"
            )
        promoted = after.parent == before.replication_id != after.replication_id
        if promoted and after.first <= before.last + 1:
            for earlier in range(place, -1, -1):
                if spans[earlier].until < after.first:
                    break
                spans[earlier] = Span(segments[earlier], after.first - 1)
            continue
        if before.replication_id == after.replication_id and after.first == before.last + 1:
            continue
        raise NotArchived(
            f"segment {after.number} of line {after.line} does not follow on the one before: "
            f"{before.replication_id} ends at {before.last}, {after.replication_id} begins at "
            f"{after.first}"
        )
    return tuple(spans)


def cut_at(wanted: AtTime, spans: Sequence[Span]) -> RestoreEnd:
    """Return where a line is cut for a time. Raises `NotArchived`."""
    found = [(span.segment.replication_id, sample) for span in spans for sample in span.samples]
    before = [pair for pair in found if pair[1].server <= wanted.time]
    after = [pair for pair in found if pair[1].server > wanted.time]
    if not before:
        first = f"; its first sample is of {text_of(found[0][1].server)}" if found else ""
        text = f"{text_of(wanted.time)} is before what the archive has{first}"
        raise NotArchived(text, earlier=True)
    if not after:
        raise NotArchived(
            f"{text_of(wanted.time)} is later than what the archive has: its last sample is of "
            f"{text_of(before[-1][1].server)}"
        )
    reached, passed = before[-1], after[0]
    chosen = reached if wanted.bound is Bound.NOT_AFTER else passed
    return RestoreEnd(chosen[0], chosen[1].offset, reached[1].server, passed[1].server)


def plan(wanted: Wanted, bases: Sequence[Base], segments: Sequence[Segment]) -> ReplayPlan:
    """Return what is read for a cut within one line. Raises `NotArchived`.

    `segments`: from that of the earliest usable base up to the cut, without a gap.
    """
    spans = chain(segments)
    if isinstance(wanted, AtTime):
        cut = cut_at(wanted, spans)
    else:
        clock = wanted.server if isinstance(wanted, PointMark) else 0
        cut = RestoreEnd(wanted.replication_id, wanted.offset, clock, clock)
    end = _place(spans, cut.replication_id, cut.offset)
    fit = [
        (place, base)
        for base in bases
        if (place := _place(spans, base.part.replication_id, base.part.offset)) is not None
    ]
    if end is None:
        raise NotArchived(
            f"offset {cut.offset} of history {cut.replication_id} is not in the archive, or it "
            "belongs to writes that were lost in a failover",
            earlier=True,
        )
    fit = [pair for pair in fit if pair[1].part.offset <= cut.offset]
    if not fit:
        text = f"no base at or before {_described(wanted)} is in the archive"
        raise NotArchived(text, earlier=True)
    start, base = max(fit, key=lambda pair: (pair[0], pair[1].part.offset))
    return ReplayPlan(base, tuple(spans[start : end + 1]), cut)


def _described(wanted: Wanted) -> str:
    if isinstance(wanted, AtTime):
        return text_of(wanted.time)
    return f"offset {wanted.offset} of history {wanted.replication_id}"


def _place(spans: Sequence[Span], replication_id: str, offset: int) -> int | None:
    """Return the span that holds this offset, or that begins right after it."""
    for place, span in enumerate(spans):
        segment = span.segment
        if segment.replication_id == replication_id and segment.first <= offset <= span.until:
            return place
    for place, span in enumerate(spans):
        segment = span.segment
        is_orphaned = span.until < segment.first - 1
        histories = (segment.replication_id, segment.parent)
        if offset == segment.first - 1 and replication_id in histories and not is_orphaned:
            return place
    return None


def window(lines: Sequence[tuple[Sequence[Base], Sequence[Segment]]]) -> Window:
    """Return what times a restore can go back to, from segments that follow on each other.

    The first base of each says why they do not follow on those before.
    """
    reach: list[tuple[int, int, str]] = []
    gaps: list[Gap] = []
    for bases, segments in lines:
        spans = chain(segments)
        usable = [
            base.part
            for base in bases
            if _place(spans, base.part.replication_id, base.part.offset) is not None
        ]
        if not usable:  # after a gap, times are usable from the next base on
            gaps.append(Gap(reach[-1][1] if reach else 0, spans[-1].segment.ended, bases[0].reason))
            continue
        first = min(part.offset for part in usable)
        times = [s.server for span in spans for s in span.samples if s.offset >= first]
        if times:
            reach.append((times[0], times[-1], bases[0].reason))
    gaps += [
        Gap(before[1], after[0], after[2] or "the stream was lost")
        for before, after in pairwise(reach)
    ]
    if not reach:
        return Window(gaps=tuple(gaps))
    return Window(reach[0][0], reach[-1][1], tuple(gaps))
