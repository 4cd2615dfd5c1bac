"""Slots as sets, as shares and as moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redis_operator.redis.slots import (
    ALL_SLOTS,
    NO_SLOTS,
    SLOTS,
    SlotSet,
    SlotShare,
    even_shares,
    fewest_moves,
    key_slot,
    slot_targets,
)
from redis_operator.redis.weights import SlotWeights

slot_sets = st.sets(st.integers(0, SLOTS - 1), max_size=60)


@pytest.mark.parametrize(
    ("key", "slot"),
    [
        ("123456789", 12739),
        ("foo", 12182),
        ("{user1000}.following", 3443),
        ("{user1000}.followers", 3443),
        ("foo{}{bar}", 8363),
        ("foo{{bar}}zap", key_slot("{bar")),
        ("foo{bar}{zap}", 5061),
        ("", 0),
        (b"foo", 12182),
    ],
)
def test_a_key_has_the_slot_the_server_gives_it(key: str | bytes, slot: int) -> None:
    assert key_slot(key) == slot


@given(slot_sets, slot_sets)
def test_the_algebra_is_that_of_sets(left: set[int], right: set[int]) -> None:
    a, b = SlotSet(left), SlotSet(right)
    assert set(a | b) == left | right
    assert set(a & b) == left & right
    assert set(a - b) == left - right
    assert set(a ^ b) == left ^ right
    assert (a <= b) == (left <= right)
    assert len(a) == len(left)
    assert bool(a) == bool(left)
    assert (a == b) == (left == right)


@given(slot_sets)
def test_what_is_written_reads_back(slots: set[int]) -> None:
    value = SlotSet(slots)
    assert SlotSet.parse(str(value)) == value
    assert list(value) == sorted(slots)


def test_ranges_are_merged_and_named_like_the_server_names_them() -> None:
    assert str(SlotSet.parse("5462 0-5460")) == "0-5460,5462"
    assert SlotSet.parse("0-1,2-3").ranges() == ((0, 3),)
    assert str(ALL_SLOTS) == "0-16383"
    assert str(NO_SLOTS) == ""


@pytest.mark.parametrize("text", ["16384", "-1", "5-3", "a-b", "0-99999"])
def test_what_is_no_range_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="not a slot range"):
        SlotSet.parse(text)


def test_a_slot_set_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        NO_SLOTS._bits = 1


@given(slot_sets, st.integers(0, 70))
def test_lowest_and_highest_take_from_their_ends(slots: set[int], count: int) -> None:
    assert list(SlotSet(slots).lowest(count)) == sorted(slots)[:count]
    assert set(SlotSet(slots).highest(count)) == set(sorted(slots, reverse=True)[:count])


@given(st.integers(1, 1000))
def test_even_shares_cover_each_slot_once(shards: int) -> None:
    shares = even_shares(shards)
    union = NO_SLOTS
    for share in shares:
        assert not union & share
        assert len(share.ranges()) == 1
        union |= share
    assert union == ALL_SLOTS
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 12), st.integers(0, 11), st.integers(1, 12), st.randoms())
def test_moves_reach_the_targets_with_disjoint_donors(
    before: int, leaving: int, joining: int, random: object
) -> None:
    leaving = min(leaving, before - 1)
    owned = {f"n{i}": share for i, share in enumerate(even_shares(before))}
    owned |= {f"new{i}": NO_SLOTS for i in range(joining)}
    weights = {f"n{i}": 0.0 for i in range(leaving)}
    targets = slot_targets({name: len(slots) for name, slots in owned.items()}, weights)
    assert sum(targets.values()) == SLOTS
    moves = fewest_moves(owned, targets)
    donors, receivers = {m.source for m in moves}, {m.target for m in moves}
    assert not donors & receivers
    assert len(moves) <= max(0, len(donors) + len(receivers) - 1)
    for move in moves:
        assert move.slots <= owned[move.source]
        owned[move.source] -= move.slots
        owned[move.target] |= move.slots
    assert {name: len(slots) for name, slots in owned.items()} == targets


def test_nothing_moves_when_everyone_has_its_share() -> None:
    owned = {f"n{i}": share for i, share in enumerate(even_shares(3))}
    targets = slot_targets({name: len(slots) for name, slots in owned.items()})
    assert fewest_moves(owned, targets) == ()


def test_out_and_in_again_leaves_few_fragments() -> None:
    owned = {f"n{i}": share for i, share in enumerate(even_shares(3))}
    for _ in range(10):
        for weights in ({}, {"n3": 0.0}):
            owned.setdefault("n3", NO_SLOTS)
            targets = slot_targets({n: len(s) for n, s in owned.items()}, weights)
            for move in fewest_moves(owned, targets):
                owned[move.source] -= move.slots
                owned[move.target] |= move.slots
    assert sum(len(slots.ranges()) for slots in owned.values()) <= 6


def test_nobody_left_to_own_is_an_error() -> None:
    with pytest.raises(ValueError, match="weight"):
        slot_targets({"a": 5}, {"a": 0.0})


@given(
    st.integers(1, 6),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, SLOTS - 1), st.integers(0, 1000)), max_size=60),
)
def test_weights_choose_other_slots_but_as_many(
    before: int, joining: int, heavy: list[tuple[int, int]]
) -> None:
    owned = {f"n{i}": share for i, share in enumerate(even_shares(before))}
    owned |= {f"new{i}": NO_SLOTS for i in range(joining)}
    targets = slot_targets({name: len(slots) for name, slots in owned.items()})
    weights = SlotWeights(heavy)

    def choose(cut: SlotShare) -> SlotSet:
        wanted = weights.of(cut.owned) / 2
        return weights.best_cut(cut.owned, cut.usual, near=cut.gained, wanted=wanted)

    usual = fewest_moves(owned, targets)
    moves = fewest_moves(owned, targets, choose)
    counts = [(move.source, move.target, len(move.slots)) for move in moves]
    assert counts == [(move.source, move.target, len(move.slots)) for move in usual]
    for move in moves:
        assert move.slots <= owned[move.source]
        owned[move.source] -= move.slots
        owned[move.target] |= move.slots
    assert {name: len(slots) for name, slots in owned.items()} == targets


def test_even_weights_change_nothing() -> None:
    weights = SlotWeights((slot, 61) for slot in range(SLOTS))
    owned = SlotSet.span(0, 5460)
    usual = owned.highest(1365)
    found = weights.best_cut(owned, usual, near=NO_SLOTS, wanted=weights.of(usual))
    assert found == usual
