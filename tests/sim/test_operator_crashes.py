"""The operator dies, or an answer is lost, at any effect of anything it does: the end is the same.

The whole system runs in virtual time: the real operator on the embedded API server and simulated
servers, with clients that write all the while. A run strikes at a few effects of some scenarios
and at one of each (`test_seeds`), drawn by its seed; `make seeds` strikes more often in each, and
`make campaign` at every effect.
K-01, K-02, K-03, CL-05, CL-06
"""

from __future__ import annotations

from functools import cache

import pytest

from redis_testing.simulation.catalog import SCENARIOS
from redis_testing.simulation.crashes import (
    Blow,
    Reference,
    reference,
    spread,
    strike_at_each,
    tear_points,
)
from redis_testing.simulation.process import Strike
from support.histories import draw_some

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine

BRIEFLY = {
    "create": 3,
    "primary killed": 2,
    "few slots move": 2,
    "few slots move, valkey 9.1": 2,
    "switchover": 2,
    "deletion": 2,
}


@cache
def known(name: str, seed: int = 1) -> Reference:
    return reference(next(s for s in SCENARIOS if s.name == name), seed=seed)


def problems(found: Reference, blows: list[Blow]) -> list[str]:
    told: dict[Blow, str] = {}

    def tell(blow: Blow, problem: str) -> None:
        told[blow] = problem
        if problem:
            print(problem)

    strike_at_each(found, blows, tell)
    assert set(told) == set(blows)
    return [problem for problem in told.values() if problem]


@pytest.mark.slow
@pytest.mark.parametrize("name", draw_some(BRIEFLY, 3, name="crashes"))
def test_the_end_is_the_same_after_a_strike_at_some_effects(name: str) -> None:
    found = known(name)
    points = spread(tear_points(found.effects), BRIEFLY[name] + 1)[: BRIEFLY[name]]
    strikes = tuple(Strike)
    blows = [(p, strikes[(turn + len(name)) % len(strikes)]) for turn, p in enumerate(points)]
    assert problems(found, blows) == []


def blows_at(found: Reference, kind: str, *strikes: Strike) -> list[Blow]:
    return [(e.number, s) for e in found.effects if e.kind == kind for s in strikes]


@pytest.mark.slow
def test_an_operator_that_dies_between_two_secrets_makes_the_others_and_changes_none() -> None:
    """K-06: servers log in to each other with what the Secrets say, so a changed one would show."""
    found = known("create")
    blows = blows_at(found, "api PATCH secrets", Strike.CRASH_AFTER)
    assert len(blows) == 5
    assert problems(found, blows) == []


@pytest.mark.slow
def test_an_operator_that_dies_between_claim_and_pod_leaves_neither_behind() -> None:
    """K-05."""
    found = known("fewer replicas")
    blows = blows_at(found, "api DELETE persistentvolumeclaims", Strike.CRASH_AFTER)[:2]
    blows += blows_at(found, "api PATCH statefulsets", Strike.CRASH_AFTER)[:1]
    assert len(blows) == 3
    assert problems(found, blows) == []


@pytest.mark.slow
def test_a_write_that_was_carried_out_and_never_answered_is_not_done_twice() -> None:
    """K-03: one write of each kind that there is when a database is made."""
    found = known("create")
    first = {e.kind: e.number for e in reversed(found.effects) if e.kind.startswith("api ")}
    blows = [(number, Strike.LOST_REPLY) for number in sorted(first.values())]
    assert len(blows) > 8
    assert problems(found, blows[::3]) == []  # all of them in the campaign
