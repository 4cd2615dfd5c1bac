"""Stray keys are looked for again when a server answers that was silent at the last count."""

from __future__ import annotations

from msgspec.structs import replace

from planning.moments import knowing
from redis_operator.planning.cluster.actions import RescueKeys
from redis_operator.planning.counting import StrayCount, after_look
from redis_operator.planning.plan import plan
from redis_operator.redis.slots import SlotSet, key_slot
from support.situations import whole_database


def test_a_count_without_a_silent_server_is_recreated_when_it_answers() -> None:
    """CL-07: the stray key of a server that was frozen at the count is not left for minutes."""
    database = whole_database()
    slot = key_slot("stray")
    holder = next(s for s in database.servers if s.is_primary and not SlotSet([slot]) <= s.slots)
    holder.stopped = True
    database.census = StrayCount()
    for _ in range(3):
        database.plan()
        database.advance(0.5)
    assert not database.census.whole, database.census
    holder.stopped = False
    holder.keys.setdefault(slot, {})["stray"] = "value"
    database.reconcile()
    assert "stray" not in holder.keys.get(slot, {})
    owner = next(s for s in database.servers if s.is_primary and SlotSet([slot]) <= s.slots)
    assert owner.keys[slot]["stray"] == "value"


def test_a_silent_server_does_not_make_the_count_be_made_over_and_over() -> None:
    database = whole_database()
    database.server(2, 0).stopped = True
    database.census = StrayCount()
    asked = 0
    for _ in range(20):
        asked += bool(database.plan().count_strays_on)
        database.advance(0.2)
    assert asked <= 2


def test_keys_that_their_owner_has_as_well_are_not_rescued_over_and_over() -> None:
    """CL-07: both servers hold them since a move was interrupted; clients see the owner's."""
    database = whole_database()
    slot = key_slot("stray")
    holder = next(s for s in database.servers if s.is_primary and not SlotSet([slot]) <= s.slots)
    holder.keys.setdefault(slot, {})["twice"] = "older"
    database.census = StrayCount()
    database.plan()
    seen = database.observe()
    assert plan(database.wanted, seen, database.world.now).rule == "rescue"
    known = knowing(seen, duplicate_strays=((holder.id, SlotSet([slot])),))
    after = plan(database.wanted, known, database.world.now)
    assert not any(isinstance(step, RescueKeys) for step in after.steps)
    assert after_look(database.census, known, database.world.now).at == database.world.now


def test_a_database_that_sleeps_was_not_counted() -> None:
    """CL-07: a stray key of a database that fell asleep is looked for when it wakes."""
    asleep = replace(whole_database().observe(), nodes=())
    assert after_look(StrayCount(), asleep, 1000.0) == StrayCount()
    counted = StrayCount(900.0)
    assert after_look(counted, asleep, 1000.0) == counted
