"""The one server of mode Standalone: what is planned for it, and what is told of it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from redis_operator.api.redis import Mode
from redis_operator.api.status import Phase, RedisStatus, ShardStatus
from redis_operator.planning.actions import (
    ConfigSet,
    DeletePod,
    GrowVolume,
    ScaleWorkload,
)
from redis_operator.planning.advice import Plan, Wanted
from redis_operator.planning.failover.actions import Promote
from redis_operator.planning.guards import breaches
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.modes import situation
from redis_operator.planning.observed import (
    Evidence,
    Observed,
    Pod,
    Replication,
    Seen,
    Unreachable,
    Volume,
    Workload,
)
from redis_operator.planning.plan import plan
from redis_operator.planning.reporting.context import Context
from redis_operator.planning.reporting.status import status
from redis_operator.planning.standalone.guards import GUARDS
from redis_operator.redis.slots import ALL_SLOTS, SlotSet

NOW = 1_000_000.0
WANTED = Wanted(name="db", shards=1, replicas=0, mode=Mode.STANDALONE)
IN_MEMORY = replace(WANTED, persistent=False, volatile=True, start_empty=True)
POD = Pod(name="db-0", uid="u1", shard=0, ordinal=0, ip="10.0.0.1", revision="r1")
SERVER = Seen(
    pod=replace(POD, role_label="primary"),
    id=NodeId("run-1"),
    role=Role.PRIMARY,
    keys=5,
    version="9.1.2",
    started_at=NOW - 100,
)
SILENT = Unreachable(pod=POD, error="no answer", since=NOW - 5)
WORKLOAD = Workload(shard=0, name="db", uid="w1", pods=1, revision="r1")
FORMED = Observed(nodes=(SERVER,), workloads=(WORKLOAD,), formed=True, recorded=((0, "run-1"),))


def steps(wanted: Wanted, observed: Observed) -> tuple[Any, ...]:
    return plan(wanted, observed, NOW).steps


def told(wanted: Wanted, observed: Observed, previous: RedisStatus | None = None) -> RedisStatus:
    context = Context(
        previous=previous or RedisStatus(), generation=1, now="2026-01-01T00:00:00Z", binding="conn"
    )
    return status(wanted, observed, plan(wanted, observed, NOW), context)


def test_workers_that_copy_a_lone_primary_are_not_replicas_that_fall_behind() -> None:
    copied = replace(FORMED, resyncs=((SERVER.id, 9),))
    [degraded] = [c for c in told(WANTED, copied).conditions if c.type == "Degraded"]
    assert (degraded.status, degraded.reason) == ("False", "Healthy")


def condition(found: RedisStatus, kind: str) -> tuple[str, str]:
    return next((c.status, c.reason) for c in found.conditions if c.type == kind)


def test_a_server_that_is_up_needs_nothing() -> None:
    assert plan(WANTED, FORMED, NOW) == Plan()
    found = told(WANTED, FORMED)
    assert (found.phase, found.ready, found.primary) == (Phase.READY, "1/1", "db-0")
    assert condition(found, "Available") == ("True", "Serving")
    assert (found.slots, found.shard_count) == ("", 1)
    assert [(s.name, s.node_id) for s in found.shards] == [("server-0", "run-1")]


def test_a_server_is_labelled_as_primary_once_it_says_so() -> None:
    unlabelled = replace(FORMED, nodes=(replace(SERVER, pod=POD),))
    assert [step.role for step in steps(WANTED, unlabelled)] == [Role.PRIMARY]


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (SILENT, "does not respond"),
        (replace(SERVER, loading=True), "loading"),
        (
            replace(SERVER, role=Role.REPLICA),
            "db --overwrite redisoperator.dev/accept-data-loss=source",
        ),
    ],
    ids=["silent", "loading", "replica"],
)
def test_what_keeps_a_server_from_serving_is_told(node: Any, text: str) -> None:
    found = told(WANTED, replace(FORMED, nodes=(node,)))
    assert found.phase is Phase.DEGRADED
    assert condition(found, "Available") == ("False", "NotServing")
    assert condition(found, "Degraded")[0] == "True"
    assert text in found.message


def test_a_silent_server_is_left_alone() -> None:
    outdated = replace(FORMED, nodes=(SILENT,), workloads=(replace(WORKLOAD, revision="r2"),))
    assert steps(WANTED, outdated) == ()


# Restarts


OLD = replace(FORMED, workloads=(replace(WORKLOAD, revision="r2"),))


def test_a_server_with_a_volume_is_restarted_for_a_new_revision() -> None:
    (step,) = steps(WANTED, OLD)
    assert isinstance(step, DeletePod)
    assert (step.uid, step.expect_id, step.expect_role) == ("u1", "run-1", Role.PRIMARY)


@pytest.mark.parametrize("field", ["saving", "loading"])
def test_a_server_that_saves_or_loads_is_not_restarted(field: str) -> None:
    busy = replace(OLD, nodes=(replace(SERVER, **{field: True}),))
    assert steps(WANTED, busy) == ()


def test_a_server_in_memory_is_restarted_only_when_the_loss_is_accepted() -> None:
    found = plan(IN_MEMORY, OLD, NOW)
    assert found.steps == ()
    assert "loses all data" in found.blocked[0]
    (step,) = steps(replace(IN_MEMORY, restart_may_lose=True), OLD)
    assert isinstance(step, DeletePod)


def test_no_rule_may_end_a_server_that_keeps_its_keys_in_memory() -> None:
    end = DeletePod(pod="db-0", uid="u1", why="")
    sleep = ScaleWorkload(shard=0, uid="w1", from_pods=1, to_pods=0)
    for step in (end, sleep):
        seen = situation(IN_MEMORY, FORMED, NOW)
        found = breaches(seen, Plan(stages=((step,),)), GUARDS)
        assert found
        assert found[0].startswith("I1")
        kept = situation(WANTED, FORMED, NOW)
        assert not breaches(kept, Plan(stages=((step,),)), GUARDS)


def test_a_pod_that_was_not_seen_is_not_deleted() -> None:
    step = DeletePod(pod="db-0", uid="another", why="")
    found = breaches(situation(WANTED, FORMED, NOW), Plan(stages=((step,),)), GUARDS)
    assert found[0].startswith("I2")


# Losses


RESTARTED = replace(FORMED, nodes=(replace(SERVER, id=NodeId("run-2"), keys=0),))


def test_a_restart_in_memory_is_a_loss_that_is_recorded_once() -> None:
    found = told(IN_MEMORY, RESTARTED)
    assert found.last_data_loss is not None
    assert "db-0 was restarted" in found.last_data_loss.reason
    assert found.last_data_loss.action.startswith("StartedEmpty")
    assert found.last_data_loss.slots == ""
    assert condition(found, "Degraded") == ("True", "DataLost")
    after = replace(RESTARTED, recorded=((0, "run-2"),))
    later = told(IN_MEMORY, after, found)
    assert later.phase is Phase.READY
    assert later.last_data_loss == found.last_data_loss


def test_a_restart_from_a_volume_is_no_loss() -> None:
    assert told(WANTED, RESTARTED).last_data_loss is None
    assert told(WANTED, RESTARTED).phase is Phase.READY


def test_the_first_start_is_no_loss() -> None:
    assert told(IN_MEMORY, replace(RESTARTED, recorded=())).last_data_loss is None


MISSING = replace(
    FORMED,
    nodes=(replace(SILENT, pod=replace(POD, data_missing=True), evidence=Evidence.TERMINATED),),
)


def test_files_that_are_gone_are_reported_and_held() -> None:
    assert steps(WANTED, MISSING) == ()
    found = told(WANTED, MISSING)
    assert found.phase is Phase.FAILED
    assert found.last_data_loss is not None
    assert found.last_data_loss.action.startswith("Held")
    assert "accept-data-loss=all" in found.last_data_loss.action


def test_an_accepted_loss_recreates_the_pod() -> None:
    (step,) = steps(replace(WANTED, accepted_loss=ALL_SLOTS), MISSING)
    assert isinstance(step, DeletePod)
    silent = replace(MISSING, nodes=(replace(MISSING.nodes[0], evidence=Evidence.SILENT),))  # type: ignore[call-arg]
    assert steps(replace(WANTED, accepted_loss=ALL_SLOTS), silent) == ()


def test_part_of_the_slots_does_not_accept_the_loss_of_everything() -> None:
    assert steps(replace(WANTED, accepted_loss=SlotSet.parse("0-100")), MISSING) == ()


# Changes


def test_a_setting_is_set_live() -> None:
    wanted = replace(WANTED, config=(("maxmemory-policy", "allkeys-lru"),))
    seen = replace(SERVER, config=(("maxmemory-policy", "noeviction"),))
    (step,) = steps(wanted, replace(FORMED, nodes=(seen,)))
    assert isinstance(step, ConfigSet)
    assert (step.node.id, step.values) == ("run-1", (("maxmemory-policy", "allkeys-lru"),))


def test_a_volume_grows() -> None:
    small = Volume(name="data-db-0", pod="db-0", uid="v1", requested=1, capacity=1, expandable=True)
    (step,) = steps(replace(WANTED, volume_size=2), replace(FORMED, volumes=(small,)))
    assert isinstance(step, GrowVolume)


def test_sleep_and_wake() -> None:
    asleep = replace(WANTED, hibernate=True)
    (step,) = steps(asleep, FORMED)
    assert (step.from_pods, step.to_pods) == (1, 0)
    gone = replace(FORMED, nodes=(), workloads=(replace(WORKLOAD, pods=0),))
    assert told(asleep, gone).phase is Phase.HIBERNATED
    (step,) = steps(WANTED, gone)
    assert (step.from_pods, step.to_pods) == (0, 1)


def test_what_the_status_recorded_stays_while_the_server_is_away() -> None:
    """Else a restart of the operator during the outage would hide the loss."""
    before = RedisStatus(shards=(ShardStatus(name="server-0", primary="db-0", node_id="run-1"),))
    found = told(IN_MEMORY, replace(FORMED, nodes=(SILENT,)), before)
    assert [s.node_id for s in found.shards] == ["run-1"]


def test_while_there_is_no_pod_the_recorded_run_stays() -> None:
    before = RedisStatus(shards=(ShardStatus(name="server-0", primary="db-0", node_id="run-1"),))
    found = told(IN_MEMORY, replace(FORMED, nodes=()), before)
    assert [s.node_id for s in found.shards] == ["run-1"]


# A server that started with the scripts of mode Failover


def nobody(port: int, **fields: Any) -> Seen:
    link = Replication(id="own", follows=f"127.0.0.1:{port}", link_up=False)
    return replace(SERVER, role=Role.REPLICA, replication=link, **fields)


def test_a_server_that_follows_no_server_is_made_to_lead() -> None:
    (step, *_) = steps(WANTED, replace(FORMED, nodes=(nobody(1),)))
    assert isinstance(step, Promote)
    assert (step.node.pod, step.follows) == ("db-0", "127.0.0.1:1")


@pytest.mark.parametrize("given_up", [False, True], ids=["no decision", "another decision"])
def test_a_server_that_follows_no_server_and_lost_its_files_is_held(*, given_up: bool) -> None:
    lost = replace(FORMED, nodes=(nobody(2, keys=0),))
    wanted = replace(WANTED, source_given_up=given_up)
    found = plan(wanted, lost, NOW)
    assert [loss.accepted for loss in found.losses] == [False]
    assert not found.steps
    assert "=source" not in told(wanted, lost).message
    accepted = plan(replace(WANTED, accepted_loss=ALL_SLOTS), lost, NOW)
    assert isinstance(accepted.steps[0], Promote)


def test_a_replica_of_a_server_elsewhere_is_left_alone_until_a_person_decides() -> None:
    link = Replication(id="own", follows="10.9.9.9:6379", link_up=True)
    found = replace(FORMED, nodes=(replace(SERVER, role=Role.REPLICA, replication=link),))
    assert not any(isinstance(step, Promote) for step in steps(WANTED, found))
    (step, *_) = steps(replace(WANTED, source_given_up=True), found)
    assert isinstance(step, Promote)
    assert step.follows == "10.9.9.9:6379"
