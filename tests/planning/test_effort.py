"""What a plan and a status cost grows with the servers, not with the pairs of them. B36

Counted in bytecodes and not in seconds: the same on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from msgspec.structs import replace

from planning.large import database
from redis_operator.api.status import RedisStatus
from redis_operator.planning.advice import Wanted
from redis_operator.planning.observed import Evidence, Observed, Seen, Unreachable
from redis_operator.planning.plan import plan
from redis_operator.planning.reporting.context import Context
from redis_operator.planning.reporting.status import status

NOW = 1_000_000.0
FEW, MANY = 8, 32
State = Callable[[Wanted, Observed], tuple[Wanted, Observed]]


def effort(work: Callable[[], object]) -> int:
    """Return how many bytecodes some work takes."""
    count = 0

    def step(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        del argument
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def at_rest(wanted: Wanted, observed: Observed) -> tuple[Wanted, Observed]:
    return wanted, observed


def a_primary_is_dead(wanted: Wanted, observed: Observed) -> tuple[Wanted, Observed]:
    first, *others = observed.seen
    dead = Unreachable(first.pod, "refused", NOW, Evidence.REFUSED, first.id)
    return wanted, replace(observed, nodes=(dead, *others))


def a_replica_is_dead(wanted: Wanted, observed: Observed) -> tuple[Wanted, Observed]:
    first, second, *others = observed.seen
    dead = Unreachable(second.pod, "refused", NOW, Evidence.REFUSED, second.id)
    return wanted, replace(observed, nodes=(first, dead, *others))


def pods_are_outdated(wanted: Wanted, observed: Observed) -> tuple[Wanted, Observed]:
    workloads = tuple(replace(w, revision="new") for w in observed.workloads)
    return wanted, replace(observed, workloads=workloads)


def a_setting_differs(wanted: Wanted, observed: Observed) -> tuple[Wanted, Observed]:
    return replace(wanted, config=(("cluster-node-timeout", "3000"),)), observed


def one_server_knows_nobody(wanted: Wanted, observed: Observed) -> tuple[Wanted, Observed]:
    def alone(node: Seen) -> Seen:
        assert node.view is not None
        return replace(node, view=replace(node.view, peers=()))

    first, second, *others = observed.seen
    return wanted, replace(observed, nodes=(first, alone(second), *others))


STATES: tuple[State, ...] = (
    at_rest,
    a_primary_is_dead,
    a_replica_is_dead,
    pods_are_outdated,
    a_setting_differs,
    one_server_knows_nobody,
)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_plan_for_four_times_the_shards_takes_four_times_the_effort(state: State) -> None:
    def planned(shards: int) -> int:
        wanted, observed = state(*database(shards))
        return effort(lambda: plan(wanted, observed, NOW))

    few, many = planned(FEW), planned(MANY)
    assert many / few < 1.2 * MANY / FEW, (few, many)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_status_of_four_times_the_shards_takes_four_times_the_effort(state: State) -> None:
    context = Context(previous=RedisStatus(), generation=1, now="2026-01-01T00:00:00Z")

    def told(shards: int) -> int:
        wanted, observed = state(*database(shards))
        chosen = plan(wanted, observed, NOW)
        return effort(lambda: status(wanted, observed, chosen, context))

    few, many = told(FEW), told(MANY)
    assert many / few < 1.2 * MANY / FEW, (few, many)
