"""Slots, stray keys, ghosts and duplicates, one situation a test, on the simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as changed

import pytest
from msgspec.structs import replace

from planning.moments import knowing
from redis_operator.planning.at import At, at
from redis_operator.planning.cluster.actions import (
    AssignSlots,
    CloseSlots,
    Forget,
    InheritSlots,
    Meet,
    MoveSlots,
    RaiseEpoch,
    ResetEmptyNode,
)
from redis_operator.planning.counting import StrayCount
from redis_operator.planning.identity import Role
from redis_operator.planning.observed import Observed, Seen
from redis_operator.planning.plan import plan
from redis_operator.redis.slots import SlotSet, even_shares, key_slot
from redis_testing.cluster import Record, verbs
from redis_testing.cluster.database import SimulatedDatabase
from support.situations import WANTED, assert_serves_all, but, whole_database

# Slots


@pytest.mark.parametrize("finished", [1, 2, 3, 4, 5, 6, None])
def test_a_move_that_stopped_anywhere_is_finished_or_taken_back(finished: int | None) -> None:
    """CL-06"""
    database = whole_database()
    source, target = database.server(0, 0), database.server(1, 0)
    slot = next(iter(source.keys))
    action = MoveSlots(
        source=_at(database, 0, 0), target=_at(database, 1, 0), slots=SlotSet([slot])
    )
    database.execute(action, effects=finished)
    assert database.reconcile().settled
    assert not source.migrating
    assert not target.importing
    assert_serves_all(database)


def _at(database: SimulatedDatabase, shard: int, ordinal: int) -> At:
    return next(
        at(n) for n in database.observe().seen if (n.pod.shard, n.pod.ordinal) == (shard, ordinal)
    )


def test_the_target_of_a_move_dies_and_its_replica_holds_stray_keys() -> None:
    """CL-06: all keys are present, the state is ok, and clients cannot see them"""
    database = whole_database()
    source, target = database.server(0, 0), database.server(1, 0)
    slot = next(s for s, keys in source.keys.items() if keys)
    verbs.set_slot(target, slot, "IMPORTING", source.id)
    verbs.set_slot(source, slot, "MIGRATING", target.id)
    verbs.migrate(database.world, source, target.ip, list(source.keys[slot]))
    database.advance(0.5)
    database.world.kill(target.name)
    database.remove_pod(1, 0, comes_back_after=2.0)
    assert database.reconcile(patience=60).settled
    assert_serves_all(database)


def test_no_key_is_moved_to_an_old_primary_that_has_not_heard_of_its_successor() -> None:
    """CL-06: it comes back with a move still open, and would drop what it is given. I1, I14"""
    database = whole_database()
    source, target = database.server(0, 0), database.server(1, 0)
    slot = next(s for s, keys in source.keys.items() if keys)
    verbs.set_slot(target, slot, "IMPORTING", source.id)
    verbs.set_slot(source, slot, "MIGRATING", target.id)
    database.advance(0.5)
    old = [(n.id, n.slots, n.config_epoch, n.open_slots) for n in database.observe().seen]
    database.world.kill(target.name)
    database.advance(0.1)
    while not database.server(1, 1).is_primary:
        database.reconcile(patience=1)
    back, slots, epoch, opened = next(entry for entry in old if entry[0] == target.id)
    database.world.start(target.name)
    observed = database.observe()
    nodes = tuple(
        but(
            n, role=Role.PRIMARY, replica_of=None, slots=slots, config_epoch=epoch,
            open_slots=opened,
        )
        if isinstance(n, Seen) and n.id == back
        else n
        for n in observed.nodes
    )  # fmt: skip
    advice = plan(database.wanted, replace(observed, nodes=nodes), database.world.now)
    assert not any(isinstance(step, MoveSlots) for step in advice.steps)
    assert any("db-1-0 has not heard yet" in reason for reason in advice.blocked)
    assert database.reconcile(patience=60).settled
    assert_serves_all(database)


def told_everybody_but_its_replica(database: SimulatedDatabase) -> tuple[int, SimulatedDatabase]:
    """A target of a move has died when all had heard of its last slot, but not its replica."""
    source, target = database.server(0, 0), database.server(1, 0)
    slot = next(s for s, keys in source.keys.items() if keys)
    verbs.set_slot(target, slot, "IMPORTING", source.id)
    verbs.set_slot(source, slot, "MIGRATING", target.id)
    verbs.migrate(database.world, source, target.ip, list(source.keys[slot]))
    database.advance(0.5)
    deaf = database.server(1, 1).name
    for server in database.servers:
        if server.name == deaf:
            continue
        record, owner = server.table[target.id], server.table[source.id]
        owner.slots &= ~(1 << slot)
        record.slots |= 1 << slot
        record.epoch = 9
        server.current_epoch = 9
    source.migrating.clear()
    database.world.kill(target.name)
    for server in database.servers:
        server.table[target.id].connected = False  # its kernel closed the links
    return slot, database


def test_what_a_dead_owner_got_last_goes_to_the_replica_promoted_over_it() -> None:
    """CL-06: it has the keys and has not heard of the slot; all others say that the dead has it."""
    slot, database = told_everybody_but_its_replica(
        whole_database(replace(WANTED, persistent=False))
    )
    database.remove_pod(1, 0, comes_back_after=2.0)
    assert "db-1-1 has not heard of epoch 9 yet" in database.plan().blocked
    rules = []
    for _ in range(40):
        advice = database.plan()
        rules += [advice.rule]
        assert not advice.losses
        database.reconcile(patience=1)
    assert "inherit" in rules
    assert database.plan().settled
    assert SlotSet([slot]) <= database.server(1, 1).slots
    assert_serves_all(database)


def test_nobody_inherits_who_is_not_known_to_have_followed_the_dead_owner() -> None:
    """I1: without memory of who was promoted over whom the slot is reported, and left."""
    slot, database = told_everybody_but_its_replica(
        whole_database(replace(WANTED, persistent=False))
    )
    database.remove_pod(1, 0, comes_back_after=2.0)
    while database.plan().rule != "inherit":
        database.reconcile(patience=1)
    observed = knowing(replace(database.observe(), elections=()), histories=())
    advice = plan(database.wanted, observed, database.world.now)
    assert [loss.slots for loss in advice.losses] == [SlotSet([slot])]
    assert not any(isinstance(step, InheritSlots) for step in advice.steps)


def test_stray_keys_on_a_server_that_owns_other_slots_are_brought_home() -> None:
    database = whole_database()
    slot = key_slot("{x}stray")
    database.server(0, 0).keys.setdefault(slot, {})["{x}stray"] = "v"
    database.census = StrayCount(database.census.at - 300)
    assert set(database.plan().count_strays_on) == {"db-0-0", "db-1-0", "db-2-0"}
    advice = database.plan()
    assert advice.rule == "rescue"
    database.census = StrayCount(database.census.at - 300)
    assert database.reconcile().settled
    assert database.server(2, 0).keys[slot] == {"{x}stray": "v"}


def test_deleted_slots_go_back_to_whoever_holds_their_keys() -> None:
    """CL-30"""
    database = whole_database()
    owner = database.server(0, 0)
    slot = next(s for s, keys in owner.keys.items() if keys)
    for server in database.servers:
        for record in server.table.values():
            record.slots &= ~(1 << slot)
    assert database.plan().count_strays_on
    (step,) = [s for s in database.plan().steps if isinstance(s, AssignSlots)]
    assert step.slots == SlotSet([slot])
    assert step.node.id == owner.id
    assert database.reconcile().settled
    assert_serves_all(database)


def test_deleted_slots_without_keys_are_reported_and_left() -> None:
    database = whole_database()
    free = next(s for s in even_shares(3)[0] if not database.server(0, 0).keys.get(s))
    for server in database.servers:
        for record in server.table.values():
            record.slots &= ~(1 << free)
    assert database.plan().count_strays_on
    advice = database.plan()
    assert [loss.slots for loss in advice.losses] == [SlotSet([free])]
    assert not any(isinstance(step, AssignSlots) for step in advice.steps)


def test_no_slot_changes_hands_while_two_owners_share_an_epoch() -> None:
    """CL-29, I14"""
    database = whole_database()
    source, target = database.server(0, 0), database.server(1, 0)
    slot = next(iter(source.keys))
    verbs.set_slot(target, slot, "IMPORTING", source.id)
    verbs.set_slot(source, slot, "MIGRATING", target.id)
    source.me.epoch = target.me.epoch
    advice = database.plan()
    assert not any(isinstance(step, MoveSlots) for step in advice.steps)
    assert any("share epoch 2" in reason for reason in advice.blocked)
    assert database.reconcile().settled


def test_a_source_that_has_not_heard_of_the_new_owner_keeps_its_slot_open() -> None:
    """I1: closed, it would accept writes to a slot without keys, and delete them when it hears."""
    database = whole_database()
    source, target = database.server(0, 0), database.server(1, 0)
    slot = next(s for s, keys in source.keys.items() if keys)
    verbs.set_slot(target, slot, "IMPORTING", source.id)
    verbs.set_slot(source, slot, "MIGRATING", target.id)
    verbs.migrate(database.world, source, target.ip, list(source.keys[slot]))
    verbs.set_slot(target, slot, "NODE", target.id)
    advice = database.plan()
    assert SlotSet([slot]) <= source.slots, "it has heard already"
    assert not any(isinstance(s, CloseSlots) and s.node.id == source.id for s in advice.steps)
    assert f"db-0-0 has not heard yet that slot {slot} has another owner" in advice.blocked
    assert database.reconcile().settled
    assert not source.migrating
    assert_serves_all(database)


# Ghosts and duplicates


def test_a_dead_owner_is_forgotten_only_after_its_replica_took_over() -> None:
    """CL-10, CL-11"""
    database = whole_database(replace(WANTED, persistent=False))
    database.remove_pod(0, 0, comes_back_after=0.0)
    database.run_controllers()
    forgotten_at = promoted_at = None
    for turn in range(30):
        advice = database.plan()
        if any(isinstance(step, Forget) for step in advice.steps) and forgotten_at is None:
            forgotten_at = turn
        database.carry_out(advice)
        if database.server(0, 1).slots and promoted_at is None:
            promoted_at = turn
        database.advance(0.5)
    assert database.plan().settled
    assert promoted_at is not None
    assert forgotten_at is not None
    assert promoted_at < forgotten_at
    assert all(len(server.table) == 6 for server in database.servers)


def test_an_empty_duplicate_gets_a_name_of_its_own() -> None:
    """CL-25"""
    database = whole_database()
    original, copy = database.server(0, 1), database.server(1, 1)
    copy.keys, copy.offset = {}, 0
    copy.id = original.id
    copy.table = {k: replace_record(v) for k, v in original.table.items()}
    copy.table[original.id].ip = copy.ip
    copy.replication_id, copy.link_up = "cloned", False
    (step,) = [s for s in database.plan().steps if isinstance(s, ResetEmptyNode)]
    assert step.node.pod == "db-1-1"
    assert not database.execute(step)
    assert database.reconcile(patience=40).settled
    assert_serves_all(database)


def replace_record(record: Record) -> Record:
    return changed(record, reports={})


def test_duplicates_that_both_hold_data_are_named_and_touched_by_nobody() -> None:
    """CL-25"""
    database = whole_database()
    copy = database.server(1, 1)
    copy.id = database.server(0, 1).id
    copy.table = {k: replace_record(v) for k, v in database.server(0, 1).table.items()}
    advice = database.plan()
    assert any("db-0-1 and db-1-1 both report node id" in reason for reason in advice.blocked)
    touched = {step.node.pod for step in advice.steps if hasattr(step, "node")}
    assert not touched & {"db-0-1", "db-1-1"}


def test_servers_whose_meeting_would_delete_keys_are_not_introduced() -> None:
    """I3: the winner of the epochs never had the data"""
    database = whole_database()
    full, empty = database.server(0, 0), database.server(0, 1)
    verbs.reset(database.world, empty, hard=True)
    for server in database.servers:
        if server is not empty:
            server.table.pop(empty.id, None)
    empty.me.slots, empty.me.epoch = full.me.slots, 50
    empty.current_epoch = 50
    advice = database.plan()
    pairs = {(s.node.pod, s.peer.pod) for s in advice.steps if isinstance(s, Meet)}
    assert ("db-0-0", "db-0-1") not in pairs
    assert ("db-0-1", "db-0-0") not in pairs
    assert any("would delete the keys" in reason for reason in advice.blocked)


def test_a_paused_database_is_looked_at_and_not_touched() -> None:
    database = whole_database()
    database.world.kill("db-0-0")
    database.wanted = replace(WANTED, paused=True)
    advice = database.plan()
    assert not advice.steps


def test_planning_is_total_over_nothing_at_all() -> None:
    advice = plan(WANTED, Observed(), 0.0)
    assert not advice.steps
    assert advice.blocked


def _freeze(database: SimulatedDatabase) -> None:
    database.server(0, 1).stopped = True


def believing(replicas: int = 1) -> tuple[SimulatedDatabase, int]:
    """A server that missed a move believes the old owner, whose epoch rose since; and the slot."""
    database = whole_database(replace(WANTED, replicas=replicas))
    for server in database.servers:
        server.engine, server.version = "redis", "6.2.14"
    old, new, deaf = database.server(0, 0), database.server(1, 0), database.server(2, 0)
    slot = next(s for s in even_shares(3)[0] if not old.keys.get(s))
    old.current_epoch = old.me.epoch = 9
    for server in database.servers:
        server.table[old.id].epoch = 9
        if server is not deaf:
            server.table[old.id].slots &= ~(1 << slot)
            server.table[new.id].slots |= 1 << slot
    database.advance(5.0)
    return database, slot


def test_a_map_that_gossip_will_never_put_right_is_put_right_by_a_higher_epoch() -> None:
    """CL-29. The replica of the old owner, once promoted, would claim what it believes."""
    database, slot = believing()
    new, deaf = database.server(1, 0), database.server(2, 0)
    assert "not counted yet" in database.plan().blocked[0]
    (step,) = database.plan().steps
    assert isinstance(step, RaiseEpoch)
    assert (step.node.pod, step.slots) == ("db-1-0", new.slots)
    assert not database.execute(step)
    database.advance(3.0)
    assert slot in SlotSet.from_bits(deaf.table[new.id].slots)
    assert not any(isinstance(step, RaiseEpoch) for step in database.plan().steps)
    assert database.reconcile().settled
    assert_serves_all(database)


def test_no_epoch_is_raised_for_a_map_while_somebody_may_own_the_slots() -> None:
    """I3"""

    def raises(change: Callable[[SimulatedDatabase, int], None]) -> bool:
        database, slot = believing()
        change(database, slot)
        database.count_strays_on = frozenset(pod.name for pod in database.pods)
        return any(isinstance(step, RaiseEpoch) for step in database.plan().steps)

    def strays(database: SimulatedDatabase, slot: int) -> None:
        database.server(2, 0).keys[slot] = {"k": 1}

    assert raises(lambda database, slot: None)
    assert not raises(lambda database, slot: _freeze(database))
    assert not raises(lambda database, slot: database.world.kill("db-2-1"))
    assert not raises(lambda database, slot: database.remove_pod(1, 1, comes_back_after=60.0))
    assert not raises(strays), "they are brought home first"

    def told(database: SimulatedDatabase) -> str:
        _freeze(database)
        return "; ".join(database.plan().blocked)

    assert "db-2-0 takes slots of db-1-0 for db-0-0's, whose epoch is higher" in told(
        believing()[0]
    )
