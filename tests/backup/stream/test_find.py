"""What is looked up in a store: archives that are written as values, without a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from backup.stream.test_plan import base, segment
from redis_operator.backup.errors import Damaged
from redis_operator.backup.store import Shelf, open_shelf
from redis_operator.backup.stream.catalogue import read_catalogue
from redis_operator.backup.stream.find import find_plan, find_window
from redis_operator.backup.stream.outline import read_outline
from redis_operator.backup.stream.plan import AtTime, NotArchived
from redis_operator.backup.stream.prune import keep_after, prune
from redis_operator.backup.stream.records import (
    Base,
    Point,
    PointMark,
    Sample,
    Segment,
    base_names,
    encode,
    point_name,
    segment_names,
)
from redis_operator.backup.task import Store

SECOND = 1_000_000
HOUR = 3600 * SECOND
NOON = 1_800_000_000 * SECOND
BYTES = 200  # of a segment, one each 50 ms


def ten_seconds(number: int, *, skew: int = 0) -> Segment:
    """The segment of ten seconds from noon on, sampled every 50 ms; `skew`: the worker's clock."""
    first = 1000 + number * BYTES
    begun = NOON + number * 10 * SECOND
    samples = tuple(
        Sample(first + place, begun + place * 50_000, begun + skew, begun + skew)
        for place in range(BYTES)
    )
    return replace(
        segment(number, first, first + BYTES - 1),
        object=segment_names(1, number, "abcd").content,
        begun=begun + skew,
        ended=begun + 10 * SECOND + skew,
        samples=samples,
    )


async def stored(shelf: Shelf, segments: list[Segment], bases: list[Base]) -> None:
    for one in segments:
        await shelf.create(one.object, b"bytes")
        await shelf.create(segment_names(one.line, one.number).manifest, encode(one))
    for each in bases:
        await shelf.create(base_names(each.line, each.number, "abcd").content, b"bytes")
        await shelf.create(base_names(each.line, each.number).manifest, encode(each))


def base_of(number: int, *, skew: int = 0) -> Base:
    found = base(number, 1000 + number * BYTES)
    part = replace(found.part, object=base_names(1, number, "abcd").content)
    return replace(found, part=part, taken=NOON + number * 10 * SECOND + skew)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return open_shelf(Store("archive/shard-0"), folder=str(tmp_path))


@pytest.mark.parametrize("skew", [0, 300, -300, 86_400], ids="{}-s".format)
async def test_a_time_is_found_whatever_the_clock_of_the_worker_says(
    shelf: Shelf, skew: int
) -> None:
    """By the primary's clock it is noon and 201.02 s; at most one sample of 50 ms is missing."""
    given = skew * SECOND
    segments = [ten_seconds(number, skew=given) for number in range(1, 61)]
    await stored(shelf, segments, [base_of(1, skew=given), base_of(30, skew=given)])
    catalogue = await read_catalogue(shelf)
    moment = NOON + 201_020_000
    found = await find_plan(catalogue, AtTime(moment))
    assert (found.base.number, found.cut.reached) == (1, NOON + 201_000_000)
    assert found.cut.passed == NOON + 201_050_000
    found = await find_plan(catalogue, AtTime(NOON + 401_020_000))
    assert (found.base.number, found.cut.reached) == (30, NOON + 401_000_000)


@pytest.mark.parametrize("what", ["manifest", "bytes", "empty manifest", "empty bytes"])
async def test_what_is_missing_inside_a_line_is_a_gap_up_to_the_next_base(
    shelf: Shelf, tmp_path: Path, what: str
) -> None:
    segments = [ten_seconds(number) for number in range(1, 31)]
    await stored(shelf, segments, [base_of(1)])
    lost = segments[9]
    manifest = what.endswith("manifest")
    name = segment_names(1, lost.number).manifest if manifest else lost.object
    path = tmp_path / "archive/shard-0" / name
    path.unlink()
    if what.startswith("empty"):
        path.write_bytes(b"")
    outline = await read_outline(await read_catalogue(shelf))
    assert outline.is_broken  # another base is needed
    await stored(shelf, [], [base_of(20)])
    outline = await read_outline(await read_catalogue(shelf))
    assert not outline.is_broken
    [gap] = outline.gaps
    assert (gap.after, gap.before) == (segments[8].ended_at, segments[19].began_at)
    assert "segment 10 of line 1 is missing" in gap.reason


async def test_the_newest_objects_may_be_listed_late(shelf: Shelf, tmp_path: Path) -> None:
    segments = [ten_seconds(number) for number in range(1, 10)]
    await stored(shelf, segments, [base_of(1)])
    (tmp_path / "archive/shard-0" / segments[-2].object).unlink()
    assert not (await read_outline(await read_catalogue(shelf))).is_broken


async def test_a_restore_point_goes_when_nothing_that_it_names_is_left(shelf: Shelf) -> None:
    segments = [ten_seconds(number) for number in range(1, 61)]
    await stored(shelf, segments, [base_of(1), base_of(40)])
    for name, number in (("early", 5), ("late", 50)):
        mark = PointMark("a", segments[number].last, segments[number].ended_at)
        await shelf.create(point_name(name), encode(Point(name, {"shard-0": mark})))
    assert await prune(shelf, base_of(40).taken - 1) == 0
    assert (await read_catalogue(shelf)).points == ("early", "late")
    assert await prune(shelf, base_of(41).taken) > 0
    catalogue = await read_catalogue(shelf)
    assert catalogue.points == ("late",)
    assert [(listed.bases, listed.segments[0]) for listed in catalogue.lines] == [((40,), 40)]


async def test_a_base_that_was_taken_by_a_clock_that_was_behind_does_not_end_what_is_kept(
    shelf: Shelf,
) -> None:
    """The node of the worker was a day behind when it took the base that all may depend on."""
    segments = [ten_seconds(number) for number in range(1, 61)]
    behind = base_of(50, skew=-24 * HOUR)
    await stored(shelf, segments, [base_of(1), base_of(20), behind])
    assert await prune(shelf, base_of(31).taken) > 0
    [listed] = (await read_catalogue(shelf)).lines
    assert (listed.bases, listed.segments[0]) == ((20, 50), 20)


@pytest.mark.parametrize("what", ["missing", "empty"])
async def test_a_base_whose_bytes_are_gone_is_not_used_and_nothing_is_deleted_for_it(
    shelf: Shelf, tmp_path: Path, what: str
) -> None:
    """An earlier one and the stream after it serve for the same times."""
    segments = [ten_seconds(number) for number in range(1, 61)]
    await stored(shelf, segments, [base_of(1), base_of(30)])
    path = tmp_path / "archive/shard-0" / base_of(30).part.object
    path.unlink()
    if what == "empty":
        path.write_bytes(b"")
    found = await find_plan(await read_catalogue(shelf), AtTime(NOON + 401_020_000))
    assert (found.base.number, found.cut.reached) == (1, NOON + 401_000_000)
    assert await prune(shelf, base_of(40).taken) == 0


async def test_another_base_is_taken_where_the_bytes_of_the_only_one_are_gone(
    shelf: Shelf, tmp_path: Path
) -> None:
    await stored(shelf, [ten_seconds(number) for number in range(1, 31)], [base_of(1)])
    (tmp_path / "archive/shard-0" / base_of(1).part.object).unlink()
    outline = await read_outline(await read_catalogue(shelf))
    assert outline.is_broken
    assert not outline.oldest
    await stored(shelf, [], [base_of(20)])
    outline = await read_outline(await read_catalogue(shelf))
    assert not outline.is_broken
    assert outline.oldest == NOON + 200 * SECOND


YEAR = 365 * 24 * HOUR


@pytest.mark.parametrize(
    ("now", "newest", "after"),
    [
        (NOON, NOON - 10 * SECOND, NOON - 10 * SECOND - HOUR),
        (NOON + YEAR, NOON, NOON - HOUR),
        (NOON, NOON + YEAR, NOON - HOUR),
        (NOON, 0, 0),
    ],
    ids=["as always", "the worker is ahead", "the primary is ahead", "nothing is known"],
)
def test_a_clock_that_is_ahead_deletes_nothing(now: int, newest: int, after: int) -> None:
    assert keep_after(3600, now=now, newest=newest) == after


async def test_the_window_is_the_same_from_manifests_of_which_little_is_kept(
    shelf: Shelf, tmp_path: Path
) -> None:
    segments = [ten_seconds(number) for number in range(1, 61)]
    await stored(shelf, segments, [base_of(1), base_of(40)])
    (tmp_path / "archive/shard-0" / segment_names(1, 30).manifest).write_bytes(b"{")
    window = await find_window(await read_catalogue(shelf))
    assert (window.oldest, window.newest) == (segments[0].began_at, segments[-1].ended_at)
    [gap] = window.gaps
    assert (gap.after, gap.before) == (segments[28].ended_at, segments[39].began_at)
    assert "segment-00000030.json is damaged" in gap.reason
    catalogue = await read_catalogue(shelf)
    with pytest.raises(NotArchived, match="is later than what the archive has"):
        await find_plan(catalogue, AtTime(NOON + 2 * HOUR))
    for number in (10, 50):  # a search passes what is damaged, and what is needed is whole
        found = await find_plan(catalogue, AtTime(NOON + number * 10 * SECOND + 20_000))
        assert found.cut.reached == NOON + number * 10 * SECOND
    with pytest.raises((NotArchived, Damaged), match="segment-00000030"):
        await find_plan(catalogue, AtTime(NOON + 355 * SECOND))
