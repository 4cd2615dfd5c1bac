"""What ails a database is told with numbers and what to do, and broken files cost no data."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from planning.cluster.test_rules_heal import WANTED, assert_serves_all, whole_database
from planning.trials import drawn, with_broken_files
from redis_operator.api.status import Phase, RedisStatus
from redis_operator.planning.actions import DeletePod, DiscardData
from redis_operator.planning.advice import Plan
from redis_operator.planning.at import at
from redis_operator.planning.cluster.actions import Failover
from redis_operator.planning.cluster.guards import GUARDS
from redis_operator.planning.cluster.settled import unsettled_shard
from redis_operator.planning.cluster.topology import ClusterTopology
from redis_operator.planning.guards import breaches
from redis_operator.planning.observed import Evidence, Observed, Seen, Unreachable
from redis_operator.planning.plan import plan
from redis_operator.planning.reporting.context import Context
from redis_operator.planning.reporting.degradations import OOM_SECONDS
from redis_operator.planning.reporting.status import status
from redis_testing.cluster.database import SimulatedDatabase

MIB = 2**20
NOW = 1_000_000.0
DEGRADED = "Degraded"


def told(
    database: SimulatedDatabase, observed: Observed, *, now: float = NOW, before: Any = None
) -> tuple[str, str, str]:
    """Return status, reason and message of the condition Degraded."""
    moment = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    context = Context(previous=before or RedisStatus(), generation=1, now=moment)
    found = status(database.wanted, observed, plan(database.wanted, observed, now), context)
    (condition,) = [c for c in found.conditions if c.type == DEGRADED]
    return condition.status, condition.reason, condition.message


def with_pod(observed: Observed, name: str, **changes: Any) -> Observed:
    nodes = tuple(
        replace(node, pod=replace(node.pod, **changes)) if node.pod.name == name else node
        for node in observed.nodes
    )
    return replace(observed, nodes=nodes)


def with_node(observed: Observed, name: str, **changes: Any) -> Observed:
    nodes = tuple(
        replace(node, **changes) if node.pod.name == name else node for node in observed.nodes
    )
    return replace(observed, nodes=nodes)


# ST-09


def test_a_server_killed_for_memory_is_told_with_numbers_for_ten_minutes() -> None:
    database = whole_database()
    killed = {"killed_for_memory_at": NOW - 5, "memory_limit": 256 * MIB, "restarts": 4}
    observed = with_pod(database.observe(), "db-0-1", **killed)
    observed = with_node(observed, "db-0-1", used_memory=90 * MIB, max_memory=100 * MIB)
    state, reason, message = told(database, observed)
    assert (state, reason) == ("True", "OutOfMemory")
    for part in ("db-0-1", "256Mi", "4 restarts", "90%", "100Mi", "spec.resources.limits.memory"):
        assert part in message
    assert told(database, observed, now=NOW + OOM_SECONDS)[0] == "False"


def test_a_roll_does_not_go_on_when_its_first_new_pod_is_killed_for_memory() -> None:
    database = whole_database()
    database.apply_spec(database.wanted, revision="2")
    database.advance(5)
    (step,) = [s for s in database.plan().steps if isinstance(s, DeletePod)]
    assert not database.execute(step)
    database.advance(30)
    assert any(isinstance(s, DeletePod) for s in database.plan().steps)
    now = database.world.now
    killed = {"killed_for_memory_at": now - 5, "memory_limit": 256 * MIB, "restarts": 2}
    advice = plan(database.wanted, with_pod(database.observe(), step.pod, **killed), now)
    assert not any(isinstance(s, DeletePod) for s in advice.steps)
    assert any("memory limit of 256Mi" in reason for reason in advice.blocked)


def test_servers_that_all_lack_memory_are_not_hurried_from_one_to_the_other() -> None:
    database = whole_database()
    database.world.kill("db-0-0")
    now = database.world.now
    assert plan(database.wanted, database.observe(), now).rule == "assist"
    killed = with_pod(database.observe(), "db-0-1", killed_for_memory_at=now - 5, restarts=2)
    advice = plan(database.wanted, killed, now)
    assert not any(isinstance(step, Failover) for step in advice.steps)
    assert any("db-0-1 was killed repeatedly" in reason for reason in advice.blocked)
    later = plan(database.wanted, killed, now + 61)
    assert any(isinstance(step, Failover) for step in later.steps)


def test_pods_killed_for_memory_do_not_stop_the_roll_that_gives_them_more() -> None:
    database = whole_database()
    database.apply_spec(database.wanted, revision="2")
    database.advance(5)
    now = database.world.now
    observed = with_pod(database.observe(), "db-0-1", killed_for_memory_at=now - 5)
    advice = plan(database.wanted, observed, now)
    assert any(isinstance(s, DeletePod) for s in advice.steps)


def test_memory_that_is_full_is_told_until_there_is_room_again() -> None:
    database = whole_database()

    def at_use(used: int, before: RedisStatus | None = None) -> tuple[str, str, str]:
        observed = with_node(
            database.observe(),
            "db-1-0",
            used_memory=used * MIB,
            max_memory=100 * MIB,
            config=(("cluster-node-timeout", "2000"), ("maxmemory-policy", "noeviction")),
        )
        return told(database, observed, before=before)

    assert at_use(96)[0] == "False"
    state, reason, message = at_use(99)
    assert (state, reason) == ("True", "MemoryFull")
    assert "db-1-0" in message
    assert "100Mi" in message
    assert message == at_use(100)[2], "what changes all the time is not told exactly"
    full = _said("MemoryFull")
    assert at_use(96, full)[1] == "MemoryFull", "it hovers around the limit"
    assert at_use(94, full)[0] == "False"


def _said(reason: str) -> RedisStatus:
    database = whole_database()
    context = Context(previous=RedisStatus(), generation=1, now="2030-01-01T00:00:00Z")
    found = status(database.wanted, database.observe(), Plan(), context)
    conditions = tuple(
        replace(c, status="True", reason=reason) if c.type == DEGRADED else c
        for c in found.conditions
    )
    return replace(found, conditions=conditions)


# ST-06


@pytest.mark.parametrize(("syncing", "seconds"), [(False, 60), (True, 600)])
def test_a_replica_that_never_gets_in_sync_is_told_with_what_to_raise(
    syncing: bool, seconds: int
) -> None:
    database = whole_database()

    def after(span: float) -> tuple[str, str, str]:
        observed = database.observe()
        replica = next(n for n in observed.seen if n.pod.name == "db-0-1")
        link = replace(
            replica.replication, link_up=False, syncing=syncing, down_seconds=float(span)
        )
        return told(database, with_node(observed, "db-0-1", replication=link))

    assert after(seconds - 1)[1] != "ReplicaOutOfSync"
    state, reason, message = after(seconds + 1)
    assert (state, reason) == ("True", "ReplicaOutOfSync")
    for part in ("db-0-1", "db-0-0", "repl-backlog-size", "client-output-buffer-limit"):
        assert part in message


# K-14


def test_pods_that_may_not_be_made_are_told_with_the_reason_also_before_it_is_formed() -> None:
    database = whole_database()
    why = 'pods "db-0-2" is forbidden: exceeded quota: q, requested: pods=1'
    observed = database.observe()
    workloads = tuple(
        replace(w, pods=3, trouble=why) if w.shard == 0 else w for w in observed.workloads
    )
    refused = replace(observed, workloads=workloads)
    state, reason, message = told(database, refused)
    assert (state, reason) == ("True", "PodsRefused")
    assert why in message
    assert told(database, replace(refused, formed=False))[1] == "PodsRefused"
    wanted = replace(database.wanted, replicas=2)
    assert (
        unsettled_shard(ClusterTopology(wanted, refused, NOW), 0)
        == f"db-0-2 does not exist yet: {why}"
    )


def test_a_change_whose_pod_may_not_be_recreated_is_not_under_way_any_more() -> None:
    database = whole_database()
    observed = database.observe()
    nodes = tuple(node for node in observed.nodes if node.pod.name != "db-0-1")
    why = 'pods "db-0-1" is forbidden: exceeded quota: q, requested: pods=1'
    workloads = tuple(replace(w, trouble=why) if w.shard == 0 else w for w in observed.workloads)
    missing = replace(observed, nodes=nodes, workloads=workloads)
    before = RedisStatus(phase=Phase.UPDATING)
    context = Context(previous=before, generation=1, now="2030-01-01T00:00:00Z")
    found = status(database.wanted, missing, plan(database.wanted, missing, NOW), context)
    assert found.phase is Phase.DEGRADED
    assert next(c.reason for c in found.conditions if c.type == "Ready") == "PodsRefused"


def test_servers_of_a_new_database_that_do_not_start_are_named_and_recreated_when_corrected() -> (
    None
):
    """IN-27: a value that only the server itself refuses."""
    database = whole_database()
    observed = replace(database.observe(), formed=False)
    waiting = "CrashLoopBackOff (container server), which ended with: 'rdma-rx-size 1': too small"
    nodes = tuple(
        Unreachable(replace(node.pod, waiting=waiting), "nobody listens", 0.0, Evidence.TERMINATED)
        for node in observed.nodes
    )
    failing = replace(observed, nodes=nodes)
    state, reason, message = told(database, failing)
    assert (state, reason) == ("True", "StartFailed")
    assert "rdma-rx-size 1" in message
    assert not plan(database.wanted, failing, NOW).stages, "they are as the spec asks"
    workloads = tuple(replace(w, revision="corrected") for w in failing.workloads)
    corrected = plan(database.wanted, replace(failing, workloads=workloads), NOW)
    assert {step.pod for step in corrected.steps} == {"db-0-0", "db-1-0", "db-2-0"}  # I8
    assert all(isinstance(step, DeletePod) for step in corrected.steps)


# ST-07


def test_a_replica_that_cannot_load_its_files_copies_its_primary_again() -> None:
    database = whole_database()
    database.corrupt(0, 1)
    assert database.plan().rule == "replace_data"
    assert told(database, database.observe())[1] == "CorruptData"
    assert database.reconcile().settled
    assert_serves_all(database)
    assert database.server(0, 1).key_count == database.server(0, 0).key_count > 0
    assert database.broken == set()


def test_a_primary_that_cannot_load_its_files_is_replaced_and_then_copies_its_successor() -> None:
    database = whole_database()
    database.corrupt(0, 0)
    assert database.plan().rule == "assist"
    assert database.reconcile().settled
    assert_serves_all(database)
    assert database.server(0, 1).is_primary
    assert not database.server(0, 0).is_primary
    assert database.server(0, 0).key_count == database.server(0, 1).key_count > 0


def test_files_that_may_be_the_last_copy_are_never_touched() -> None:
    database = whole_database()
    database.corrupt(0, 0)
    database.corrupt(0, 1)
    for _ in range(20):
        advice = database.plan()
        assert not any(isinstance(step, DiscardData) for step in advice.steps)
        assert any("keeps them" in reason for reason in advice.blocked)
        database.advance(1)
    assert database.broken == {"db-0-0", "db-0-1"}
    assert told(database, database.observe())[1] == "CorruptData"
    assert database.server(0, 0).key_count > 0


def test_without_replicas_a_primary_keeps_its_files_and_it_is_told_what_to_do() -> None:
    database = whole_database(replace(WANTED, replicas=0))
    database.corrupt(1, 0)
    advice = database.reconcile(patience=5)
    assert not advice.stages
    _, reason, message = told(database, database.observe())
    assert reason == "CorruptData"
    assert "repair" in message
    assert database.broken == {"db-1-0"}


def test_files_are_kept_while_the_primary_holds_nothing_or_they_failed_only_once() -> None:
    database = whole_database()
    database.corrupt(0, 1)
    observed = database.observe()
    once = with_pod(observed, "db-0-1", restarts=1)
    empty = with_node(observed, "db-0-0", keys=0)
    for seen in (once, empty):
        advice = plan(database.wanted, seen, database.world.now)
        assert not any(isinstance(step, DiscardData) for step in advice.steps)


def test_the_guard_refuses_to_discard_what_may_be_needed() -> None:
    """The invariants alone, whatever a rule says."""
    database = whole_database()
    database.corrupt(0, 1)
    observed = database.observe()
    by_name = {node.pod.name: node for node in observed.nodes}
    leader, other, replica = (by_name[f"db-{s}-{o}"] for s, o in ((0, 0), (1, 0), (1, 1)))
    broken = by_name["db-0-1"].pod
    assert all(isinstance(node, Seen) for node in (leader, other, replica))

    def broken_by(step: DiscardData, seen: Observed = observed) -> tuple[str, ...]:
        situation = ClusterTopology(database.wanted, seen, database.world.now)
        return breaches(situation, Plan(stages=((step,),)), GUARDS)

    good = DiscardData(pod=broken.name, uid=broken.uid, data_holder=at(leader))
    assert broken_by(good) == ()
    assert broken_by(replace(good, data_holder=at(other)))
    assert broken_by(replace(good, data_holder=at(replica)))
    assert broken_by(replace(good, uid=replica.pod.uid, pod=replica.pod.name))
    assert broken_by(good, with_node(observed, "db-0-0", keys=0))
    without = tuple(node for node in observed.nodes if node.pod.name != "db-2-0")
    assert broken_by(good, replace(observed, nodes=without))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_broken_files_among_other_trouble_interrupted_anywhere_cost_no_key(part: int) -> None:
    for trial in drawn(with_broken_files, part, 10):
        trial.run()
        if trial.database.broken:
            # Slots have no owner, or another's: the files may be needed, and a person must decide.
            assert trial.verdict.startswith("it never settled"), trial.explain()
            assert any("keeps them" in r or "no owner" in r for r in trial.last.blocked)
        else:
            assert not trial.verdict, trial.explain()
