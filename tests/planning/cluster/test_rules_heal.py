"""Creating and healing, one situation a test, on the simulated cluster."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from redis_operator.planning.advice import Plan, PlanPhase
from redis_operator.planning.at import at
from redis_operator.planning.cluster.actions import (
    AssignSlots,
    Failover,
    FailoverMode,
    Forget,
    Meet,
    RaiseEpoch,
    Replicate,
)
from redis_operator.planning.cluster.guards import GUARDS
from redis_operator.planning.cluster.topology import ClusterTopology
from redis_operator.planning.fence import Fence
from redis_operator.planning.guards import breaches
from redis_operator.redis.slots import ALL_SLOTS, SlotSet, even_shares, key_slot
from redis_testing.cluster import SimulatedCluster, verbs
from redis_testing.cluster.breakages import fill
from redis_testing.cluster.database import SimulatedDatabase
from support.situations import WANTED, assert_serves_all, new_database, whole_database

# Creating


def test_a_new_database_is_formed_by_one_plan() -> None:
    database = new_database()
    advice = database.plan()
    assert advice.rule == "bootstrap"
    assert advice.phase is PlanPhase.CREATING
    database.carry_out(advice)
    database.advance(1.0)
    replicas = [s for s in database.servers if not s.is_primary]
    assert len(replicas) == 3
    assert all(s.link_up for s in replicas)
    assert database.reconcile(patience=6).settled
    assert [str(database.server(i, 0).slots) for i in range(3)] == [str(s) for s in even_shares(3)]
    assert {s.config["cluster-node-timeout"] for s in database.servers} == {"2000"}


def test_creation_stopped_after_any_command_is_resumed_to_the_same_end() -> None:
    """CL-05"""
    database = new_database()
    database.carry_out(database.plan())
    commands = len(database.operator.journal.effects)
    assert commands > 25
    for stop in range(1, commands + 1):
        database = new_database()
        database.carry_out(database.plan(), effects=stop)
        assert database.reconcile(patience=30).settled, stop
        assert [database.server(i, 0).slots for i in range(3)] == list(even_shares(3))
        epochs = {server.me.epoch for server in database.servers if server.is_primary}
        assert len(epochs) == 3


def test_no_slot_is_given_out_while_a_pod_is_silent() -> None:
    database = new_database()
    database.server(2, 1).stopped = True
    advice = database.plan()
    assert not any(isinstance(step, AssignSlots) for step in advice.steps)
    assert advice.rule == "bootstrap"
    assert any("got no answer within" in reason for reason in advice.blocked)
    assert not any("this is a bug" in reason for reason in advice.blocked)


def test_a_new_database_tells_why_its_pods_do_not_run() -> None:
    database = new_database()
    database.image_works = False
    database.remove_pod(2, 1, comes_back_after=0.0)
    database.advance(1.0)
    blocked = database.plan().blocked
    assert "db-2-1 does not respond: ImagePullBackOff: no such image" in blocked


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
    assert not database.execute(step)
    assert database.server(0, 1).slots == even_shares(3)[0]
    database.world.start(dead.name)
    assert database.reconcile().settled
    assert dead.me.replica_of == database.server(0, 1).id
    assert_serves_all(database)


def test_a_replica_is_not_forced_before_it_knows_who_votes() -> None:
    """CL-01: it counts no vote of those whom it does not know to own slots, and asks only once."""
    database = whole_database()
    dead, chosen = database.server(0, 0), database.server(0, 1)
    database.world.kill(dead.name)
    voters = [database.server(shard, 0) for shard in (1, 2)]
    for voter in voters:
        chosen.table[voter.id].slots = 0
    advice = database.plan()
    assert not any(isinstance(step, Failover) for step in advice.steps)
    assert (
        "db-0-1 has not heard yet that db-1-0, db-2-0 own slots and may vote" in advice.blocked
    ), advice.blocked
    assert advice.again_after is not None
    assert advice.again_after <= 0.5
    database.advance(0.2)  # they tell it
    (step,) = [s for s in database.plan().steps if isinstance(s, Failover)]
    assert step.mode is FailoverMode.FORCE
    assert not database.execute(step)
    assert chosen.slots == even_shares(3)[0]


def test_a_replica_that_never_heard_of_its_primarys_last_epoch_takes_over() -> None:
    """CL-01: the owners refuse its old epoch for ever, and the dead tell nobody of the new one."""
    database = whole_database()
    dead, chosen = database.server(0, 0), database.server(0, 1)
    database.world.kill(dead.name)
    for server in database.servers:
        if server is not dead:
            server.current_epoch = 9
            if server is not chosen:
                server.table[dead.id].epoch = 9
    (step,) = [s for s in database.plan().steps if isinstance(s, Failover)]
    assert step.mode is FailoverMode.TAKEOVER
    assert step.fence is Fence.PROCESS_GONE
    assert not database.execute(step)
    database.world.start(dead.name)
    assert database.reconcile().settled
    assert chosen.slots == even_shares(3)[0]
    assert_serves_all(database)


@pytest.mark.parametrize("seed", range(8))
def test_a_primary_that_comes_back_with_anothers_epoch_takes_no_slot_back(seed: int) -> None:
    """Who shares an epoch with another takes the next one, and with it whatever it claims."""
    database = whole_database()
    dead, other, chosen = database.server(0, 0), database.server(1, 0), database.server(0, 1)
    for server in database.servers:  # both took it in the same moment, and could not hear it
        server.current_epoch = 7
        for node in (dead, other):
            server.table[node.id].epoch = 7
    database.world.kill(dead.name)
    for _ in range(4):
        database.carry_out(database.plan())
        database.advance(0.1)
    assert chosen.slots == even_shares(3)[0]
    key = next(key for key in (f"k{n}" for n in range(1000)) if key_slot(key) in chosen.slots)
    assert database.world.write("db", key, "written to the successor")
    database.world.random.seed(seed)  # who hears of whom first
    database.world.start(dead.name)
    database.advance(2.0)
    assert database.world.read("db", key) == "written to the successor"
    assert database.reconcile().settled
    assert_serves_all(database)


def test_an_epoch_is_not_raised_for_who_may_have_lost_slots() -> None:
    """It would take them back, and their new owner would delete its keys. I3"""
    database = whole_database()
    dead, other = database.server(0, 0), database.server(1, 0)
    for server in database.servers:
        server.current_epoch = 9
        for node in (dead, other):
            server.table[node.id].epoch = 7
    other.importing[0] = dead.id
    database.world.kill(dead.name)
    assert not any(isinstance(step, RaiseEpoch) for step in database.plan().steps)
    other.importing.clear()
    observed = database.observe()
    step = RaiseEpoch(at(observed.seen[1]), 7, ALL_SLOTS)
    told = breaches(ClusterTopology(WANTED, observed, 0.0), Plan(stages=((step,),)), GUARDS)
    assert any("would take them" in reason for reason in told), told


def test_a_silent_primary_is_left_to_the_engine() -> None:
    """CL-13: unknown is not dead"""
    database = whole_database()
    database.server(0, 0).stopped = True
    advice = database.plan()
    assert not advice.steps
    assert any("db-0-0 does not respond and may be alive" in reason for reason in advice.blocked)
    database.advance(8.0)
    assert database.server(0, 1).slots == even_shares(3)[0]


def test_a_silent_sibling_stops_the_assisted_failover() -> None:
    database = whole_database(replace(WANTED, replicas=2))
    database.server(0, 2).stopped = True
    database.world.kill("db-0-0")
    advice = database.plan()
    assert not any(isinstance(step, Failover) for step in advice.steps)
    assert "db-0-2 may hold newer data and does not respond" in advice.blocked


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
    database.wanted = replace(WANTED, accepted_loss=ALL_SLOTS)
    advice = database.plan()
    (step,) = [s for s in advice.steps if isinstance(s, Failover)]
    assert step.mode is FailoverMode.TAKEOVER
    database.advance(1.0)
    for name in ("db-0-0", "db-1-0"):
        database.world.start(name)
    assert database.reconcile().settled
    assert_serves_all(database)


def test_a_lost_majority_with_a_silent_owner_is_never_taken_over() -> None:
    database = whole_database(replace(WANTED, accepted_loss=ALL_SLOTS))
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
    steps = [s for s in database.plan().steps if isinstance(s, Failover)]
    assert [step.node.pod for step in steps] == ["db-1-1"]


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
    assert not database.execute(step)
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
    database.wanted = replace(wanted, accepted_loss=ALL_SLOTS)
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
    database.wanted = replace(wanted, accepted_loss=ALL_SLOTS)
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
    addresses = a.ip, b.ip
    world.start(a.name, address=addresses[1])
    world.start(b.name, address=addresses[0])
    for _ in range(20):
        for database in (one, two):
            database.carry_out(database.plan())
            database.advance(0.5)
    assert one.plan().settled
    assert two.plan().settled
    for database in (one, two):
        assert_serves_all(database)
        ours = {server.id for server in database.servers}
        assert all(set(server.table) == ours for server in database.servers)


def test_a_primary_without_slots_that_was_recreated_is_no_stranger_to_its_replicas() -> None:
    """They are linked with its old id until they notice, and cannot forget whom they follow."""
    database = whole_database(replace(WANTED, persistent=False, volatile=True, start_empty=True))
    wanted = replace(database.wanted, shards=4)
    database.apply_spec(wanted)
    for _ in range(20):
        database.carry_out(database.plan())
        database.advance(0.1)
        if database.server(3, 1).me.replica_of is not None:
            break
    new = database.server(3, 0)
    old, address = new.id, new.ip
    assert database.server(3, 1).me.replica_of == old
    database.remove_pod(3, 0, comes_back_after=0.0)
    database.run_controllers()
    for server in database.servers:  # nobody has noticed yet
        if old in server.table:
            record = server.table[old]
            record.ip, record.connected, record.noaddr = address, True, False
    advice = database.plan()
    assert not any("this is a bug" in reason for reason in advice.blocked), advice.blocked
    assert not any(isinstance(step, Forget) and step.id == old for step in advice.steps)


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
    assert any(
        "is not a pod of this database but owns slots 7" in reason for reason in advice.blocked
    )


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
    slot = key_slot("{only}here")
    lone.keys = {slot: {"{only}here": "v"}}
    for _ in range(3):
        advice = database.plan()
        followers = [s.node.pod for s in advice.steps if isinstance(s, Replicate)]
        assert "db-1-1" not in followers or not lone.key_count
        database.carry_out(advice)
        database.advance(1.0)
    assert database.reconcile().settled
    assert any("{only}here" in s.keys.get(slot, {}) for s in database.servers if s.is_primary)


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
