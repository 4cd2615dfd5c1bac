"""What people are told: whole, in a fixed order, each change once."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from planning.cluster.test_rules_heal import WANTED, new_database, whole_database
from planning.cluster.test_rules_slots import told_everybody_but_its_replica
from planning.moments import knowing
from redis_operator.api.status import Binding, Phase, RedisStatus, ShardStatus
from redis_operator.planning import advice
from redis_operator.planning.advice import Plan
from redis_operator.planning.cluster.actions import InheritSlots
from redis_operator.planning.plan import plan
from redis_operator.planning.reporting.announcements import announcements
from redis_operator.planning.reporting.context import Context
from redis_operator.planning.reporting.inventory import memory
from redis_operator.planning.reporting.status import refused, status
from redis_operator.redis.slots import NO_SLOTS, SlotSet
from redis_testing.cluster.database import SimulatedDatabase
from support.situations import but


def told(
    database: SimulatedDatabase, previous: RedisStatus | None = None, *, unseen: str = ""
) -> RedisStatus:
    context = Context(
        unseen=unseen,
        previous=previous or RedisStatus(),
        generation=3,
        now="2030-01-01T00:00:00Z",
        binding="db-conn",
    )
    observed = database.observe()
    return status(database.wanted, observed, database.plan(), context)


def condition(found: RedisStatus, kind: str) -> tuple[str, str]:
    return next((c.status, c.reason) for c in found.conditions if c.type == kind)


def message(found: RedisStatus, kind: str) -> str:
    return next(c.message for c in found.conditions if c.type == kind)


def test_a_whole_database_is_ready_and_tells_its_shards() -> None:
    database = whole_database()
    found = told(database)
    assert found.phase is Phase.READY
    assert condition(found, "Ready") == ("True", "Reconciled")
    assert [c.type for c in found.conditions] == [
        "Ready",
        "Available",
        "Progressing",
        "Degraded",
        "ConfigApplied",
        "AuthApplied",
        "Paused",
        "Hibernated",
        "VersionSupported",
    ]
    assert [s.slots for s in found.shards] == ["0-5460", "5461-10921", "10922-16383"]
    assert [s.primary for s in found.shards] == ["db-0-0", "db-1-0", "db-2-0"]
    assert found.observed_generation == 3
    assert found.slots == "16384/16384"


def test_a_database_that_is_not_formed_yet_is_creating_and_not_degraded() -> None:
    found = told(new_database())
    assert found.phase is Phase.CREATING
    assert condition(found, "Degraded")[0] == "False"
    assert condition(found, "Ready")[0] == "False"
    assert found.binding is None


def test_a_dead_primary_is_degraded_and_named() -> None:
    database = whole_database()
    before = told(database)
    database.world.kill("db-0-0")
    found = told(database, before)
    assert found.phase is Phase.DEGRADED
    assert condition(found, "Degraded") == ("True", "Unreachable")
    assert any("db-0-0 is dead" in line for line in found.plan)


def test_whose_data_a_shard_holds_is_told_until_nothing_is_a_dead_owners_any_more() -> None:
    """An operator that restarts learns from it who was promoted over whom. CL-06"""
    database = whole_database(replace(WANTED, persistent=False))
    before = told(database)
    chosen, dead = database.server(1, 1), database.server(1, 0).id
    assert before.shards[1].node_id == dead
    assert before.shards[1].replication_id == database.server(1, 0).replication_id
    slot, _ = told_everybody_but_its_replica(database)
    database.remove_pod(1, 0, comes_back_after=2.0)
    while database.plan().rule != "inherit":
        database.reconcile(patience=1)
        before = told(database, before)
    assert (before.shards[1].primary, before.shards[1].node_id) == ("db-1-1", dead)
    histories = tuple((s.node_id, s.replication_id) for s in before.shards)
    fresh = knowing(replace(database.observe(), elections=()), histories=histories)
    (step,) = plan(database.wanted, fresh, database.world.now).steps
    assert isinstance(step, InheritSlots)
    assert (step.node.id, step.slots) == (chosen.id, SlotSet([slot]))
    database.reconcile()
    assert told(database, before).shards[1].node_id == chosen.id


def test_lost_data_is_told_by_its_slots_until_somebody_decides() -> None:
    wanted = replace(WANTED, persistent=False)
    database = whole_database(wanted)
    for ordinal in (0, 1):
        database.remove_pod(1, ordinal, comes_back_after=0.2)
    database.reconcile(patience=25)
    found = told(database)
    assert condition(found, "Degraded") == ("True", "DataLost")
    assert any(line.startswith("lost: slots 5461-10921") for line in found.plan)
    assert found.phase is Phase.FAILED


def test_a_roll_is_updating_from_its_beginning_to_its_end() -> None:
    database = whole_database()
    database.apply_spec(WANTED, revision="2")
    phases = []
    for _ in range(60):
        found = told(database)
        if found.phase is Phase.READY:
            break
        phases.append(found.phase)
        database.carry_out(database.plan())
        database.advance(0.5)
    assert found.phase is Phase.READY
    changes = [a for a, b in itertools.pairwise(phases) if a is not b]
    assert len(changes) <= 1, phases
    assert phases.count(Phase.UPDATING) > 10


def test_nothing_that_moves_all_the_time_is_told_exactly() -> None:
    database = whole_database()
    before = told(database)
    database.world.write("db", "k", "v")
    assert told(database, before) == told(database, before)
    assert replace(told(database, before), memory="") == replace(
        told(database, told(database, before)), memory=""
    )


def test_objects_that_were_just_written_are_not_observed_yet_and_nothing_is_wrong() -> None:
    database = whole_database()
    found = told(database, told(database), unseen="pods have not been observed since")
    assert condition(found, "Ready")[0] == "False"
    assert condition(found, "Degraded")[0] == "False"
    assert found.phase is Phase.UPDATING


@pytest.mark.parametrize(
    ("reported", "used", "expected"),
    [
        ("", 2_900_000, "2.8Mi"),
        ("2.8Mi", 3_600_000, "2.8Mi"),  # buffers of a client
        ("2.8Mi", 4_000_000, "3.8Mi"),
        ("100Mi", 114_000_000, "100Mi"),
        ("100Mi", 118_000_000, "105Mi"),
    ],
)
def test_memory_is_reported_again_when_it_has_really_changed(
    reported: str, used: int, expected: str
) -> None:
    assert memory(used, reported) == expected


def test_each_change_is_announced_once() -> None:
    database = whole_database()
    before = told(database)
    assert announcements(before, before) == ()
    database.world.kill("db-0-0")
    after = told(database, before)
    news = announcements(before, after)
    assert {n.reason for n in news if n.warning} >= {"Unreachable"}
    assert announcements(after, told(database, after)) == ()


def test_a_new_primary_is_news() -> None:
    database = whole_database()
    before = told(database)
    database.world.kill("db-0-0")
    database.carry_out(database.plan())
    database.advance(0.5)
    after = told(database, before)
    assert "PrimaryChanged" in {n.reason for n in announcements(before, after)}
    assert after.shards[0].last_failover_time == "2030-01-01T00:00:00Z"


def test_a_primary_of_a_database_without_shards_is_announced_without_one() -> None:
    before = RedisStatus(
        binding=Binding("db-conn"), shards=(ShardStatus(name="server-0", primary="db-0"),)
    )
    after = replace(before, shards=(ShardStatus(name="server-0", primary="db-1"),))
    (news,) = announcements(before, after)
    assert news.message == "db-1 is the primary now, before it was db-0"


def test_a_repair_after_a_crash_is_told_once_and_is_never_called_ready() -> None:
    database = whole_database(replace(WANTED, persistent=False, volatile=True))
    before = told(database)
    database.world.kill("db-0-0")
    reasons: set[str] = set()
    for moment in range(60):
        if moment == 8:
            database.world.start("db-0-0")
        after = told(database, before)
        for found in after.conditions:
            parts = found.message.split("; ")
            assert len(parts) == len(set(parts)), found
            assert sum("connection refused" in part for part in parts) <= 1, found
            if (found.type, found.status) == ("Progressing", "True"):
                reasons.add(found.reason)
        before = after
        for stage in database.plan().stages:
            for step in stage:
                database.execute(step)
        database.advance(0.25)
    assert before.phase is Phase.READY
    assert "Healing" in reasons
    assert "Ready" not in reasons


def test_servers_that_cannot_be_observed_are_not_reported_as_serving() -> None:
    database = whole_database()
    before = told(database)
    context = Context(previous=before, generation=4, now="2030-01-01T00:01:00Z")
    after = refused(context, "SecretLost", ["no Secret has the passwords"])
    assert after.shards == before.shards
    assert after.phase is Phase.DEGRADED
    assert condition(after, "Ready") == ("False", "SecretLost")
    assert condition(after, "Available") == ("Unknown", "NotObserved")
    assert condition(after, "Degraded") == ("True", "SecretLost")
    assert [c.type for c in after.conditions] == [c.type for c in before.conditions]
    assert after.message == "no Secret has the passwords"
    assert after == refused(replace(context, previous=after), "SecretLost", [after.message])


def test_a_new_database_whose_spec_cannot_be_used_has_failed() -> None:
    context = Context(previous=RedisStatus(), generation=1, now="2030-01-01T00:01:00Z")
    after = refused(context, "InvalidSpec", ["spec.shards: too few"])
    assert after.phase is Phase.FAILED
    assert [(c.type, c.reason) for c in after.conditions] == [("Ready", "InvalidSpec")]


def test_a_thousand_reasons_are_told_in_bounded_words() -> None:
    database = whole_database()
    reasons = tuple(f"db-{number}-0 does not respond" for number in range(1000))
    trouble = Plan(rule="connect", blocked=reasons, phase=advice.PlanPhase.HEALING)
    context = Context(previous=RedisStatus(), generation=1, now="2030-01-01T00:00:00Z")
    found = status(database.wanted, database.observe(), trouble, context)
    assert condition(found, "Degraded") == ("True", "Blocked")
    assert max(len(c.message) for c in found.conditions) in range(1000, 2100)
    assert len(found.message) < 2100
    assert len(found.plan) == 50


def test_pods_that_have_no_place_any_more_are_not_told_of_while_they_end() -> None:
    database = whole_database(replace(WANTED, shards=4, replicas=1))
    observed = database.observe()
    context = Context(previous=told(database), generation=4, now="2030-01-01T00:00:00Z")
    three = replace(WANTED, shards=3, replicas=1)
    last = [node for node in observed.seen if node.pod.shard == 3]
    ending = {
        node.id: but(node, pod=replace(node.pod, deleting=True), slots=NO_SLOTS) for node in last
    }
    gone = replace(observed, nodes=tuple(ending.get(n.id, n) for n in observed.seen))
    found = status(three, gone, Plan(), context)
    assert [s.name for s in found.shards] == ["shard-0", "shard-1", "shard-2"]
    assert found.ready == "6/6"
    assert len(status(three, observed, Plan(), context).shards) == 4


def test_pods_that_no_workload_wants_any_more_are_not_told_of_though_nobody_ended_them_yet() -> (
    None
):
    database = whole_database(replace(WANTED, shards=4, replicas=1))
    observed = database.observe()
    context = Context(previous=told(database), generation=4, now="2030-01-01T00:00:00Z")
    three = replace(WANTED, shards=3, replicas=1)
    empty = tuple(
        but(node, slots=NO_SLOTS) if node.pod.shard == 3 else node for node in observed.seen
    )
    drained = replace(observed, nodes=empty)
    assert len(status(three, drained, Plan(), context).shards) == 4
    unwanted = replace(drained, workloads=tuple(w for w in observed.workloads if w.shard < 3))
    found = status(three, unwanted, Plan(), context)
    assert [s.name for s in found.shards] == ["shard-0", "shard-1", "shard-2"]
    assert found.ready == "6/6"


def test_a_paused_database_is_reported_as_it_is() -> None:
    """`spec.paused` holds back actions, not reports."""
    database = whole_database(replace(WANTED, paused=True))
    assert condition(told(database), "Ready") == ("True", "Reconciled")
    for shard in range(3):
        database.world.kill(f"db-{shard}-1")
    found = told(database)
    assert not database.plan().stages
    assert condition(found, "Degraded") == ("True", "Unreachable")
    assert condition(found, "Ready")[0] == "False"
    database.world.kill("db-0-0")
    found = told(database)
    assert condition(found, "Available") == ("False", "NotServing")
    assert any("spec.paused is set" in line for line in found.plan)


def test_a_paused_database_says_what_it_would_do() -> None:
    database = whole_database()
    database.apply_spec(replace(WANTED, paused=True), revision="2")
    found = told(database)
    assert not database.plan().stages
    assert condition(found, "Ready") == ("False", "Paused")
    assert "pods are of an old revision" in found.message


@pytest.mark.parametrize("held", [{"paused": True, "unwritten": "x"}, {"update_paused": True}])
def test_settings_that_need_a_restart_are_not_said_to_be_in_place(held: dict[str, Any]) -> None:
    database = whole_database()
    assert message(told(database), "ConfigApplied") == "every server has the settings of the spec"
    database.apply_spec(replace(WANTED, **held), revision="2")
    found = message(told(database), "ConfigApplied")
    assert found.startswith("every server has the settings of the spec that need no restart;")


def test_a_normal_creation_warns_of_nothing_and_no_event_is_empty() -> None:
    database = new_database()
    before, news = RedisStatus(), []
    for _ in range(40):
        observed = replace(database.observe(), formed=before.binding is not None)
        advised = plan(WANTED, observed, database.world.now)
        now = datetime.fromtimestamp(database.world.now, UTC).isoformat()
        context = Context(previous=before, generation=1, now=now, binding="c")
        after = status(WANTED, observed, advised, context)
        news += announcements(before, after)
        before = after
        for stage in advised.stages:
            for action in stage:
                database.execute(action)
        database.advance(0.25)
    assert before.phase is Phase.READY
    assert [n for n in news if n.warning] == []
    assert all(n.reason and n.message for n in news), news
    assert {n.reason for n in news} >= {"Reconciled", "AllSlotsServed"}
