"""Waking explains that pods start and replicas copy; whatever else is wrong is told at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from redis_operator.api.status import RedisStatus
from redis_operator.planning.advice import Plan, PlanPhase
from redis_operator.planning.observed import Observed, Replication, Seen, Unreachable, Workload

from .test_status_at_rest import WANTED as AT_REST
from .test_status_at_rest import whole
from .test_status_details import _NOW, condition, told

Change = Callable[[Observed], Observed]


def asleep() -> RedisStatus:
    wanted = replace(AT_REST, hibernate=True)
    return told(wanted, Observed(formed=True), Plan(phase=PlanPhase.HIBERNATED))


def starting(waiting: str = "", **pod: str) -> Change:
    """One pod does not respond yet."""

    def change(observed: Observed) -> Observed:
        first, *others = observed.nodes
        made = replace(first.pod, waiting=waiting, ready=False, since=_NOW - 20, **pod)
        return replace(observed, nodes=(Unreachable(made, "no answer", _NOW - 20), *others))

    return change


def server(**fields: object) -> Change:
    """One server has something to say."""

    def change(observed: Observed) -> Observed:
        first, *others = observed.nodes
        assert isinstance(first, Seen)
        pod = replace(first.pod, ready=False)
        return replace(observed, nodes=(replace(first, pod=pod, **fields), *others))

    return change


def refused(observed: Observed) -> Observed:
    lacking = Workload(0, "cache-0", "w", pods=2, revision="", trouble="exceeded quota")
    return replace(observed, nodes=observed.nodes[1:], workloads=(lacking,))


COPYING = Replication(link_up=False, down_seconds=90.0)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(starting(), id="a pod that starts"),
        pytest.param(starting("Unschedulable: waits for its volume"), id="a volume on its way"),
        pytest.param(server(replication=COPYING), id="a replica without a link"),
        pytest.param(lambda o: replace(o, nodes=o.nodes[1:]), id="a pod that is not there yet"),
    ],
)
def test_what_waking_explains_is_no_degradation(change: Change) -> None:
    waits = Plan(blocked=("db-0-0 does not respond",))
    seen = change(whole())
    young = tuple(replace(node, pod=replace(node.pod, since=_NOW - 5)) for node in seen.nodes)
    found = told(AT_REST, replace(seen, nodes=young), waits, asleep())
    assert found.phase.value == "Waking"
    assert condition(found, "Degraded")[0] == "False"


@pytest.mark.parametrize(
    ("change", "reason", "word"),
    [
        (starting("ImagePullBackOff: no such image"), "Unreachable", "no such image"),
        (starting("CrashLoopBackOff"), "Unreachable", "CrashLoopBackOff"),
        (starting("Unschedulable: no node has memory"), "Unreachable", "no node has memory"),
        (starting(unloadable="Bad file format"), "CorruptData", "Bad file format"),
        (refused, "PodsRefused", "exceeded quota"),
        (server(aof_failed=True), "PersistenceFailed", "append-only file"),
    ],
    ids=["image", "crashes", "unschedulable", "files", "quota", "disk"],
)
def test_what_waking_does_not_explain_is_told_at_once(
    change: Change, reason: str, word: str
) -> None:
    waits = Plan(blocked=("db-0-0 does not respond",))
    found = told(AT_REST, change(whole()), waits, asleep())
    assert found.phase.value == "Waking"
    state, told_reason, message = condition(found, "Degraded")
    assert (state, told_reason) == ("True", reason)
    assert word in message
    assert condition(found, "Available")[1] in ("Waking", "AllSlotsServed")
