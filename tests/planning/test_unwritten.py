"""While objects of a database are not written, changes wait for them; help for servers does not."""

from __future__ import annotations

from typing import Any

import pytest

from planning import moments as m
from redis_operator.planning.advice import PlanPhase, Switchover
from redis_operator.planning.observed import Observed
from redis_operator.planning.plan import plan

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
