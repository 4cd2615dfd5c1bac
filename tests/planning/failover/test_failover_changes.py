"""Planned changes of mode Failover, and what no rule may do."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.failover.test_failover import (
    BARE,
    LOST,
    NAME,
    NEW,
    NOW,
    SENTINELS,
    WANTED,
    WHOLE,
    WORKLOAD,
    blocked,
    dead,
    made,
    of,
    sentinel,
    server,
    steps,
)
from redis_operator.planning.actions import DeletePod, LabelRole, ScaleWorkload
from redis_operator.planning.advice import Plan, Switchover
from redis_operator.planning.at import at
from redis_operator.planning.failover.actions import (
    Follow,
    Promote,
    SwitchOver,
    Watch,
)
from redis_operator.planning.failover.guards import GUARDS
from redis_operator.planning.fence import Fence
from redis_operator.planning.guards import breaches
from redis_operator.planning.identity import Role
from redis_operator.planning.modes import situation
from redis_operator.planning.observed import (
    Observed,
)
from redis_operator.planning.plan import plan
from redis_operator.planning.preconditions import ActionFacts, precondition

# Planned changes

OLD = replace(WHOLE, workloads=(replace(WORKLOAD, revision="r2"),))


def test_an_old_replica_that_writes_its_append_only_file_is_waited_for() -> None:
    copying = server(1, of(0), pod={"ready": False}, saving=True, link={"link_up": False})
    workloads = (replace(WORKLOAD, revision="next"),)
    found = plan(
        WANTED, replace(made(server(0), copying, server(2, of(0))), workloads=workloads), NOW
    )
    assert not found.steps
    assert not any("this is a bug" in reason for reason in found.blocked), found.blocked


def test_a_roll_replaces_replicas_then_hands_over_then_the_old_primary() -> None:
    (first,) = steps(OLD)
    assert isinstance(first, DeletePod)
    assert first.pod == "db-2"
    updated = {"pod": {"revision": "r2"}}
    rolled = replace(
        OLD, nodes=(server(0), server(1, of(0), **updated), server(2, of(0), **updated))
    )
    second, *after = steps(rolled)
    assert isinstance(second, SwitchOver)
    assert second.primary.pod == "db-0"
    assert len(second.sentinels) == 3
    assert {s.primary.pod for s in after if isinstance(s, Watch)} == {second.node.pod}
    (other,) = [s for s in after if isinstance(s, Follow)]
    assert other.primary == second.node


@pytest.mark.parametrize(
    "sentinels",
    [WHOLE.sentinels[:2], (*WHOLE.sentinels[:2], sentinel(2, 1)), BARE],
    ids=["one missing", "one disagrees", "bare"],
)
def test_nobody_hands_over_before_all_sentinels_watch(sentinels: Any) -> None:
    asked = replace(WANTED, switchover=Switchover("db-1"))
    found = steps(replace(WHOLE, sentinels=sentinels), asked)
    assert not [step for step in found if isinstance(step, SwitchOver)]


def test_a_switchover_on_request_goes_to_the_pod_that_was_named() -> None:
    found = plan(replace(WANTED, switchover=Switchover("db-2")), WHOLE, NOW)
    (step,), after = found.stages
    assert isinstance(step, SwitchOver)
    assert (step.node.pod, step.primary.pod, step.name) == ("db-2", "db-0", NAME)
    labels = {s.pod: s.role for s in after if isinstance(s, LabelRole)}
    assert labels == {"db-2": Role.PRIMARY, "db-0": Role.REPLICA}


def test_a_primary_that_is_deleted_hands_over_to_one_that_stays() -> None:
    going = {"pod": {"deleting": True}}
    found = made(server(0, **going), server(1, of(0), **going), server(2, of(0)))
    (step,) = [s for s in steps(found) if isinstance(s, SwitchOver)]
    assert step.node.pod == "db-2"


def test_a_replica_out_of_sync_does_not_take_over() -> None:
    behind = server(1, of(0), link={"link_up": False})
    asked = replace(WANTED, switchover=Switchover("db-1"))
    assert steps(made(server(0), behind, server(2, of(0))), asked) == ()


def test_sentinels_are_rolled_one_by_one_before_servers() -> None:
    both = replace(OLD, sentinel_workload=replace(SENTINELS, revision="s2"))
    (step,) = steps(both)
    assert (type(step), step.pod) == (DeletePod, "db-sentinel-2")
    gone = replace(both, sentinels=both.sentinels[:2])
    assert steps(gone) == ()


def test_no_server_is_rolled_before_the_last_sentinel_is_back() -> None:
    new = tuple(replace(s, pod=replace(s.pod, revision="s2")) for s in OLD.sentinels)
    both = replace(OLD, sentinel_workload=replace(SENTINELS, revision="s2"), sentinels=new)
    (step,) = steps(both)
    assert (type(step), step.pod) == (DeletePod, "db-2")
    last = replace(OLD.sentinels[2], pod=replace(OLD.sentinels[2].pod, deleting=True))
    for watchers in ((*new[:2], last), new[:2], (*new[:2], sentinel(2, None))):
        assert not any(isinstance(s, DeletePod) for s in steps(replace(both, sentinels=watchers)))


def test_the_primary_hands_over_before_its_place_goes() -> None:
    fewer = replace(WANTED, replicas=1)
    last = made(
        server(0, of(2)),
        server(1, of(2)),
        server(2),
        sentinels=tuple(sentinel(n, 2) for n in range(3)),
    )
    first, *_ = steps(last, fewer)
    assert isinstance(first, SwitchOver)
    (step,) = steps(WHOLE, fewer)
    assert (type(step), step.to_pods, step.discard) == (ScaleWorkload, 2, True)


def test_the_last_copy_in_sync_is_not_removed() -> None:
    behind = server(1, of(0), link={"offset": 0, "syncing": True})
    found = made(server(0), behind, server(2, of(0)))
    assert steps(found, replace(WANTED, replicas=1)) == ()
    assert "db-1 is not in sync with db-0 yet" in blocked(found, replace(WANTED, replicas=1))


def test_a_dead_server_that_is_not_wanted_is_removed() -> None:
    found = made(server(0), server(1, of(0)), dead(2))
    (step,) = steps(found, replace(WANTED, replicas=1))
    assert (type(step), step.to_pods) == (ScaleWorkload, 2)


def test_sentinels_go_one_by_one() -> None:
    five = replace(
        WHOLE,
        sentinels=tuple(sentinel(n) for n in range(3)),
        sentinel_workload=replace(SENTINELS, pods=5),
    )
    (step,) = steps(five)
    assert (step.shard, step.from_pods, step.to_pods) == (1, 5, 4)


def test_hibernation_ends_servers_and_sentinels() -> None:
    found = steps(WHOLE, replace(WANTED, hibernate=True))
    assert [(s.shard, s.to_pods) for s in found] == [(0, 0), (1, 0)]


# Guards


@pytest.mark.parametrize(
    ("observed", "step", "words"),
    [
        (WHOLE, Promote(at(WHOLE.seen[1]), of(0), Fence.NEVER_LED), "is a primary"),
        (
            made(dead(0), *LOST),
            Promote(at(LOST[0]), of(0), Fence.PROCESS_GONE),
            "db-2 has more than db-1",
        ),
        (
            made(server(0, keys=0, link={"id": "x"}), *LOST),
            Follow(at(LOST[0]), at(server(0)), of(0)),
            "is empty and would replace",
        ),
        (WHOLE, Follow(at(server(0)), at(server(0)), ""), "follow itself"),
        (WHOLE, DeletePod("db-0", "u0", "why"), "replicas that could take over"),
        (WHOLE, DeletePod("db-9", "u9", "why"), "was not observed"),
        (
            made(server(0, saving=True), *LOST),
            DeletePod("db-0", "u0", "why"),
            "append-only file",
        ),
        (WHOLE, ScaleWorkload(0, "w0", 3, 0), "db-0 is the primary"),
        (
            WHOLE,
            SwitchOver(at(server(2)), at(server(1)), NAME),
            "db-1 is not the primary",
        ),
    ],
)
def test_what_no_rule_may_do_is_refused(observed: Observed, step: Any, words: str) -> None:
    topology = situation(WANTED, observed, NOW)
    found = breaches(topology, Plan(rule="any", stages=((step,),)), GUARDS)
    assert any(words in reason for reason in found), found


def test_nobody_is_promoted_or_told_whom_to_watch_who_does_not_respond_by_then() -> None:
    promote, *rest = steps(NEW)
    watch = next(step for step in rest if isinstance(step, Watch))
    for step in (promote, watch):
        assert "does not respond" in (precondition(step, ActionFacts()) or "")
