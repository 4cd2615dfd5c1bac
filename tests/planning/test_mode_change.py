"""A database leaves mode Failover: the pod that stays is replaced, leads, and is left alone."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.failover.test_failover import (
    IN_MEMORY,
    NOW,
    SENTINELS,
    WANTED,
    WHOLE,
    WORKLOAD,
    blocked,
    fresh,
    made,
    of,
    sentinel,
    server,
    steps,
)
from redis_operator.planning.actions import DeletePod, DeleteWorkload, ScaleWorkload
from redis_operator.planning.advice import Plan
from redis_operator.planning.failover.actions import Promote, SwitchOver
from redis_operator.planning.failover.guards import GUARDS
from redis_operator.planning.guards import breaches
from redis_operator.planning.modes import situation
from redis_operator.planning.observed import Observed, Seen
from redis_operator.planning.plan import plan

LEAVES = replace(WANTED, replicas=0)
IN_MEMORY_LEAVES = replace(IN_MEMORY, replicas=0)
NEXT = replace(WORKLOAD, revision="r2")
_ALONE = ScaleWorkload(shard=0, uid="w0", from_pods=3, to_pods=1, discard=True)


def led_by(leader: int, *, current: bool, **fields: Any) -> Observed:
    """Three servers; the first is of the next mode already, or not."""

    def one(number: int) -> Seen:
        revision = "r2" if number == 0 and current else "r1"
        follows = "" if number == leader else of(leader)
        return server(number, follows, pod={"revision": revision})

    sentinels = tuple(sentinel(n, leader) for n in range(3))
    return made(*map(one, range(3)), workloads=(NEXT,), sentinels=sentinels, **fields)


@pytest.mark.parametrize("wanted", [LEAVES, IN_MEMORY_LEAVES], ids=["stored", "in memory"])
class TestLeaving:
    def test_the_pod_that_stays_hands_over_before_it_is_replaced(self, wanted: Any) -> None:
        first, *_ = steps(led_by(0, current=False), wanted)
        assert isinstance(first, SwitchOver)
        assert first.node.pod in ("db-1", "db-2")

    def test_then_it_is_replaced_while_others_have_its_data(self, wanted: Any) -> None:
        (step,) = steps(led_by(1, current=False), wanted)
        assert isinstance(step, DeletePod)
        assert step.pod == "db-0"

    def test_then_it_takes_over(self, wanted: Any) -> None:
        first, *_ = steps(led_by(1, current=True), wanted)
        assert isinstance(first, SwitchOver)
        assert (first.node.pod, first.primary.pod) == ("db-0", "db-1")

    def test_then_the_others_go(self, wanted: Any) -> None:
        (step,) = steps(led_by(0, current=True), wanted)
        assert isinstance(step, ScaleWorkload)
        assert (step.shard, step.to_pods, step.discard) == (0, 1, True)

    def test_the_sentinels_go_last(self, wanted: Any) -> None:
        alone = replace(
            led_by(0, current=True),
            nodes=(server(0, pod={"revision": "r2"}),),
            workloads=(replace(NEXT, pods=1),),
        )
        (step,) = steps(alone, wanted)
        assert step == DeleteWorkload(shard=1, uid=SENTINELS.uid)

    def test_sentinels_stay_while_a_server_is_still_ending(self, wanted: Any) -> None:
        found = replace(led_by(0, current=True), workloads=(replace(NEXT, pods=1),))
        assert not any(isinstance(s, DeleteWorkload) for s in steps(found, wanted))
        assert "still ending" in blocked(found, wanted)


@pytest.mark.parametrize("wanted", [LEAVES, IN_MEMORY_LEAVES], ids=["stored", "in memory"])
@pytest.mark.parametrize("pods", [3, 1], ids=["others", "sentinels"])
def test_nothing_goes_before_it_is_known_whether_the_pod_that_stays_is_outdated(
    wanted: Any, pods: int
) -> None:
    """The controller of the StatefulSet has not seen the change of mode yet. I1"""
    stale = replace(WORKLOAD, current=False, pods=pods)
    nodes = tuple(server(n, "" if n == 0 else of(0)) for n in range(pods))
    found = replace(WHOLE, nodes=nodes, workloads=(stale,))
    assert not any(isinstance(s, ScaleWorkload | DeleteWorkload) for s in steps(found, wanted))


def test_outdated_sentinels_are_not_replaced_when_they_go_soon() -> None:
    found = led_by(0, current=True, sentinel_workload=replace(SENTINELS, revision="s2"))
    (step,) = steps(found, LEAVES)
    assert isinstance(step, ScaleWorkload)


def test_one_that_sleeps_keeps_its_sentinels() -> None:
    asleep = replace(WHOLE, nodes=(), sentinels=(), workloads=(replace(NEXT, pods=0),))
    found = plan(replace(LEAVES, hibernate=True, replicas=2), asleep, NOW)
    assert not any(isinstance(s, DeleteWorkload) for s in found.steps)


def test_a_server_without_a_place_leads_when_it_has_more_than_the_one_that_stays() -> None:
    """It serves until it is told to go; what it alone has is not given up."""
    nodes = (
        fresh(0, keys=5, link={"id": "history", "offset": 90}),
        fresh(1, keys=5, link={"id": "history", "offset": 100}),
    )
    found = made(*nodes, workloads=(replace(NEXT, pods=2),))
    assert [s.node.pod for s in steps(found, LEAVES) if isinstance(s, Promote)] == ["db-1"]


@pytest.mark.parametrize(
    ("wanted", "observed", "step", "told"),
    [
        (WANTED, WHOLE, DeleteWorkload(shard=1, uid="w1"), "I8"),
        (LEAVES, led_by(0, current=True), DeleteWorkload(shard=1, uid="w1"), "I8"),
        (LEAVES, led_by(0, current=True), DeleteWorkload(shard=0, uid="w0"), "I1"),
        (LEAVES, led_by(0, current=False), _ALONE, "I1"),
        (LEAVES, replace(WHOLE, workloads=(replace(WORKLOAD, current=False),)), _ALONE, "I1"),
    ],
    ids=["the mode stays", "others are left", "servers", "outdated", "not known"],
)
def test_nothing_is_removed_that_could_be_needed(
    wanted: Any, observed: Observed, step: DeleteWorkload | ScaleWorkload, told: str
) -> None:
    found = breaches(situation(wanted, observed, NOW), Plan(stages=((step,),)), GUARDS)
    assert [reason for reason in found if reason.startswith(told)]
