"""Changing a database in use, one situation a test, on the simulated cluster."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from planning.cluster.test_rules_heal import WANTED, assert_serves_all, whole_database
from planning.moments import knowing
from redis_operator.planning.actions import DeletePod, DeleteWorkload, ScaleWorkload
from redis_operator.planning.advice import Plan, PlanPhase, Switchover
from redis_operator.planning.cluster.actions import (
    AssignSlots,
    Failover,
    FailoverMode,
    Forget,
    MoveSlots,
    StopMoving,
)
from redis_operator.planning.clusters import Moving
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.observed import Election
from redis_operator.planning.plan import plan
from redis_operator.redis.slots import SlotSet
from redis_testing.cluster.database import SimulatedDatabase
from redis_testing.simulation.process import Effect


def after_counting(database: SimulatedDatabase) -> Plan:
    advice = database.plan()
    return database.plan() if advice.count_strays_on else advice


def steps_of(database: SimulatedDatabase, kind: type) -> list:  # type: ignore[type-arg]
    return [step for step in after_counting(database).steps if isinstance(step, kind)]


def carry_out(database: SimulatedDatabase) -> None:
    database.carry_out(after_counting(database))


# Shards


def test_new_shards_get_even_shares_and_nobody_gives_and_takes() -> None:
    database = whole_database()
    database.apply_spec(replace(WANTED, shards=5))
    for _ in range(20):
        moves = steps_of(database, MoveSlots)
        if moves:
            break
        carry_out(database)
        database.advance(0.5)
    assert moves
    assert not {m.source.id for m in moves} & {m.target.id for m in moves}
    assert sum(len(m.slots) for m in moves) == 2 * 3277
    assert database.plan().phase is PlanPhase.SCALING
    assert database.reconcile(patience=40).settled
    sizes = [len(database.server(shard, 0).slots) for shard in range(5)]
    assert sizes == [3276, 3277, 3277, 3277, 3277]
    assert_serves_all(database)


def test_weights_change_the_shares() -> None:
    database = whole_database()
    database.apply_spec(replace(WANTED, weights=((0, 2.0),)))
    assert database.reconcile(patience=20).settled
    assert [len(database.server(shard, 0).slots) for shard in range(3)] == [8192, 4096, 4096]
    assert_serves_all(database)


def test_a_leaving_shard_is_drained_forgotten_and_only_then_removed() -> None:
    """CL-07, K-05"""
    database = whole_database(replace(WANTED, shards=4))
    database.apply_spec(WANTED)
    order = []
    for _ in range(40):
        advice = after_counting(database)
        if advice.settled:
            break
        order += [type(step).__name__ for step in advice.steps]
        leaving = database.world.servers["db-3-0"]
        if any(isinstance(step, DeleteWorkload | Forget) for step in advice.steps):
            assert not leaving.slots
            assert not leaving.key_count
        carry_out(database)
        database.advance(0.5)
    assert order.index("MoveSlots") < order.index("Forget") < order.index("DeleteWorkload")
    assert database.plan().settled
    assert set(database.workloads) == {0, 1, 2}
    assert_serves_all(database)


def test_a_leaving_shard_waits_for_a_server_that_writes_its_append_only_file() -> None:
    """It would ignore the signal to end until it is killed. CL-33"""
    database = whole_database(replace(WANTED, shards=4))
    database.apply_spec(WANTED)
    for _ in range(40):
        advice = after_counting(database)
        if any(isinstance(step, DeleteWorkload) for step in advice.steps):
            break
        carry_out(database)
        database.advance(0.5)
    else:
        raise AssertionError("it never came to its end")
    observed = database.observe()
    nodes = tuple(
        replace(node, saving=True) if node.pod.name == "db-3-0" else node for node in observed.nodes
    )
    waits = plan(database.wanted, replace(observed, nodes=nodes), database.world.now)
    assert not any(isinstance(step, DeleteWorkload | Forget) for step in waits.steps)
    assert any("append-only" in reason for reason in waits.blocked), waits


def test_a_leaving_shard_is_found_by_who_owns_not_by_ordinals() -> None:
    """CL-07: its primary is another pod now"""
    database = whole_database(replace(WANTED, shards=4))
    database.world.kill("db-3-0")
    carry_out(database)
    database.advance(1.0)
    database.world.start("db-3-0")
    database.advance(1.0)
    assert database.server(3, 1).slots
    database.apply_spec(WANTED)
    assert database.reconcile(patience=60).settled
    assert_serves_all(database)


def test_a_scale_in_that_would_not_fit_is_refused_with_the_numbers() -> None:
    database = whole_database(replace(WANTED, shards=4))
    for server in database.servers:
        server.config["maxmemory"] = "1000"
        server.used_memory = 900
    database.apply_spec(WANTED)
    advice = database.plan()
    assert not any(isinstance(step, MoveSlots) for step in advice.steps)
    assert any("uses 900 bytes and would get about 300" in reason for reason in advice.blocked)


def test_a_scale_out_taken_back_half_way_turns_round() -> None:
    database = whole_database()
    database.apply_spec(replace(WANTED, shards=4))
    for _ in range(20):
        moves = steps_of(database, MoveSlots)
        if moves:
            break
        carry_out(database)
        database.advance(0.5)
    assert database.execute(moves[0], effects=200) == "the operator died"
    database.apply_spec(WANTED)
    assert database.reconcile(patience=60).settled
    assert set(database.workloads) == {0, 1, 2}
    assert_serves_all(database)


def test_a_move_under_way_that_is_not_wanted_any_more_is_stopped() -> None:
    database = whole_database(replace(WANTED, shards=4))
    database.apply_spec(WANTED)
    seen = database.observe()
    source, target = NodeId(database.server(0, 0).id), NodeId(database.server(3, 0).id)
    moving = Moving(source=source, target=target, slots=SlotSet([1]))
    advice = plan(database.wanted, knowing(seen, moving=(moving,)), database.world.now)
    assert StopMoving(source=source, target=target) in advice.steps
    turned = Moving(source=target, target=source, slots=SlotSet([1]))
    advice = plan(database.wanted, knowing(seen, moving=(turned,)), database.world.now)
    assert not advice.steps
    assert any("being migrated" in reason for reason in advice.blocked)


def test_a_move_that_only_finishes_what_is_open_is_let_go_on() -> None:
    """Else it would be begun and stopped for ever where it takes longer than a look."""
    database = whole_database(replace(WANTED, shards=4))
    database.apply_spec(WANTED)
    source, target = database.server(0, 0), database.server(3, 0)
    slot = min(source.slots)
    source.migrating[slot] = target.id
    target.importing[slot] = source.id
    seen = database.observe()
    moving = Moving(source=NodeId(source.id), target=NodeId(target.id), slots=SlotSet([slot]))
    advice = plan(database.wanted, knowing(seen, moving=(moving,)), database.world.now)
    assert not advice.steps
    assert any("being migrated" in reason for reason in advice.blocked)
    more = replace(moving, slots=SlotSet([slot, slot + 1]))
    advice = plan(database.wanted, knowing(seen, moving=(more,)), database.world.now)
    assert StopMoving(source=more.source, target=more.target) in advice.steps


def test_no_slots_go_from_a_newer_server_to_an_older_one() -> None:
    """I12"""
    database = whole_database(replace(WANTED, shards=4))
    for server in database.servers:
        server.version = "8.1.0"
    database.server(3, 0).version = "9.1.0"
    database.apply_spec(WANTED)
    advice = database.plan()
    assert not any(isinstance(step, MoveSlots) for step in advice.steps)
    assert any("cannot read" in reason for reason in advice.blocked)


# Replicas


def test_the_primary_is_moved_before_its_ordinal_leaves() -> None:
    database = whole_database(replace(WANTED, replicas=2))
    database.world.write("db", "x", "y")
    database.wanted = replace(database.wanted, switchover=Switchover(pod="db-0-2"))
    carry_out(database)
    database.advance(2.0)
    assert database.server(0, 2).slots
    database.apply_spec(replace(WANTED, replicas=1))
    (step,) = steps_of(database, Failover)
    assert step.mode is FailoverMode.PLAIN
    assert step.node.pod in ("db-0-0", "db-0-1")
    assert not steps_of(database, ScaleWorkload)
    assert database.reconcile(patience=60).settled
    assert len(database.pods) == 6
    assert_serves_all(database)


def test_the_last_synced_copy_is_never_scaled_away() -> None:
    database = whole_database(replace(WANTED, replicas=2))
    database.world.cut.add(frozenset(("db-0-0", "db-0-1")))
    database.advance(0.3)
    database.apply_spec(replace(WANTED, replicas=1))
    assert not steps_of(database, ScaleWorkload)
    assert any("has no replication link" in reason for reason in database.plan().blocked)


# Rolling


def test_a_roll_takes_replicas_first_and_hands_over_before_each_primary() -> None:
    """CL-18"""
    database = whole_database()
    database.apply_spec(WANTED, revision="2")
    history: list[str] = []
    for _ in range(80):
        advice = database.plan()
        if advice.settled:
            break
        for step in advice.steps:
            if isinstance(step, DeletePod):
                owner = database.world.servers[step.pod]
                assert not owner.slots, "a primary with slots was deleted"
                assert step.expect_role is Role.REPLICA
                history.append(step.pod)
            if isinstance(step, Failover):
                assert step.mode is FailoverMode.PLAIN
                history.append(f"switch {step.primary_pod}")
        away = [s for s in range(3) for o in range(2) if f"db-{s}-{o}" not in database.pod_names]
        assert len(away) <= 1
        carry_out(database)
        database.advance(0.5)
    assert database.plan().settled
    assert [h for h in history if h.startswith("switch")] == [f"switch db-{i}-0" for i in range(3)]
    assert sorted(h for h in history if not h.startswith("switch")) == sorted(
        f"db-{s}-{o}" for s in range(3) for o in range(2)
    )
    for shard in range(3):
        assert history.index(f"switch db-{shard}-0") < history.index(f"db-{shard}-0")
    assert_serves_all(database)


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [True, False], ids=["on volumes", "in memory"])
def test_a_shard_that_has_no_slots_yet_is_rolled_without_a_promotion(persistent: bool) -> None:
    """Redis promotes nobody over a primary without slots, and slots wait until all are alike."""
    database = whole_database(replace(WANTED, persistent=persistent))
    for server in database.servers:
        server.engine, server.version = "redis", "7.0.15"
    four = replace(database.wanted, shards=4, engine="redis")
    database.apply_spec(four, revision="1")
    while database.plan().rule != "rebalance":
        database.reconcile(patience=1)
    for server in database.servers:
        server.engine, server.version = "redis", "7.0.15"
    database.apply_spec(four, revision="2")
    for _ in range(60):
        for step in database.plan().steps:
            assert not (isinstance(step, Failover) and step.node.pod.startswith("db-3"))
        database.reconcile(patience=1)
    assert database.plan().settled, database.plan()
    assert {pod.revision for pod in database.pods} == {"2"}
    assert database.server(3, 0).slots or database.server(3, 1).slots
    assert_serves_all(database)


def test_a_roll_stops_at_the_first_pod_that_does_not_come_up_and_a_revert_recovers() -> None:
    """IN-07"""
    database = whole_database()
    database.image_works = False
    database.apply_spec(WANTED, revision="2")
    advice = database.reconcile(patience=20)
    broken = [pod.name for pod in database.pods if pod.revision == "2"]
    assert broken == ["db-0-1"]
    assert any("db-0-1 does not start: ImagePullBackOff" in r for r in advice.blocked)
    assert_serves_all(database)
    database.image_works = True
    database.apply_spec(WANTED, revision="1")
    assert database.reconcile(patience=40).settled
    assert {pod.revision for pod in database.pods} == {"1"}
    assert_serves_all(database)


def test_an_old_pod_that_crashes_while_a_roll_has_stopped_is_not_recreated() -> None:
    """IN-07: it comes back as it was; recreated, it would be as broken as the first."""
    database = whole_database()
    database.image_works = False
    database.apply_spec(WANTED, revision="2")
    database.reconcile(patience=20)
    database.world.kill("db-1-1")
    database.advance(0.1)
    assert "db-1-1" in {node.pod.name for node in database.observe().unreachable}
    assert not any(isinstance(step, DeletePod) for step in database.plan().steps)
    database.world.start("db-1-1")
    database.reconcile(patience=20)
    assert [pod.name for pod in database.pods if pod.revision == "2"] == ["db-0-1"]
    assert_serves_all(database)


def test_a_roll_waits_for_a_pod_that_nobody_has_recreated_yet() -> None:
    """I8"""
    database = whole_database()
    database.apply_spec(WANTED, revision="2")
    database.frozen = True
    for _ in range(10):
        carry_out(database)
        database.advance(0.5)
    assert len(database.pods) == 5


def test_a_roll_waits_for_real_sync() -> None:
    """ST-05"""
    database = whole_database()
    database.world.sync_seconds = 1000.0
    database.server(0, 1).replication_id = "lost its history"
    database.advance(1.0)
    database.apply_spec(WANTED, revision="2")
    for _ in range(10):
        advice = database.plan()
        assert not any(isinstance(s, Failover) and s.primary_pod == "db-0-0" for s in advice.steps)
        assert not any(isinstance(s, DeletePod) for s in advice.steps)
        database.advance(0.5)
    assert any("full sync" in reason for reason in advice.blocked)


def test_a_database_without_copies_is_not_rolled_unless_loss_is_accepted() -> None:
    bare = replace(WANTED, replicas=0, persistent=False)
    database = whole_database(bare)
    database.apply_spec(bare, revision="2")
    advice = database.plan()
    assert not advice.steps
    assert any("accept-data-loss=restart" in reason for reason in advice.blocked)


def test_primaries_without_replicas_are_restarted_one_by_one_when_they_have_storage() -> None:
    single = replace(WANTED, replicas=0)
    database = whole_database(single)
    database.apply_spec(single, revision="2")
    (step,) = steps_of(database, DeletePod)
    assert step.expect_role is Role.PRIMARY
    assert database.reconcile(patience=60).settled
    assert_serves_all(database)


def test_two_shards_are_rolled_at_a_time_when_the_spec_says_so() -> None:
    database = whole_database(replace(WANTED, rolling_shards=2))
    database.apply_spec(database.wanted, revision="2")
    assert len(steps_of(database, DeletePod)) == 2
    assert database.reconcile(patience=60).settled


def test_a_paused_update_rolls_nothing_and_still_heals() -> None:
    database = whole_database(replace(WANTED, update_paused=True))
    database.apply_spec(database.wanted, revision="2")
    assert not database.plan().steps
    database.world.kill("db-0-0")
    assert steps_of(database, Failover)


def test_a_second_failover_to_the_same_node_waits_on_redis() -> None:
    """The stale election: I6"""
    database = whole_database()
    for server in database.servers:
        server.engine, server.version = "redis", "7.0.15"
    database.wanted = replace(WANTED, switchover=Switchover(pod="db-0-1"))
    seen = database.observe()
    node = NodeId(database.server(0, 1).id)
    recent = Election(node=node, at=database.world.now - 3.0)
    advice = plan(database.wanted, replace(seen, elections=(recent,)), database.world.now)
    assert not any(isinstance(step, Failover) for step in advice.steps)
    assert any("must wait 5.0 s after the last election" in r for r in advice.blocked)
    old = Election(node=node, at=database.world.now - 9.0)
    advice = plan(database.wanted, replace(seen, elections=(old,)), database.world.now)
    assert any(isinstance(step, Failover) for step in advice.steps)


def test_a_slot_that_changes_hands_right_now_is_not_lost() -> None:
    """Servers are asked one by one: the source has let go, the target had not taken yet."""
    database = whole_database()
    giver, taker = database.server(0, 0), database.server(1, 0)
    free = next(s for s in giver.slots if not giver.keys.get(s))
    for server in database.servers:
        for record in server.table.values():
            record.slots &= ~(1 << free)
    database.plan()
    observed = database.observe()
    assert plan(database.wanted, observed, database.world.now).losses
    moving = Moving(source=NodeId(giver.id), target=NodeId(taker.id), slots=SlotSet([free]))
    advice = plan(database.wanted, knowing(observed, moving=(moving,)), database.world.now)
    assert not advice.losses
    assert not any(isinstance(step, AssignSlots) for step in advice.steps)


# Switching


def test_a_person_may_choose_the_primary() -> None:
    database = whole_database()
    database.wanted = replace(WANTED, switchover=Switchover(pod="db-1-1"))
    (step,) = steps_of(database, Failover)
    assert step.mode is FailoverMode.PLAIN
    assert not database.execute(step)
    assert database.server(1, 1).slots
    assert database.reconcile().settled
    assert_serves_all(database)


def test_a_primary_on_a_drained_machine_hands_over() -> None:
    """CL-19"""
    database = whole_database()
    place = database._places[2, 0]
    assert place.pod is not None
    place.pod = replace(place.pod, draining=True)
    (step,) = steps_of(database, Failover)
    assert step.node.pod == "db-2-1"


def test_primaries_crowded_in_one_zone_are_spread_slowly() -> None:
    database = whole_database(replace(WANTED, spread_primaries=True))
    for (shard, ordinal), place in database._places.items():
        assert place.pod is not None
        zone = "a" if ordinal == 0 else "bc"[shard % 2]
        place.pod = replace(place.pod, zone=zone)
    assert not steps_of(database, Failover), "it has only just been created"
    database.advance(61.0)
    (step,) = steps_of(database, Failover)
    assert not database.execute(step)
    database.advance(2.0)
    assert not steps_of(database, Failover)
    for _ in range(3):
        database.advance(61.0)
        carry_out(database)
    zones = sorted(p.zone for p in database.pods if database.world.servers[p.name].slots)
    assert zones == ["a", "b", "c"]


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 2])
def test_writes_acknowledged_during_every_change_survive(replicas: int) -> None:
    shape = replace(WANTED, replicas=replicas)
    database = whole_database(shape)
    numbers = itertools.count()

    def write(_: Effect) -> None:
        number = next(numbers)
        database.world.write("db", f"w{number % 500}", str(number))

    database.operator.journal.told.append(write)
    for change in (
        lambda: database.apply_spec(database.wanted, revision="2"),
        lambda: database.apply_spec(replace(database.wanted, shards=4)),
        lambda: database.apply_spec(replace(database.wanted, shards=3)),
    ):
        change()
        for _ in range(60):
            advice = database.plan()
            if advice.settled:
                break
            database.carry_out(advice)
            database.advance(0.5)
        assert database.plan().settled
    world = database.world
    wrong = [k for (_, k), v in world.acknowledged.items() if world.read("db", k) != v]
    assert not wrong
