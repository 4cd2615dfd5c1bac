"""Looks up in the store what a plan needs, and says what times a restore can go back to."""

from __future__ import annotations

from bisect import bisect_right

from msgspec import Struct
from msgspec.structs import replace

from ..errors import Damaged
from .catalogue import Catalogue, Listed
from .plan import (
    At,
    Bound,
    NotArchived,
    Offset,
    Plan,
    Span,
    Wanted,
    Window,
    chain,
    plan,
    text_of,
    window,
)
from .records import Base, PointMark, Segment

__all__ = ["Around", "find_around", "find_plan", "find_window"]

_NEVER = 1 << 62
_SLACK = 60_000_000  # microseconds: clocks differ, and a segment is written for ten seconds


class Around(Struct, frozen=True):
    """What a line has around a moment: the base that serves for it, and all that comes near it."""

    base: Base
    bases: tuple[Base, ...]
    segments: tuple[Segment, ...]

    @property
    def spans(self) -> tuple[Span, ...]:
        """What of the segments belongs to the history."""
        return chain(self.segments)


async def find_around(catalogue: Catalogue, wanted: At | PointMark) -> Around:
    """Return the line that has a moment, from the base before it to some time after it.

    Raises `NotArchived` and `Damaged`, as `find_plan` does.
    """
    early = replace(wanted, bound=Bound.NOT_AFTER) if isinstance(wanted, At) else wanted
    found = await find_plan(catalogue, early)
    [listed] = [one for one in catalogue.lines if one.line == found.base.line]
    upto = await _upto(catalogue, listed, _time(wanted) + _SLACK)
    first = found.spans[0].segment.number
    last = max(upto, found.spans[-1].segment.number)
    numbers = [number for number in _whole(listed, first) if number <= last]
    segments = await catalogue.segments(listed.line, numbers, _time(wanted) - _SLACK)
    return Around(found.base, tuple(await catalogue.bases(listed.line)), _unbroken(segments))


def _unbroken(segments: list[Segment]) -> tuple[Segment, ...]:
    """Return the segments up to a break: what comes after one is not needed."""
    for place in range(1, len(segments)):
        try:
            chain(segments[place - 1 : place + 1])
        except NotArchived:
            return tuple(segments[:place])
    return tuple(segments)


async def find_plan(catalogue: Catalogue, wanted: Wanted | str, *, shard: str = "") -> Plan:
    """Return what is to be read for a time, an offset or a named restore point.

    Raises `NotArchived`, which names the gap where there is one, or `Damaged`.
    """
    if isinstance(wanted, str):
        wanted = await _marked(catalogue, wanted, shard)
    usable = [listed for listed in catalogue.lines if listed.bases and listed.segments]
    if not usable:
        raise NotArchived("the archive has no base with a stream yet")
    if not isinstance(wanted, Offset):
        return await _plan_time(catalogue, usable, wanted)
    failed: NotArchived | None = None
    for listed in reversed(usable):
        try:
            return await _within(catalogue, listed, await catalogue.bases(listed.line), wanted)
        except NotArchived as error:
            failed = failed or error
    assert failed is not None
    raise failed


def _time(wanted: At | PointMark) -> int:
    return wanted.time if isinstance(wanted, At) else wanted.server


async def _marked(catalogue: Catalogue, name: str, shard: str) -> PointMark:
    point = await catalogue.point(name)
    try:
        return point.shards[shard]
    except KeyError:
        known = ", ".join(point.shards)
        raise Damaged(f"restore point {name} has no shard {shard}; it has: {known}") from None


async def _plan_time(catalogue: Catalogue, usable: list[Listed], wanted: At | PointMark) -> Plan:
    failed: NotArchived | None = None
    time = _time(wanted)
    for place in range(len(usable) - 1, -1, -1):
        listed = usable[place]
        bases = await catalogue.bases(listed.line)
        fit = [base for base in bases if base.taken <= time + _SLACK]
        if not fit:
            continue
        try:
            return await _within(catalogue, listed, fit, wanted)
        except NotArchived as error:
            failed = failed or await _in_gap(catalogue, usable[place:], time, error)
    if failed is not None:
        raise failed
    first = (await catalogue.bases(usable[0].line))[0]
    raise NotArchived(
        f"{text_of(time)} is before what the archive has: its first base is of "
        f"{text_of(first.taken)}"
    )


async def _within(catalogue: Catalogue, listed: Listed, fit: list[Base], wanted: Wanted) -> Plan:
    """Plan within one line: from the last base that serves, to the segments around the moment.

    The last one may be later than the cut, or among orphaned bytes.
    """
    upto, since = listed.segments[-1], _NEVER
    if not isinstance(wanted, Offset):
        upto = await _upto(catalogue, listed, _time(wanted) + _SLACK)
        since = _time(wanted) - _SLACK
    failed = NotArchived(f"line {listed.line} has no segment after its base")
    for base in reversed(fit):
        numbers = [number for number in _whole(listed, base.number) if number <= upto]
        if not numbers:
            continue
        try:
            segments = await catalogue.segments(listed.line, numbers, since)
            return plan(wanted, fit, segments)
        except NotArchived as error:
            failed = error
            if not error.earlier:
                break
    raise failed


def _whole(listed: Listed, first: int) -> list[int]:
    """Return the numbers from `first` on; a hole in them is found by `chain`."""
    return [number for number in listed.segments if number >= first]


async def _upto(catalogue: Catalogue, listed: Listed, time: int) -> int:
    """Return the number of the first segment that began after `time`, or of the last one."""
    low, high = 0, len(listed.segments) - 1
    while low < high:
        middle = (low + high) // 2
        if (await catalogue.segment(listed.line, listed.segments[middle])).begun > time:
            high = middle
        else:
            low = middle + 1
    return listed.segments[high]


async def _in_gap(
    catalogue: Catalogue, lines: list[Listed], time: int, error: NotArchived
) -> NotArchived:
    """Return the error as one that names the gap, where another line follows."""
    if len(lines) < 2:
        return error
    following = await catalogue.bases(lines[1].line)
    last = await catalogue.segment(lines[0].line, lines[0].segments[-1])
    if time < last.begun:
        return error
    return NotArchived(
        f"{text_of(time)} lies in a gap of the archive, from {text_of(_end(last))} to "
        f"{text_of(following[0].taken)}: {following[0].reason}. Choose a time outside of it"
    )


def _end(segment: Segment) -> int:
    return segment.samples[-1].server if segment.samples else segment.ended


async def find_window(catalogue: Catalogue) -> Window:
    """Return how far back and how recent the archive is, and where it has gaps.

    A missing or unreadable segment is a gap, and what is before it can be gone back to only up to
    it.
    """
    lines: list[tuple[list[Base], list[Segment]]] = []
    for listed in catalogue.lines:
        if not listed.bases or not listed.segments:
            continue
        bases = await catalogue.bases(listed.line)
        run: list[Segment] = []
        reason = bases[0].reason
        for number in range(listed.segments[0], listed.segments[-1] + 1):
            at = bisect_right(listed.segments, number)
            present = at > 0 and listed.segments[at - 1] == number
            try:
                if not present:
                    _miss(listed.line, number)
                run.append(await catalogue.segment(listed.line, number))
                chain(run[-2:])
            except (NotArchived, Damaged) as error:
                if run and run[-1].number == number:
                    run.pop()
                lines.append((_with(bases, reason), run))
                run, reason = [], str(error)
        lines.append((_with(bases, reason), run))
    return window([(bases, run) for bases, run in lines if run])


def _miss(line: int, number: int) -> None:
    raise NotArchived(f"segment {number} of line {line} is missing")


def _with(bases: list[Base], reason: str) -> list[Base]:
    return [replace(bases[0], reason=reason), *bases[1:]]
