"""Switchovers of mode Failover as tables: to which replica, and what they wait for."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.failover.test_failover import (
    WHOLE,
    made,
    of,
    server,
)
from planning.failover.test_failover_topology import of_moment, third
from redis_operator.planning.actions import LabelRole
from redis_operator.planning.advice import PlanPhase
from redis_operator.planning.failover.actions import Follow, SwitchOver, Watch
from redis_operator.planning.identity import Role
from redis_operator.planning.observed import (
    Observed,
    Seen,
)
from redis_operator.planning.sentinels import SentinelFlag

# Handing over


def handed(observed: Observed, *among: Seen) -> Any:
    topology = of_moment(observed)
    assert topology.primary is not None
    return topology.hand_over(
        topology.primary, rule="any", why="asked", phase=PlanPhase.UPDATING, among=list(among)
    )


def test_a_switchover_is_one_step_and_then_labels_sentinels_and_followers() -> None:
    found = handed(WHOLE, *WHOLE.seen[1:])
    (step,), after = found.stages
    assert isinstance(step, SwitchOver)
    assert (step.node.pod, step.primary.pod) == ("db-1", "db-0")
    assert [s.pod for s in step.sentinels] == [f"db-sentinel-{n}" for n in range(3)]
    assert [(s.pod, s.role) for s in after if isinstance(s, LabelRole)] == [
        ("db-0", Role.REPLICA),
        ("db-1", Role.PRIMARY),
    ]
    watches = [s for s in after if isinstance(s, Watch)]
    assert [s.node.pod for s in watches] == [f"db-sentinel-{n}" for n in range(3)]
    assert [o.pod for o in watches[0].others] == ["db-sentinel-1", "db-sentinel-2"]
    assert not any(s.afresh for s in watches)
    assert [s.node.pod for s in after if isinstance(s, Follow)] == ["db-2"]
    assert found.phase is PlanPhase.UPDATING


@pytest.mark.parametrize(
    ("one", "two", "chosen"),
    [
        ({}, {}, "db-1"),
        ({"link": {"offset": 99}}, {}, "db-2"),
        ({"pod": {"draining": True}}, {"link": {"offset": 99}}, "db-2"),
        ({"link": {"link_up": False}}, {"link": {"offset": 9}}, "db-2"),
    ],
    ids=["equal", "further", "its node is drained", "not in sync"],
)
def test_the_best_of_the_replicas_takes_over(one: Any, two: Any, chosen: str) -> None:
    nodes = server(1, of(0), **one), server(2, of(0), **two)
    (step,), _ = handed(made(server(0), *nodes), *nodes).stages
    assert step.node.pod == chosen


BEHIND = server(1, of(0), link={"link_up": False})


@pytest.mark.parametrize(
    ("observed", "among", "words"),
    [
        (replace(WHOLE, sentinels=third()[:2]), WHOLE.seen[1:], "asked; 2 of 3 sentinels exist"),
        (WHOLE, (), "asked; no replica can take over"),
        (made(server(0), BEHIND), (BEHIND,), "asked; db-1 is not in sync with db-0 yet"),
    ],
    ids=["a sentinel is missing", "no replica", "not in sync"],
)
def test_a_switchover_waits_and_says_for_what(
    observed: Observed, among: tuple[Seen, ...], words: str
) -> None:
    found = handed(observed, *among)
    assert (found.stages, found.blocked) == ((), (words,))
    assert found.again_after is not None
    assert found.again_after < 1


def test_no_switchover_while_a_sentinel_takes_the_primary_for_dead() -> None:
    down = frozenset({SentinelFlag.O_DOWN})
    found = handed(replace(WHOLE, sentinels=third(flags=down)), *WHOLE.seen[1:])
    assert found.stages == ()
    assert "db-sentinel-2 has no connection to db-0" in found.blocked[0]
