"""Many stray keys are moved in batches: whatever else a database needs is not behind them. CL-07"""

from __future__ import annotations

from redis_operator.planning.counting import StrayCount
from redis_operator.redis.slots import key_slot
from redis_testing.cluster.database import SimulatedDatabase
from redis_testing.cluster.state import Server
from support.situations import whole_database

MOVED = "redis MIGRATE"
MANY = 3000


def with_strays(names: list[str]) -> tuple[SimulatedDatabase, Server, Server]:
    """Return a database, a primary with stray keys of one slot, and the owner of that slot."""
    database = whole_database()
    owner, holder = database.server(0, 0), database.server(1, 0)
    slot = key_slot(names[0])
    assert slot in owner.slots
    holder.keys.setdefault(slot, {}).update(dict.fromkeys(names, "stray"))
    database.census = StrayCount()
    database.plan()
    return database, holder, owner


def test_a_failover_does_not_wait_for_thousands_of_stray_keys() -> None:
    names = [f"{{3}}{number}" for number in range(MANY)]
    database, holder, owner = with_strays(names)
    journal = database.operator.journal
    plan = database.plan()
    assert plan.rule == "rescue"
    before = len(journal.effects)
    database.world.kill(database.server(2, 0).name)
    database.carry_out(plan)
    moved = sum(effect.kind == MOVED for effect in journal.effects[before:])
    assert 0 < moved <= 1000, "the failover would wait for them"
    assert not holder.importing
    assert database.plan().rule == "assist"
    database.reconcile(patience=200)
    assert set(names) <= set(owner.keys[key_slot(names[0])])
    assert not holder.keys.get(key_slot(names[0]))
    assert not holder.importing


def test_keys_that_their_owner_has_with_another_value_do_not_hide_those_behind_them() -> None:
    names = [f"{{3}}{number:05}" for number in range(MANY)]
    database, holder, owner = with_strays(names)
    slot = key_slot(names[0])
    owner.keys.setdefault(slot, {}).update(dict.fromkeys(names[: MANY - 1], "newer"))
    database.reconcile(patience=400)
    assert owner.keys[slot][names[-1]] == "stray", "the only one that its owner does not have"
    assert owner.keys[slot][names[0]] == "newer"
    assert len(holder.keys[slot]) == MANY - 1
    assert not holder.importing


def test_keys_of_a_slot_that_stayed_open_between_two_batches_are_moved_to_the_end() -> None:
    """As on Redis 8.4 and later, and when the operator ends in the middle of a batch."""
    names = [f"{{3}}{number}" for number in range(MANY)]
    database, holder, owner = with_strays(names)
    slot = key_slot(names[0])
    holder.importing[slot] = owner.id
    database.plan()
    database.reconcile(patience=200)
    assert set(names) <= set(owner.keys[slot])
    assert not holder.keys.get(slot)
    assert not holder.importing
