"""Creating and healing, one situation a test, on the simulated cluster."""

from __future__ import annotations

from dataclasses import replace as changed

import pytest
from msgspec.structs import replace

from redis_operator.planning.actions import (
    AssignSlots,
    At,
    Failover,
    FailoverMode,
    Fence,
    Forget,
    Meet,
    MoveSlots,
    Replicate,
    ResetEmptyNode,
    at,
)
from redis_operator.planning.advice import Phase, Wanted
from redis_operator.planning.observed import Observed
from redis_operator.planning.plan import plan
from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS, SlotSet, even_shares
from redis_operator.testing.cluster import Record, SimulatedCluster, verbs
from redis_operator.testing.cluster.breakages import fill
from redis_operator.testing.cluster.database import SimulatedDatabase

WANTED = Wanted(
    name="db",
    shards=3,
    replicas=1,
    node_timeout_ms=2000,
    config=(("cluster-node-timeout", "2000"),),
)


def new_database(wanted: Wanted = WANTED) -> SimulatedDatabase:
    database = SimulatedDatabase(world=SimulatedCluster(), wanted=wanted)
    database.apply_spec(wanted)
    database.run_controllers()
    return database


def whole_database(wanted: Wanted = WANTED) -> SimulatedDatabase:
    database = SimulatedDatabase.formed_already(SimulatedCluster(), wanted)
    fill(database)
    database.reconcile(patience=3)
    assert database.plan().settled
    return database


def assert_serves_all(database: SimulatedDatabase) -> None:
    world, name = database.world, database.wanted.name
    missing = [k for (d, k) in world.acknowledged if d == name and world.read(d, k) is None]
    assert not missing
    owned = NO_SLOTS
    for server in database.servers:
        if server.is_primary and server.alive:
            assert not owned & server.slots
            owned |= server.slots
    assert owned == ALL_SLOTS


# Creating


def test_a_new_database_is_formed_by_one_plan() -> None:
    database = new_database()
    advice = database.plan()
    assert advice.rule == "found"
    assert advice.phase is Phase.CREATING
    for stage in advice.stages:
        for action in stage:
            list(database.execute(action))
    database.advance(1.0)
    replicas = [s for s in database.servers if not s.is_primary]
    assert len(replicas) == 3
    assert all(s.link_up for s in replicas)
    assert database.reconcile(patience=6).settled
    assert [str(database.server(i, 0).slots) for i in range(3)] == [str(s) for s in even_shares(3)]
    assert {s.config["cluster-node-timeout"] for s in database.servers} == {"2000"}


def test_creation_stopped_after_any_command_is_resumed_to_the_same_end() -> None:
    """CL-05"""
    commands = sum(len(list(new_database().execute(a))) for a in new_database().plan().steps)
    assert commands > 25
    for stop in range(commands):
        database = new_database()
        left = stop
        for action in database.plan().steps:
            for _ in database.execute(action):
                left -= 1
                if left <= 0:
                    break
            if left <= 0:
                break
        assert database.reconcile(patience=30).settled, stop
        assert [database.server(i, 0).slots for i in range(3)] == list(even_shares(3))
        epochs = {server.me.epoch for server in database.servers if server.is_primary}
        assert len(epochs) == 3


def test_no_slot_is_given_out_while_a_pod_is_silent() -> None:
    database = new_database()
    database.server(2, 1).stopped = True
    advice = database.plan()
    assert not any(isinstance(step, AssignSlots) for step in advice.steps)
    assert "db-2-1 does not answer: no answer in time" in advice.blocked


def test_a_new_database_tells_why_its_pods_do_not_run() -> None:
    database = new_database()
    database.image_works = False
    database.remove_pod(2, 1, comes_back_after=0.0)
    database.advance(1.0)
    blocked = database.plan().blocked
    assert "db-2-1 does not answer: ImagePullBackOff: no such image" in blocked


def test_thirty_servers_are_formed_by_one_plan() -> None:
    database = new_database(replace(WANTED, shards=15))
    assert len(database.plan().stages) <= 4
    assert database.reconcile(patience=8).settled
    assert_serves_all(database)


# Dead primaries


def test_a_dead_primary_is_replaced_by_force_without_waiting() -> None:
    """CL-01"""
    database = whole_database()
    dead = database.server(0, 0)
    database.world.kill(dead.name)
    advice = database.plan()
    (step,) = [s for s in advice.steps if isinstance(s, Failover)]
    assert step.mode is FailoverMode.FORCE
    assert step.fence is Fence.PROCESS_GONE
    assert step.node.pod == "db-0-1"
    assert "db-0-0 is dead" in advice.why
    list(database.execute(step))
    assert database.server(0, 1).slots == even_shares(3)[0]
    database.world.start(dead.name)
    assert database.reconcile().settled
    assert dead.me.replica_of == database.server(0, 1).id
    assert_serves_all(database)


def test_a_silent_primary_is_left_to_the_engine() -> None:
    """CL-13: unknown is not dead"""
    database = whole_database()
    database.server(0, 0).stopped = True
    advice = database.plan()
    assert not advice.steps
    assert any("db-0-0 does not answer and may be alive" in reason for reason in advice.blocked)
    database.advance(8.0)
    assert database.server(0, 1).slots == even_shares(3)[0]


def test_a_silent_sibling_stops_the_assisted_failover() -> None:
    database = whole_database(replace(WANTED, replicas=2))
    database.server(0, 2).stopped = True
    database.world.kill("db-0-0")
    advice = database.plan()
    assert not any(isinstance(step, Failover) for step in advice.steps)
    assert "db-0-2 may hold newer data and does not answer" in advice.blocked


def test_the_replica_with_more_data_is_promoted() -> None:
    database = whole_database(replace(WANTED, replicas=2))
    database.world.cut.add(frozenset(("db-0-0", "db-0-1")))
    database.world.write("db", _key_of(database, 0), "late")
    database.advance(0.3)
    database.world.cut.clear()
    assert database.server(0, 2).offset > database.server(0, 1).offset
    database.world.kill("db-0-0")
    (step,) = [s for s in database.plan().steps if isinstance(s, Failover)]
    assert step.node.pod == "db-0-2"


def _key_of(database: SimulatedDatabase, shard: int) -> str:
    return next(key for keys in database.server(shard, 0).keys.values() for key in keys)


def test_a_majority_of_lost_primaries_is_taken_over_only_when_loss_was_accepted() -> None:
    """CL-14"""
    database = whole_database()
    for shard in (0, 1):
        database.world.kill(f"db-{shard}-0")
    advice = database.plan()
    assert not any(isinstance(step, Failover) for step in advice.steps)
    assert any("2 are needed to elect a primary" in reason for reason in advice.blocked)
    database.wanted = replace(WANTED, accept_data_loss=True)
    advice = database.plan()
    (step,) = [s for s in advice.steps if isinstance(s, Failover)]
    assert step.mode is FailoverMode.TAKEOVER
    database.advance(1.0)
    for name in ("db-0-0", "db-1-0"):
        database.world.start(name)
    assert database.reconcile().settled
    assert_serves_all(database)


def test_a_lost_majority_with_a_silent_owner_is_never_taken_over() -> None:
    database = whole_database(replace(WANTED, accept_data_loss=True))
    database.world.kill("db-0-0")
    database.server(1, 0).stopped = True
    advice = database.plan()
    assert not any(isinstance(step, Failover) for step in advice.steps)


def test_a_replica_with_another_shards_data_is_never_promoted() -> None:
    """It was told to follow a primary that died before the first sync."""
    database = whole_database()
    stray = database.server(0, 1)
    verbs.replicate(database.world, stray, database.server(1, 0).id)
    database.world.kill("db-1-0")
    stray.offset += 10_000
    (step,) = [s for s in database.plan().steps if isinstance(s, Failover)]
    assert step.node.pod == "db-1-1"


def test_a_primary_that_came_back_empty_gives_way_to_its_full_replica() -> None:
    """I9, the second net"""
    database = whole_database()
    primary = database.server(0, 0)
    database.world.cut.add(frozenset(("db-0-0", "db-0-1")))
    primary.keys, primary.offset = {}, 0
    primary.replication_id = "another history"
    database.advance(0.3)
    database.world.cut.clear()
    (step,) = [s for s in database.plan().steps if isinstance(s, Failover)]
    assert step.fence is Fence.EMPTY_AND_PAUSED
    list(database.execute(step))
    assert database.reconcile().settled
    assert_serves_all(database)


def test_a_primary_emptied_by_its_clients_stays_primary() -> None:
    database = whole_database()
    database.server(0, 0).keys = {}
    database.server(0, 0).offset += 1
    assert not any(isinstance(step, Failover) for step in database.plan().steps)


# New addresses


def test_all_pods_new_at_once_are_introduced_and_nothing_else_is_done() -> None:
    """CL-02: no create, no reset, no flush"""
    database = whole_database()
    for pod in database.pods:
        database.remove_pod(pod.shard, pod.ordinal, comes_back_after=0.0)
    database.run_controllers()
    advice = database.plan()
    assert {type(s).__name__ for s in advice.steps} <= {"Meet", "LabelRole"}
    assert len([s for s in advice.steps if isinstance(s, Meet)]) >= 15
    assert database.reconcile().settled
    assert_serves_all(database)


def test_all_pods_new_without_storage_is_data_lost_and_stays_so_until_accepted() -> None:
    """CL-03"""
    wanted = replace(WANTED, persistent=False)
    database = whole_database(wanted)
    for pod in database.pods:
        database.remove_pod(pod.shard, pod.ordinal, comes_back_after=0.0)
    database.run_controllers()
    advice = database.reconcile(patience=15)
    assert [loss.slots for loss in advice.losses] == [ALL_SLOTS]
    assert not any(server.slots for server in database.servers)
    database.wanted = replace(wanted, accept_data_loss=True)
    assert database.reconcile(patience=30).settled
    owned = [server.slots for server in database.servers if server.slots]
    assert owned == list(even_shares(3))


def test_a_shard_lost_with_all_copies_is_named_by_its_slots() -> None:
    """CL-21"""
    wanted = replace(WANTED, persistent=False)
    database = whole_database(wanted)
    for ordinal in (0, 1):
        database.remove_pod(1, ordinal, comes_back_after=0.2)
    advice = database.reconcile(patience=25)
    assert [loss.slots for loss in advice.losses] == [even_shares(3)[1]]
    assert database.server(0, 0).slots == even_shares(3)[0]
    assert not database.server(1, 0).slots
    database.wanted = replace(wanted, accept_data_loss=True)
    assert database.reconcile(patience=40).settled
    assert sum(len(s.slots) for s in database.servers if s.is_primary) == len(ALL_SLOTS)


def test_two_databases_that_swapped_addresses_stay_apart() -> None:
    """K-11"""
    world = SimulatedCluster()
    one = SimulatedDatabase.formed_already(world, WANTED)
    two = SimulatedDatabase.formed_already(world, replace(WANTED, name="other"))
    fill(one)
    fill(two)
    a, b = one.server(0, 1), two.server(0, 1)
    for database, server, address in ((one, a, b.ip), (two, b, a.ip)):
        world.kill(server.name)
        place = database._places[0, 1]
        assert place.pod is not None
        place.pod = replace(place.pod, ip=address, uid=f"{server.name}-new")
        database.last_ids.clear()
    addresses = a.ip, b.ip
    world.start(a.name, address=addresses[1])
    world.start(b.name, address=addresses[0])
    for _ in range(20):
        for database in (one, two):
            for stage in database.plan().stages:
                for action in stage:
                    list(database.execute(action))
            database.advance(0.5)
    assert one.plan().settled
    assert two.plan().settled
    for database in (one, two):
        assert_serves_all(database)
        ours = {server.id for server in database.servers}
        assert all(set(server.table) == ours for server in database.servers)


def test_a_stranger_with_slots_in_our_books_is_named_and_not_forgotten() -> None:
    database = whole_database()
    stranger = database.world.add("stranger", database="other")
    for server in database.servers:
        verbs.meet(database.world, server, stranger.ip)
    database.advance(1.0)
    taken = SlotSet([7])
    for server in (*database.servers, stranger):
        for record in server.table.values():
            record.slots &= ~taken.bits
        server.table[stranger.id].slots = taken.bits
        server.table[stranger.id].epoch = 99
    stranger.me.epoch = stranger.current_epoch = 99
    advice = database.plan()
    assert not any(isinstance(step, Forget) for step in advice.steps)
    assert any("is no pod of ours but owns slots 7" in reason for reason in advice.blocked)


# Roles


def test_an_extra_empty_primary_becomes_a_replica() -> None:
    database = whole_database()
    verbs.reset(database.world, database.server(1, 1), hard=True)
    assert database.reconcile().settled
    assert database.server(1, 1).me.replica_of == database.server(1, 0).id


def test_a_replica_of_the_wrong_primary_comes_home() -> None:
    """CL-17"""
    database = whole_database(replace(WANTED, replicas=2))
    verbs.replicate(database.world, database.server(0, 1), database.server(1, 0).id)
    database.advance(1.0)
    (step,) = [s for s in database.plan().steps if isinstance(s, Replicate)]
    assert step.node.pod == "db-0-1"
    assert database.reconcile().settled
    assert database.server(0, 1).me.replica_of == database.server(0, 0).id


def test_a_server_with_keys_of_its_own_never_becomes_a_replica() -> None:
    database = whole_database()
    lone = database.server(1, 1)
    verbs.reset(database.world, lone, hard=True)
    lone.keys = {1: {"{only}here": "v"}}
    for _ in range(3):
        advice = database.plan()
        followers = [s.node.pod for s in advice.steps if isinstance(s, Replicate)]
        assert "db-1-1" not in followers or not lone.key_count
        for stage in advice.stages:
            for action in stage:
                list(database.execute(action))
        database.advance(1.0)
    assert database.reconcile().settled
    assert any("{only}here" in s.keys.get(1, {}) for s in database.servers if s.is_primary)


def test_two_primaries_in_one_shards_pods_are_parted_by_a_planned_failover() -> None:
    """CL-17: anti-affinity per shard is true again"""
    database = whole_database()
    guest = database.server(0, 1)
    verbs.replicate(database.world, guest, database.server(1, 0).id)
    database.advance(1.0)
    verbs.failover(database.world, guest)
    database.advance(1.0)
    assert database.server(0, 0).slots
    assert guest.slots
    assert database.reconcile(patience=40).settled
    owners = {pod.shard for pod in database.pods if database.world.servers[pod.name].slots}
    assert owners == {0, 1, 2}
    assert_serves_all(database)


def test_one_primary_with_two_ranges_gives_one_away() -> None:
    """CL-15"""
    database = whole_database()
    source, target = database.server(1, 0), database.server(0, 0)
    for slot in list(source.slots):
        verbs.set_slot(target, slot, "IMPORTING", source.id)
        for key, value in source.keys.pop(slot, {}).items():
            target.keys.setdefault(slot, {})[key] = value
        verbs.set_slot(target, slot, "NODE", target.id)
        verbs.set_slot(source, slot, "NODE", target.id)
    target.offset += 1
    source.offset += 1
    database.advance(1.0)
    assert len(target.slots) > 10_000
    assert database.reconcile(patience=40).settled
    sizes = sorted(len(s.slots) for s in database.servers if s.is_primary)
    assert sizes == [5461, 5461, 5462]
    assert_serves_all(database)


# Slots


@pytest.mark.parametrize("finished", [0, 1, 2, 3, 4, 5, 6])
def test_a_move_that_stopped_anywhere_is_finished_or_taken_back(finished: int) -> None:
    """CL-06"""
    database = whole_database()
    source, target = database.server(0, 0), database.server(1, 0)
    slot = next(iter(source.keys))
    action = MoveSlots(
        source=_at(database, 0, 0), target=_at(database, 1, 0), slots=SlotSet([slot])
    )
    for step, _ in enumerate(database.execute(action)):
        if step == finished:
            break
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


def test_stray_keys_on_a_server_that_owns_other_slots_are_brought_home() -> None:
    database = whole_database()
    database.server(0, 0).keys.setdefault(16000, {})["{x}stray"] = "v"
    database.counted_at -= 300
    assert set(database.plan().count_on) == {"db-0-0", "db-1-0", "db-2-0"}
    advice = database.plan()
    assert advice.rule == "rescue"
    database.counted_at -= 300
    assert database.reconcile().settled
    assert database.server(2, 0).keys[16000] == {"{x}stray": "v"}


def test_deleted_slots_go_back_to_whoever_holds_their_keys() -> None:
    """CL-30"""
    database = whole_database()
    owner = database.server(0, 0)
    slot = next(s for s, keys in owner.keys.items() if keys)
    for server in database.servers:
        for record in server.table.values():
            record.slots &= ~(1 << slot)
    assert database.plan().count_on
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
    assert database.plan().count_on
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


# Ghosts and twins


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
        for stage in advice.stages:
            for action in stage:
                list(database.execute(action))
        if database.server(0, 1).slots and promoted_at is None:
            promoted_at = turn
        database.advance(0.5)
    assert database.plan().settled
    assert promoted_at is not None
    assert forgotten_at is not None
    assert promoted_at < forgotten_at
    assert all(len(server.table) == 6 for server in database.servers)


def test_an_empty_twin_gets_a_name_of_its_own() -> None:
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
    list(database.execute(step))
    assert database.reconcile(patience=40).settled
    assert_serves_all(database)


def replace_record(record: Record) -> Record:
    return changed(record, reports={})


def test_twins_that_both_hold_data_are_named_and_touched_by_nobody() -> None:
    """CL-25"""
    database = whole_database()
    copy = database.server(1, 1)
    copy.id = database.server(0, 1).id
    copy.table = {k: replace_record(v) for k, v in database.server(0, 1).table.items()}
    advice = database.plan()
    assert any("db-0-1 and db-1-1 both say they are node" in reason for reason in advice.blocked)
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
    assert advice.phase is Phase.PAUSED


def test_planning_is_total_over_nothing_at_all() -> None:
    advice = plan(WANTED, Observed(), 0.0)
    assert not advice.steps
    assert advice.blocked
