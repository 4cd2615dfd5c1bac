"""All shards to one time: who owned what, where each is cut, and what is taken from both ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from redis_operator.backup.stream.plan import AtTime, Bound, NotArchived, Span, cut_at
from redis_operator.backup.stream.records import Owned, PointMark, Sample, Segment
from redis_operator.backup.stream.sharded import Share, plan_point, plan_shards
from redis_operator.redis.slots import SlotSet

SECOND = 1_000_000
NOON = 1000 * SECOND
A, B = "0-8191", "8192-16383"


def shard(*owned: Owned, base: int) -> list[Span]:
    """A sample every 50 ms from ten seconds before noon to ten after, one byte a millisecond."""
    samples = tuple(Sample(base + ms, NOON + ms * 1000, 0, 0) for ms in range(-10_000, 10_000, 50))
    segment = Segment(
        line=1,
        number=1,
        object="x",
        replication_id="r",
        first=base - 10_000,
        last=base + 10_000,
        size=1,
        stored=1,
        sha256="",
        begun=0,
        ended=0,
        engine="redis",
        version="7.0.15",
        clean_start=True,
        database=0,
        samples=samples,
        owned=owned,
    )
    return [Span(segment, segment.last)]


def with_clock(spans: list[Span], ahead: int) -> list[Span]:
    """The same shard with a clock so many milliseconds ahead of that of the worker."""
    [span] = spans
    samples = tuple(
        Sample(one.offset, one.server + ahead * 1000, one.server - 500, one.server + 500)
        for one in span.segment.samples
    )
    owned = tuple(replace(one, server=one.server + ahead * 1000) for one in span.segment.owned)
    return [Span(replace(span.segment, samples=samples, owned=owned), span.until)]


def said(
    after: float,
    node: str,
    slots: str,
    *,
    epoch: int = 1,
    migrating: tuple[tuple[int, str], ...] = (),
    importing: tuple[tuple[int, str], ...] = (),
) -> Owned:
    when = NOON + int(after * SECOND)
    return Owned(0, when, epoch, slots, migrating, importing, node)


def at_noon(first: list[Owned], second: list[Owned], after: float = 0.02) -> list[Share]:
    shards = {"a": shard(*first, base=20_000), "b": shard(*second, base=50_000)}
    return list(plan_shards(NOON + int(after * SECOND), shards))


def test_shards_at_rest_are_cut_at_the_last_sample_and_give_what_they_own() -> None:
    a, b = at_noon([said(-9, "na", A)], [said(-9, "nb", B)])
    assert (a.cut.offset, b.cut.offset) == (20_000, 50_000)
    assert (str(a.slots), str(b.slots)) == (A, B)
    assert not a.open
    assert not b.open


def test_the_target_of_an_open_slot_is_cut_later_and_gives_what_the_owner_lacks() -> None:
    a, b = at_noon(
        [said(-9, "na", A), said(-3, "na", A, migrating=((7, "nb"),))],
        [said(-9, "nb", B), said(-3, "nb", B, importing=((7, "na"),))],
    )
    assert (a.cut.offset, b.cut.offset) == (20_000, 50_050)
    assert 7 in a.slots
    assert (str(a.open), str(b.open)) == ("", "7")


def test_one_end_that_has_not_yet_said_so_is_enough() -> None:
    _, b = at_noon([said(-9, "na", A)], [said(-9, "nb", B, importing=((7, "na"),))])
    assert (b.cut.offset, str(b.open)) == (50_050, "7")


@pytest.mark.parametrize("moved", [-0.4, 0.4], ids=["just-moved", "about-to-move"])
def test_a_slot_that_changes_hands_around_the_cut_is_taken_from_its_owner_alone(
    moved: float,
) -> None:
    """The other end may still have, or already have, a key that was deleted at the owner."""
    a, b = at_noon(
        [said(-9, "na", A), said(moved, "na", "0-6,8-8191", epoch=1)],
        [said(-9, "nb", B), said(moved, "nb", f"7,{B}", epoch=2)],
    )
    assert (a.cut.offset, b.cut.offset) == (20_000, 50_050)
    owner, other = (b, a) if moved < 0 else (a, b)
    assert 7 in owner.slots
    assert (7 in other.slots, str(other.open)) == (False, "")


@pytest.mark.parametrize("bound", list(Bound))
@pytest.mark.parametrize("ahead", [-4000, 0, 300, 4000])
@pytest.mark.parametrize("given", [-0.01, 0.0], ids=["before", "at-the-sample"])
def test_a_slot_that_no_shard_claims_at_its_cut_goes_to_the_one_that_claims_it_next(
    given: float, ahead: int, bound: Bound
) -> None:
    """Primaries are not asked at the same time: the source was asked after the move, or earlier."""
    first = shard(said(-9, "na", A), said(given, "na", "0-6,8-8191"), base=20_000)
    second = shard(said(-9, "nb", B), said(0.1, "nb", f"7,{B}", epoch=2), base=50_000)
    shards = {"a": with_clock(first, 0), "b": with_clock(second, ahead)}
    a, b = plan_shards(NOON + 20_000, shards, bound)
    assert (7 in a.slots, 7 in b.slots) == (False, True)
    assert (str(a.open), str(b.open)) == ("", "")
    assert b.cut.offset - 50_000 > a.cut.offset - 20_000  # so it has every key of the slot


def test_a_slot_that_was_open_before_and_is_closed_at_the_cut_is_taken_from_its_owner_alone() -> (
    None
):
    a, b = at_noon(
        [
            said(-0.6, "na", A, migrating=((7, "nb"),)),
            said(-0.2, "na", "0-6,8-8191"),
        ],
        [
            said(-0.6, "nb", B, importing=((7, "na"),)),
            said(-0.3, "nb", f"7,{B}", epoch=2),
        ],
    )
    assert (7 in a.slots, 7 in b.slots) == (False, True)
    assert (str(a.open), str(b.open)) == ("", "")


def test_keys_that_the_target_has_are_taken_where_a_failover_forgot_that_the_slot_was_open() -> (
    None
):
    a, b = at_noon(
        [said(-3, "na", A, migrating=((7, "nb"),)), said(-0.5, "na2", A, epoch=3)],
        [said(-3, "nb", B, importing=((7, "na"),))],
    )
    assert 7 in a.slots
    assert str(b.open) == "7"


def test_of_two_that_claim_a_slot_the_higher_epoch_owns_it() -> None:
    a, b = at_noon([said(-9, "na", A, epoch=3)], [said(-9, "nb", f"0-9,{B}", epoch=8)])
    assert str(b.slots) == f"0-9,{B}"
    assert a.slots == SlotSet.parse("10-8191")


def test_slots_without_an_owner_and_shards_that_do_not_say_are_refused_by_name() -> None:
    with pytest.raises(NotArchived, match="no shard owned the slots 5 at"):
        at_noon([said(-9, "na", "0-4,6-8191")], [said(-9, "nb", B)])
    with pytest.raises(NotArchived, match="the archive of a does not say which slots"):
        at_noon([said(5, "na", A)], [said(-9, "nb", B)])


def test_a_shard_that_gives_and_takes_at_once_is_refused() -> None:
    with pytest.raises(NotArchived, match="gave slots away and took others"):
        at_noon(
            [said(-3, "na", A, migrating=((7, "nb"),), importing=((9000, "nb"),))],
            [said(-9, "nb", B)],
        )


def test_where_nothing_may_be_missing_the_target_is_cut_after_all_others() -> None:
    first = [said(-9, "na", A, migrating=((7, "nb"),))]
    second = [said(-9, "nb", B, importing=((7, "na"),))]
    shards = {"a": shard(*first, base=20_000), "b": shard(*second, base=50_000)}
    a, b = plan_shards(NOON + 20_000, shards, Bound.INCLUDE)
    assert (a.cut.offset, b.cut.offset) == (20_050, 50_100)
    assert str(b.open) == "7"


def test_a_shard_that_took_no_write_does_not_have_the_target_cut_later() -> None:
    first = [said(-9, "na", A, migrating=((7, "nb"),))]
    second = [said(-9, "nb", B, importing=((7, "na"),))]
    [span] = shard(*first, base=20_000)
    idle = (Sample(20_000, NOON, 0, 0), Sample(20_000, NOON + 5 * SECOND, 0, 0))
    still = Span(replace(span.segment, samples=idle), span.until)
    shards = {"a": [still], "b": shard(*second, base=50_000)}
    a, b = plan_shards(NOON + 20_000, shards, Bound.INCLUDE)
    assert (a.cut.offset, b.cut.offset) == (20_000, 50_050)


def idle(*owned: Owned, base: int) -> list[Span]:
    """A shard that takes no write: of equal samples the first and the last are kept."""
    [span] = shard(*owned, base=base)
    ends = (Sample(base, NOON - 5 * SECOND, 0, 0), Sample(base, NOON + 5 * SECOND, 0, 0))
    return [Span(replace(span.segment, samples=ends), span.until)]


@pytest.mark.parametrize("first", [shard, idle], ids=["source-writes", "source-idle"])
@pytest.mark.parametrize("second", [shard, idle], ids=["target-writes", "target-idle"])
@pytest.mark.parametrize("moved", [0.03, 0.07, 0.9])
def test_keys_of_a_slot_whose_move_ends_right_after_the_time_are_taken_where_they_are(
    moved: float, first: Callable[..., list[Span]], second: Callable[..., list[Span]]
) -> None:
    """The source has none of them at its cut if the move ended before it."""
    shards = {
        "a": first(
            said(-3, "na", A, migrating=((7, "nb"),)), said(moved, "na", "0-6,8-8191"), base=20_000
        ),
        "b": second(
            said(-3, "nb", B, importing=((7, "na"),)),
            said(moved, "nb", f"7,{B}", epoch=2),
            base=50_000,
        ),
    }
    a, b = plan_shards(NOON + 20_000, shards, Bound.INCLUDE)
    assert (7 in a.slots) is not (7 in b.slots)
    assert 7 in b.slots | b.open
    is_before_cut = first is shard and moved < 0.05
    assert (7 in b.slots) is is_before_cut


def test_a_slot_that_moves_to_a_shard_without_an_archive_is_refused() -> None:
    whole = [said(-9, "na", "0-16383", migrating=((7, "nc"),))]
    shards = {"a": shard(*whole, base=20_000)}
    with pytest.raises(NotArchived, match="slot 7 was moving between a and node nc"):
        plan_shards(NOON, shards)


def test_at_a_restore_point_every_shard_is_cut_where_it_was() -> None:
    first = [said(-9, "na", A, migrating=((7, "nb"),))]
    second = [said(-9, "nb", B, importing=((7, "na"),))]
    shards = {"a": shard(*first, base=20_000), "b": shard(*second, base=50_000)}
    marks = {"a": PointMark("r", 20_013, NOON), "b": PointMark("r", 50_021, NOON)}
    a, b = plan_point(marks, shards)
    assert (a.cut.offset, b.cut.offset) == (20_013, 50_021)
    assert (7 in a.slots, str(b.open)) == (True, "7")


def away(spans: list[Span], since: float, until: float) -> list[Span]:
    """The same shard where the worker was away from so many seconds after noon on."""
    [span] = spans
    first, last = (NOON + int(after * SECOND) for after in (since, until))
    samples = tuple(one for one in span.segment.samples if not first < one.server < last)
    return [Span(replace(span.segment, samples=samples), span.until)]


def test_the_target_is_cut_after_the_source_also_where_the_worker_was_away() -> None:
    """Its move is reported seconds from the time, where both are cut."""
    first = shard(said(-9, "na", A), said(4.9, "na", A, migrating=((7, "nb"),)), base=20_000)
    second = shard(said(-9, "nb", B), said(4.9, "nb", B, importing=((7, "na"),)), base=50_000)
    shards = {
        "a": with_clock(away(first, -5, 5.1), 0),
        "b": with_clock(away(second, -5, 5.05), 0),
    }
    a, b = plan_shards(NOON, shards, Bound.INCLUDE)
    assert b.cut.offset - 50_000 > a.cut.offset - 20_000
    assert str(b.open) == "7"


def test_what_was_moving_when_the_worker_went_away_is_refused_until_it_was_back() -> None:
    """The target has nothing between the cut of the source and much that was written later."""
    first = shard(
        said(-9, "na", A, migrating=((7, "nb"),)), said(-3, "na", "0-6,8-8191"), base=20_000
    )
    second = shard(
        said(-9, "nb", B, importing=((7, "na"),)), said(-3, "nb", f"7,{B}", epoch=2), base=50_000
    )
    shards = {
        "a": with_clock(away(first, -4, 5), 0),
        "b": with_clock(away(second, -4.05, 5), 0),
    }
    with pytest.raises(NotArchived, match="slots were moving to b, which was not asked between"):
        plan_shards(NOON, shards)


def test_a_restore_point_says_which_slots_moved_then_whatever_the_archive_was_told() -> None:
    """The worker of the archive was away: its last report is of before the move."""
    shards = {
        "a": shard(said(-9, "na", A), base=20_000),
        "b": shard(said(-9, "nb", B), base=50_000),
    }
    marks = {
        "a": PointMark("r", 20_013, NOON, said(0, "na", "0-6,8-8191", migrating=((9, "nb"),))),
        "b": PointMark("r", 50_021, NOON, said(0, "nb", f"7,{B}", importing=((9, "na"),))),
    }
    a, b = plan_point(marks, shards)
    assert (str(a.slots), str(b.slots)) == ("0-6,8-8191", f"7,{B}")
    assert (str(a.open), str(b.open)) == ("", "9")


def test_an_earlier_restore_point_takes_keys_from_both_ends_of_a_move_reported_right_after_it() -> (
    None
):
    """Primaries are asked 20 times a second: a move may have begun before it was noticed."""
    shards = {
        "a": shard(said(-9, "na", A), said(0.04, "na", A, migrating=((7, "nb"),)), base=20_000),
        "b": shard(said(-9, "nb", B), base=50_000),
    }
    marks = {"a": PointMark("r", 20_013, NOON), "b": PointMark("r", 50_021, NOON)}
    a, b = plan_point(marks, shards)
    assert (7 in a.slots, str(b.open)) == (True, "7")


def test_a_lean_manifest_is_cut_in_the_same_place_by_a_later_time() -> None:
    [before] = shard(said(-9, "na", A), said(-3, "na", "0-16383"), base=20_000)
    lean = before.segment.lean()
    later = Sample(40_000, NOON + 30 * SECOND, 0, 0)
    follows = replace(
        before.segment, number=2, first=before.until + 1, last=50_000, samples=(later,), owned=()
    )
    whole, short = (
        [Span(one, one.last) for one in (first, follows)] for first in (before.segment, lean)
    )
    time = NOON + 20 * SECOND
    assert cut_at(AtTime(time), short) == cut_at(AtTime(time), whole)
    assert plan_shards(time, {"a": short}) == plan_shards(time, {"a": whole})
    assert (len(lean.samples), len(lean.owned), lean.index) == (1, 1, ())


@pytest.mark.parametrize("bound", list(Bound))
@pytest.mark.parametrize("ahead", [-4000, -700, -300, -60, 0, 60, 300, 700, 4000])
def test_the_target_is_cut_after_the_source_whatever_their_clocks_say(
    ahead: int, bound: Bound
) -> None:
    """Else keys that moved between the two cuts would be at neither end."""
    first = shard(said(-9, "na", A, migrating=((7, "nb"),)), base=20_000)
    second = shard(said(-9, "nb", B, importing=((7, "na"),)), base=50_000)
    shards = {"a": with_clock(first, 0), "b": with_clock(second, ahead)}
    a, b = plan_shards(NOON + 20_000, shards, bound)
    assert b.cut.offset - 50_000 > a.cut.offset - 20_000  # a byte a millisecond
    assert str(b.open) == "7"


def test_an_archive_of_the_target_that_ends_before_the_cut_of_the_source_is_refused() -> None:
    first = shard(said(-9, "na", A, migrating=((7, "nb"),)), base=20_000)
    second = shard(said(-9, "nb", B, importing=((7, "na"),)), base=50_000)
    [ahead] = with_clock(second, 300)
    early = tuple(one for one in ahead.segment.samples if one.server <= NOON + 10 * SECOND)
    short = Span(replace(ahead.segment, samples=early), ahead.until)
    shards = {"a": with_clock(first, 0), "b": [short]}
    with pytest.raises(NotArchived, match="b is not archived up to"):
        plan_shards(NOON + 9_900_000, shards)
