"""Slots are chosen by what they hold, where that can be told."""

from __future__ import annotations

from msgspec.structs import replace

from planning.cluster.test_rules_change import carry_out, steps_of
from planning.cluster.test_rules_heal import WANTED, whole_database
from redis_operator.planning.cluster.actions import MoveSlots
from redis_operator.redis.slots import SlotSet


def test_of_as_many_slots_those_move_that_even_out_the_keys() -> None:
    """A shard's heavy half must not stay whole: the cut goes through it, in one piece."""
    database = whole_database()
    giver = database.server(0, 0)
    giver.keys.clear()
    for slot in range(1000):
        giver.keys[slot] = {f"{{{slot}}}{n}": 1 for n in range(8)}
    database.apply_spec(replace(WANTED, shards=4))
    for _ in range(20):
        moves = [m for m in steps_of(database, MoveSlots) if m.source.id == giver.id]
        if moves:
            break
        carry_out(database)
        database.advance(0.5)
    [move] = moves
    assert len(move.slots) == 1365
    assert len(move.slots.ranges()) == 1
    heavy = len(move.slots & SlotSet.span(0, 999))
    assert 400 <= heavy <= 600, move.slots  # the usual cut, from the end, would take none of them
