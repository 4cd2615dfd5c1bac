"""Find in the store what a plan needs, and the times that a restore can go back to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from msgspec import Struct
from msgspec.structs import replace

from ..errors import Damaged, WorkerError
from .catalogue import Catalogue, ListedLine
from .plan import (
    AtTime,
    Bound,
    NotArchived,
    Offset,
    ReplayPlan,
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
_SLACK = 60_000_000  # microseconds: clocks of primaries differ, and a segment is of ten seconds
_NEAR = 3  # segments from a base on, for the first answer of the primary after it
_AT_ONCE = 16


class Around(Struct, frozen=True):
    """The part of a line around a moment: the base for it, and all segments near it."""

    base: Base
    bases: tuple[Base, ...]
    segments: tuple[Segment, ...]

    @property
    def spans(self) -> tuple[Span, ...]:
        """The parts of the segments that belong to the history."""
        return chain(self.segments)


async def find_around(catalogue: Catalogue, wanted: AtTime | PointMark) -> Around:
    """Return the line that has a moment, from the base before it to some time after it.

    Raises `NotArchived` and `Damaged`, as `find_plan` does.
    """
    early = replace(wanted, bound=Bound.NOT_AFTER) if isinstance(wanted, AtTime) else wanted
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


async def find_plan(catalogue: Catalogue, wanted: Wanted | str, *, shard: str = "") -> ReplayPlan:
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


def _time(wanted: AtTime | PointMark) -> int:
    return wanted.time if isinstance(wanted, AtTime) else wanted.server


async def _marked(catalogue: Catalogue, name: str, shard: str) -> PointMark:
    point = await catalogue.point(name)
    try:
        return point.shards[shard]
    except KeyError:
        known = ", ".join(point.shards)
        raise Damaged(f"restore point {name} has no shard {shard}; it has: {known}") from None


async def _plan_time(
    catalogue: Catalogue, usable: list[ListedLine], wanted: AtTime | PointMark
) -> ReplayPlan:
    """Plan by the clocks of primaries alone: that of a worker may differ much."""
    failed: NotArchived | None = None
    time = _time(wanted)
    for place in range(len(usable) - 1, -1, -1):
        listed = usable[place]
        _, begun = await _began(catalogue, listed, 0)
        if begun > time + _SLACK:
            continue
        bases = await catalogue.bases(listed.line)
        try:
            return await _within(catalogue, listed, bases, wanted)
        except NotArchived as error:
            failed = failed or await _in_gap(catalogue, usable[place:], time, error)
    if failed is not None:
        raise failed
    _, oldest = await _began(catalogue, usable[0], 0)
    raise NotArchived(
        f"{text_of(time)} is before what the archive has: it begins at {text_of(oldest)}"
    )


async def _began(catalogue: Catalogue, listed: ListedLine, place: int) -> tuple[int, int]:
    """Return when a segment began, or the next one whose manifest can be read, and its place.

    A damaged object is reported by the caller that needs it, and not by a search that passes it.
    """
    while True:
        try:
            found = await catalogue.segment(listed.line, listed.segments[place])
        except Damaged:
            if place + 1 == len(listed.segments):
                raise
            place += 1
        else:
            return place, found.began_at


async def _within(
    catalogue: Catalogue, listed: ListedLine, bases: list[Base], wanted: Wanted
) -> ReplayPlan:
    """Plan within one line: from the last usable base to the segments around the moment.

    The last one may be later than the cut, or among orphaned bytes.
    """
    upto, since = listed.segments[-1], _NEVER
    if not isinstance(wanted, Offset):
        upto = await _upto(catalogue, listed, _time(wanted) + _SLACK)
        since = _time(wanted) - _SLACK
    damaged = [text for place, text in catalogue.damaged.items() if place[0] == listed.line]
    why = "; ".join(["no base of it can be used", *damaged]) if not bases else "no base is so old"
    failed = NotArchived(f"line {listed.line} of the archive: {why}")
    fit = [base for base in bases if base.number <= upto]
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


def _whole(listed: ListedLine, first: int) -> list[int]:
    """Return the numbers from `first` on; `chain` finds a gap in them."""
    return [number for number in listed.segments if number >= first]


async def _upto(catalogue: Catalogue, listed: ListedLine, time: int) -> int:
    """Return the number of the first segment that began after `time`, or of the last one."""
    low, high = 0, len(listed.segments) - 1
    while low < high:
        middle = (low + high) // 2
        place, begun = await _began(catalogue, listed, middle)
        if begun > time:
            high = middle
        else:
            low = place + 1
    return listed.segments[min(max(low, high), len(listed.segments) - 1)]


async def _in_gap(
    catalogue: Catalogue, lines: list[ListedLine], time: int, error: NotArchived
) -> NotArchived:
    """Return the error as one that names the gap, where another line follows."""
    following = await catalogue.bases(lines[1].line) if len(lines) > 1 else []
    if not following:
        return error
    last = await catalogue.segment(lines[0].line, lines[0].segments[-1])
    if time < last.began_at:
        return error
    return NotArchived(
        f"{text_of(time)} lies in a gap of the archive, from {text_of(last.ended_at)} to "
        f"{text_of(following[0].taken)}: {following[0].reason}. Choose a time outside of it"
    )


async def find_window(catalogue: Catalogue) -> Window:
    """Return how far back and how recent the archive is, and where it has gaps.

    A missing or unreadable segment is a gap, and a restore can go back to times before it only up
    to it. Every manifest is read, several at once, and little of each is kept.
    """
    lines: list[tuple[list[Base], list[Segment]]] = []
    for listed in catalogue.lines:
        bases = await catalogue.bases(listed.line)
        if not bases or not listed.segments:
            continue
        run: list[Segment] = []
        reason = bases[0].reason
        async for segment in _manifests(catalogue, listed, bases):
            broken = segment if isinstance(segment, WorkerError) else _break(run, segment)
            if broken is not None:
                lines.append((_with(bases, reason), run))
                run, reason = [], str(broken)
            if isinstance(segment, Segment):
                run.append(segment)
        lines.append((_with(bases, reason), run))
    return window([(bases, run) for bases, run in lines if run])


def _break(run: list[Segment], segment: Segment) -> NotArchived | None:
    """Return why a segment does not continue those before it."""
    try:
        chain([*run[-1:], segment])
    except NotArchived as error:
        return error
    return None


async def _manifests(
    catalogue: Catalogue, listed: ListedLine, bases: list[Base]
) -> AsyncIterator[Segment | NotArchived | Damaged]:
    """Return what the manifest of each number says; those at bases are whole, all others lean."""
    present = set(listed.segments)
    near = {base.number + more for base in bases for more in range(_NEAR)}

    async def one(number: int) -> Segment | NotArchived | Damaged:
        if number not in present:
            return NotArchived(f"segment {number} of line {listed.line} is missing")
        try:
            found = await catalogue.segment(listed.line, number)
        except Damaged as error:
            return error
        return found if number in near else found.lean()

    numbers = range(listed.segments[0], listed.segments[-1] + 1)
    for start in range(0, len(numbers), _AT_ONCE):
        batch = numbers[start : start + _AT_ONCE]
        for found in await asyncio.gather(*map(one, batch)):
            yield found


def _with(bases: list[Base], reason: str) -> list[Base]:
    return [replace(bases[0], reason=reason), *bases[1:]]
