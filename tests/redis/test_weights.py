"""Weights of slots: which of them are cut off, so that shards hold as much as they shall."""

from __future__ import annotations

import pytest

from redis_operator.redis.moving import Method, Pace, choose_method, keys_of_a_job
from redis_operator.redis.slots import NO_SLOTS, SLOTS, SlotSet
from redis_operator.redis.versions import Version
from redis_operator.redis.weights import SlotWeights


def span(first: int, last: int) -> SlotSet:
    return SlotSet.span(first, last)


ALL = span(0, 99)
HEAVY = SlotWeights([(10, 100), (11, 50), (99, 7), (SLOTS - 1, 1)])


@pytest.mark.parametrize(
    ("slots", "weight"),
    [
        (NO_SLOTS, 0),
        (span(0, 9), 0),
        (span(10, 10), 100),
        (span(0, 10), 100),
        (span(11, 98), 50),
        (span(10, 99), 157),
        (span(0, 10) | span(99, 99), 107),
        (span(0, SLOTS - 1), 158),
        (span(SLOTS - 1, SLOTS - 1), 1),
    ],
)
def test_slots_weigh_as_much_as_each_of_them(slots: SlotSet, weight: int) -> None:
    assert HEAVY.of(slots) == weight


def test_all_slots_weigh_the_total() -> None:
    assert HEAVY.total == 158
    assert SlotWeights([]).total == 0


def cut(weights: SlotWeights, owned: SlotSet, usual: SlotSet, wanted: float) -> SlotSet:
    return weights.best_cut(owned, usual, near=NO_SLOTS, wanted=wanted)


def test_the_usual_cut_is_taken_when_it_is_no_worse() -> None:
    even = SlotWeights((slot, 1) for slot in range(SLOTS))
    assert cut(even, ALL, span(40, 49), 10.0) != span(40, 49)  # it tears a range, the ends do not
    assert cut(even, ALL, span(90, 99), 10.0) == span(90, 99)
    assert cut(even, ALL, span(0, 9), 10.0) == span(0, 9)


def test_a_window_of_the_wanted_weight_is_found_wherever_it_is() -> None:
    weights = SlotWeights([(50, 60), (51, 40)])
    assert cut(weights, ALL, span(90, 99), 100.0) & span(50, 51) == span(50, 51)
    assert len(cut(weights, ALL, span(90, 99), 100.0)) == 10
    assert cut(weights, ALL, span(90, 99), 0.0) == span(90, 99)


def test_a_window_at_the_very_end_of_a_range_is_found() -> None:
    weights = SlotWeights([(98, 5), (99, 5)])
    assert cut(weights, ALL, span(0, 1), 10.0) == span(98, 99)
    first = SlotWeights([(0, 5), (1, 5)])
    assert cut(first, ALL, span(98, 99), 10.0) == span(0, 1)


def test_ranges_that_are_too_short_are_not_cut() -> None:
    weights = SlotWeights([(200, 10)])
    owned = ALL | span(200, 201)
    assert cut(weights, owned, span(90, 99), 10.0) == span(90, 99)
    assert cut(weights, owned, span(98, 99), 10.0) == span(200, 201)


def test_two_hundredths_of_the_weight_are_not_worth_a_torn_range() -> None:
    for middle, torn in ((102, False), (103, True)):
        weights = SlotWeights([(0, middle), (50, 100)])
        found = cut(weights, ALL, span(0, 0), 100.0)
        assert (found == span(50, 50)) is torn
        assert (found == span(0, 0)) is not torn


def test_slots_beside_those_of_the_receiver_are_preferred() -> None:
    even = SlotWeights((slot, 1) for slot in range(SLOTS))
    for near, found in ((span(100, 199), span(90, 99)), (NO_SLOTS, span(0, 9))):
        assert even.best_cut(ALL, span(0, 9), near=near, wanted=10.0) == found


# How slots are moved

OLD, SEVEN, NINE = Version("redis", 6, 2), Version("valkey", 7, 2), Version("valkey", 9, 0)
EIGHT = Version("redis", 8, 4)


@pytest.mark.parametrize(
    ("source", "target", "method"),
    [
        (NINE, NINE, Method.VALKEY_ATOMIC),
        (NINE, SEVEN, Method.SCRIPT),
        (SEVEN, NINE, Method.SCRIPT),
        (EIGHT, EIGHT, Method.REDIS_ATOMIC),
        (EIGHT, OLD, Method.SCRIPT),
        (OLD, EIGHT, Method.SCRIPT),
        (EIGHT, NINE, Method.SCRIPT),
        (OLD, OLD, Method.SCRIPT),
    ],
)
def test_slots_move_in_the_best_way_that_both_ends_know(
    source: Version, target: Version, method: Method
) -> None:
    assert choose_method(source, target) is method


def test_a_job_is_as_large_as_the_pace_and_the_fork_allow() -> None:
    pace = Pace(job_microseconds=1000, job_keys=5000)
    assert keys_of_a_job(pace, average_bytes=0, fork_microseconds=0) == 2000
    assert keys_of_a_job(pace, average_bytes=500, fork_microseconds=0) == 1000
    assert keys_of_a_job(pace, average_bytes=0, fork_microseconds=2000) == 4000
    assert keys_of_a_job(pace, average_bytes=0, fork_microseconds=9000) == 5000
    assert keys_of_a_job(pace, average_bytes=1e6, fork_microseconds=0) == 125
