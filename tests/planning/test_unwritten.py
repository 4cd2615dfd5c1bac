"""While objects of a database are not written, changes wait for them; help for servers does not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning import moments as m
from redis_operator.planning.actions import ScaleWorkload
from redis_operator.planning.advice import PlanPhase, Switchover
from redis_operator.planning.observed import Observed
from redis_operator.planning.plan import plan
from redis_operator.planning.repeats import after_attempt

W = m.whole()
WHY = "the API server has not responded yet about its objects"
OUTDATED = m.but(W, "0-1", pod_revision="old")
WAITING = {
    "more replicas": (W, {"replicas": 2}, "pods"),
    "fewer replicas": (m.whole(2), {"replicas": 1}, "shrink"),
    "an outdated pod": (OUTDATED, {}, "roll"),
    "hibernation": (W, {"hibernate": True}, "hibernate"),
}


@pytest.mark.parametrize("name", WAITING)
def test_a_change_waits_for_its_objects_and_says_so(name: str) -> None:
    observed, wishes, rule = WAITING[name]
    now = plan(m.wanted(**wishes), observed, m.NOW)
    assert now.rule == rule
    assert now.stages
    later = plan(m.wanted(**wishes, unwritten=WHY), observed, m.NOW)
    assert later.stages == ()
    assert f"rule {rule} waits: {WHY}" in later.blocked


SLEEPS: dict[str, tuple[int, ...]] = {"all sleep": (0, 0, 0), "one shard sleeps": (0, 2, 2)}


@pytest.mark.parametrize("name", SLEEPS)
@pytest.mark.parametrize("start_empty", [False, True])
def test_data_on_volumes_are_not_lost_while_their_pods_cannot_be_started_yet(
    name: str, *, start_empty: bool
) -> None:
    """After a hibernation, or when a person scaled StatefulSets down."""
    sizes = SLEEPS[name]
    whole = W
    asleep = [shard for shard, pods in enumerate(sizes) if not pods]
    gone = [node for node in whole.seen if node.pod.shard in asleep]
    observed = replace(
        whole,
        nodes=tuple(node for node in whole.nodes if node not in gone),
        workloads=tuple(
            replace(found, pods=pods) for found, pods in zip(whole.workloads, sizes, strict=True)
        ),
    )
    for node in gone:
        observed = m.viewed(observed, node.id, connected=False)
    wanted = m.wanted(start_empty=start_empty)
    assert [type(step) for step in plan(wanted, observed, m.NOW).steps] == [ScaleWorkload] * len(
        asleep
    )
    late = plan(replace(wanted, unwritten="the API does not respond"), observed, m.NOW)
    for now in range(5):
        tried = plan(wanted, observed, m.NOW + now)
        errors = ("a webhook does not respond",)
        attempts = after_attempt(observed.attempts, tried, m.NOW + now, errors)
        observed = replace(observed, attempts=attempts)
    for found in (late, plan(wanted, observed, m.NOW + 4.5)):
        assert found.losses == ()
        assert found.steps == ()
        assert not any("this is a bug" in reason for reason in found.blocked)


def test_no_rule_after_hibernation_speaks_while_it_waits() -> None:
    """A database that shall sleep is not repaired meanwhile as one that lost its pods."""
    observed = m.dead(W, "0-0")
    advice = plan(m.wanted(hibernate=True, unwritten=WHY), observed, m.NOW)
    assert (advice.rule, advice.phase) == ("hibernate", PlanPhase.HIBERNATED)


HELPED: dict[str, tuple[Observed, dict[str, Any], str]] = {
    "a dead primary": (m.dead(W, "0-0"), {}, "assist"),
    "a switchover": (W, {"switchover": Switchover("db-0-1")}, "switch"),
}


@pytest.mark.parametrize("name", HELPED)
def test_what_needs_no_objects_goes_on(name: str) -> None:
    observed, wishes, rule = HELPED[name]
    advice = plan(m.wanted(**wishes, unwritten=WHY), observed, m.NOW)
    assert advice.rule == rule
    assert advice.stages


def test_a_database_that_wants_nothing_says_nothing_about_it() -> None:
    advice = plan(m.wanted(unwritten=WHY), W, m.NOW)
    assert advice.settled


def test_a_shard_that_sleeps_is_not_removed_before_its_slots_were_moved() -> None:
    """It is scaled up first; while that has no effect, its volumes hold the keys of its slots."""
    workloads = tuple(replace(w, pods=0 if w.shard == 2 else w.pods) for w in W.workloads)
    nodes = tuple(node for node in W.nodes if node.pod.shard != 2)
    observed = replace(W, workloads=workloads, nodes=nodes)
    for pod in ("2-0", "2-1"):
        observed = m.viewed(observed, m.server(W, pod).id, connected=False)
    for now in range(5):
        tried = plan(m.wanted(shards=2), observed, m.NOW + now)
        assert [type(step) for step in tried.steps] == [ScaleWorkload]
        attempts = after_attempt(observed.attempts, tried, m.NOW + now, ("a quota",))
        observed = replace(observed, attempts=attempts)
    found = plan(m.wanted(shards=2), observed, m.NOW + 4.5)
    assert found.steps == ()
    assert any("shard 2 cannot be removed yet" in reason for reason in found.blocked)
