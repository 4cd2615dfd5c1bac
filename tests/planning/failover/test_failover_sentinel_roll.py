"""A roll of sentinels beside a roll of servers: one disruption at a time, and no wait for ever."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.failover.test_failover import (
    NOW,
    SENTINELS,
    WANTED,
    WHOLE,
    WORKLOAD,
    condition,
    dead,
    made,
    of,
    sentinel,
    server,
    steps,
    told,
)
from redis_operator.planning.actions import DeletePod, GrowVolume
from redis_operator.planning.failover.sentinel_pods import roll_sentinels
from redis_operator.planning.failover.topology import FailoverTopology
from redis_operator.planning.observed import (
    Evidence,
    Observed,
    SentinelSeen,
    Unreachable,
    Volume,
)
from redis_operator.planning.plan import plan

LATER = "1970-01-12T13:46:40Z"  # which is NOW
NEXT = replace(SENTINELS, revision="s2")
UNKNOWN = replace(SENTINELS, current=False)
BOTH = {"workloads": (replace(WORKLOAD, revision="r2"),), "sentinel_workload": NEXT}
NEW = {"revision": "r2"}


def silent(ordinal: int, *, seconds: float, **pod: Any) -> Unreachable:
    """A server that has not responded for so long."""
    found = dead(ordinal, Evidence.SILENT)
    where = replace(found.pod, **{"since": NOW - 1000, **pod})
    return replace(found, pod=where, since=NOW - seconds)


def deleted(observed: Observed, wanted: Any = WANTED) -> list[str]:
    return [step.pod for step in steps(observed, wanted) if isinstance(step, DeletePod)]


def renewed(*ordinals: int) -> tuple[SentinelSeen, ...]:
    """Sentinels, of which some are of the new revision."""
    return tuple(
        replace(s, pod=replace(s.pod, revision="s2" if s.pod.ordinal in ordinals else "s1"))
        for s in WHOLE.sentinels
    )


# One disruption at a time


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (server(2, of(0), pod=NEW | {"deleting": True}), "db-2 is being deleted"),
        (silent(2, seconds=10, deleting=True), "db-2 does not respond"),
        (silent(2, seconds=300, deleting=True), "db-2 does not respond"),
        (silent(2, seconds=2, since=NOW - 2, **NEW), "db-2 does not respond"),
        (server(2, of(0), pod=NEW, loading=True), "db-2 is still loading its data"),
        (server(2, of(0), pod=NEW, link={"link_up": False}), "db-2 is not in sync"),
        (server(2, of(0), pod=NEW | {"ready": False}), "db-2 is not ready"),
        (None, "db-2 does not exist yet"),
    ],
    ids=[
        *("ends", "ended", "ended long ago", "starts"),
        *("loads", "out of sync", "not ready", "not created yet"),
    ],
)
def test_no_sentinel_is_recreated_while_a_server_is(last: Any, why: str) -> None:
    """An edit in the middle of a roll of servers. SE-14"""
    nodes = (server(0), server(1, of(0)), *(() if last is None else (last,)))
    observed = made(*nodes, **BOTH)
    assert deleted(observed) == []
    waits = f"3 sentinels are of an old revision; {why}"
    assert [said for said in plan(WANTED, observed, NOW).blocked if said.startswith(waits)]


def test_a_server_that_leaves_holds_up_no_sentinel() -> None:
    fewer = replace(WANTED, replicas=1)
    nodes = (server(0), server(1, of(0)), silent(2, seconds=10, deleting=True))
    observed = made(*nodes, workloads=(replace(WORKLOAD, pods=2),), sentinel_workload=NEXT)
    assert deleted(observed, fewer) == ["db-sentinel-2"]
    stuck = (*nodes[:2], silent(2, seconds=301, deleting=True))
    assert plan(fewer, replace(observed, nodes=stuck), NOW).blocked == (), "it is not waited for"


def test_only_servers_that_are_overdue_are_named_when_a_sentinel_that_ended_goes_first() -> None:
    ended = Unreachable(sentinel(1).pod, "refused", NOW, Evidence.TERMINATED)
    nodes = (server(0), server(1, of(0)), silent(2, seconds=10, since=NOW - 10))
    observed = made(*nodes, sentinel_workload=NEXT, sentinels=(sentinel(0), ended, sentinel(2)))
    found = roll_sentinels(FailoverTopology(WANTED, observed, NOW))
    assert found is not None
    assert [step.pod for step in found.steps if isinstance(step, DeletePod)] == ["db-sentinel-1"]
    assert found.blocked == ()


@pytest.mark.parametrize(
    ("stuck", "why"),
    [
        ({"seconds": 301, "deleting": True}, "db-2 has been terminating for more than 300 s"),
        ({"seconds": 301}, "db-2 has not responded for more than 300 s"),
    ],
    ids=["terminating", "silent"],
)
def test_sentinels_do_not_wait_for_ever_for_a_server_that_never_ends(
    stuck: dict[str, Any], why: str
) -> None:
    """The plan names the pod. SE-14"""
    observed = made(server(0), server(1, of(0)), silent(2, **stuck), **BOTH)
    assert deleted(observed) == ["db-sentinel-2"]
    assert [said for said in plan(WANTED, observed, NOW).blocked if why in said]
    found = told(observed, at=LATER)
    assert condition(found, "Degraded") == ("True", "Unreachable")
    again = replace(observed, sentinels=(sentinel(0), sentinel(1)))
    assert deleted(again) == [], "one sentinel at a time all the same"


def test_sentinels_do_not_wait_for_servers_that_kubernetes_refuses_to_create() -> None:
    """K-14"""
    refused = replace(WORKLOAD, trouble="exceeded quota")
    observed = made(server(0), server(1, of(0)), workloads=(refused,), sentinel_workload=NEXT)
    assert deleted(observed) == ["db-sentinel-2"]
    assert any("db-2 does not exist yet" in said for said in plan(WANTED, observed, NOW).blocked)


@pytest.mark.parametrize("seconds", [10, 301], ids=["ends", "stuck"])
def test_no_server_is_recreated_while_a_sentinel_is(seconds: float) -> None:
    """A sentinel on a node that is lost may name the old primary later. SE-14"""
    pod = replace(sentinel(2).pod, deleting=True)
    gone = Unreachable(pod, "timed out", NOW - seconds)
    observed = replace(
        WHOLE,
        workloads=(replace(WORKLOAD, revision="r2"),),
        sentinels=(sentinel(0), sentinel(1), gone),
    )
    assert deleted(observed) == []
    named = "db-sentinel-2 has been terminating for more than 300 s"
    assert any(named in said for said in plan(WANTED, observed, NOW).blocked) == (seconds > 300)
    stuck = ("True", "Unreachable")
    found = condition(told(observed, at=LATER), "Degraded")
    assert found == (stuck if seconds > 300 else ("False", "Healthy"))


@pytest.mark.parametrize("seconds", [10, 301], ids=["ends", "stuck"])
def test_a_sentinel_that_leaves_and_never_ends_is_a_problem(seconds: float) -> None:
    """It may be alive, so that no server is recreated: a person has to know."""
    pod = replace(sentinel(2).pod, name="db-sentinel-3", uid="s3", ordinal=3, deleting=True)
    gone = Unreachable(pod, "timed out", NOW - seconds)
    observed = replace(
        WHOLE,
        workloads=(replace(WORKLOAD, revision="r2"),),
        sentinels=(*WHOLE.sentinels, gone),
    )
    assert deleted(observed) == []
    found = condition(told(observed, at=LATER), "Degraded")
    assert found == (("True", "Unreachable") if seconds > 300 else ("False", "Healthy"))


# What a roll of sentinels does not hold up


@pytest.mark.parametrize(
    "fields",
    [
        BOTH,
        BOTH | {"sentinels": (sentinel(0), sentinel(1))},
        BOTH | {"sentinel_workload": UNKNOWN},
    ],
    ids=["both are outdated", "a sentinel is missing", "sentinels not known"],
)
@pytest.mark.parametrize(
    "last",
    [dead(2, Evidence.TERMINATED), server(2, of(0), pod={"ready": False})],
    ids=["ended", "not ready"],
)
def test_a_server_that_does_not_run_gets_the_new_revision_first(
    last: Any, fields: dict[str, Any]
) -> None:
    """The edit corrects what keeps it from starting; sentinels wait for it. IN-07"""
    observed = made(server(0), server(1, of(0)), last, **fields)
    assert deleted(observed) == ["db-2"]


@pytest.mark.parametrize(
    "fields",
    [
        BOTH | {"sentinels": (*renewed(2)[:2], Unreachable(renewed(2)[2].pod, "refused", NOW))},
        BOTH | {"sentinel_workload": UNKNOWN},
    ],
    ids=["a sentinel does not start", "sentinels not known"],
)
def test_volumes_grow_while_sentinels_wait(fields: dict[str, Any]) -> None:
    """A disk that is nearly full cannot wait for an image that does not exist. IN-03"""
    small = Volume("data-db-0", "db-0", "v0", requested=1, capacity=1, expandable=True)
    observed = replace(WHOLE, volumes=(small,), **fields)
    (step,) = steps(observed, replace(WANTED, volume_size=2))
    assert isinstance(step, GrowVolume)


def test_a_paused_update_says_so_whatever_is_known_of_sentinels() -> None:
    observed = replace(WHOLE, **BOTH | {"sentinel_workload": UNKNOWN})
    found = plan(replace(WANTED, update_paused=True), observed, NOW)
    assert found.steps == ()
    assert any("spec.update.paused is set" in said for said in found.blocked)


def test_servers_wait_for_the_controller_without_asking_again_and_again() -> None:
    """Its answer is an event; a control plane that is down is not helped by passes."""
    found = plan(WANTED, replace(WHOLE, **BOTH | {"sentinel_workload": UNKNOWN}), NOW)
    assert found.steps == ()
    assert found.again_after is None


@pytest.mark.parametrize(
    "fields",
    [{}, {"nodes": (server(0), server(1, of(0)), dead(2, Evidence.TERMINATED))}],
    ids=["all run", "one ended"],
)
def test_what_is_not_known_of_sentinels_concerns_only_outdated_servers(
    fields: dict[str, Any],
) -> None:
    observed = replace(WHOLE, sentinel_workload=UNKNOWN, **fields)
    assert roll_sentinels(FailoverTopology(WANTED, observed, NOW)) is None


@pytest.mark.parametrize(
    ("last", "final"),
    [
        (dead(2, Evidence.TERMINATED), False),
        (replace(dead(2, Evidence.TERMINATED), pod=server(2, pod=NEW).pod), True),
        (server(2, of(0)), True),
    ],
    ids=["an outdated one ended", "a new one ended", "all run"],
)
def test_other_rules_are_asked_only_for_an_outdated_server_that_does_not_run(
    last: Any, final: bool
) -> None:
    fields = BOTH | {"sentinels": (sentinel(0), sentinel(1))}
    observed = made(server(0), server(1, of(0)), last, **fields)
    found = roll_sentinels(FailoverTopology(WANTED, observed, NOW))
    assert found is not None
    assert (found.steps, found.final) == ((), final)


# Memory


def killed(node: SentinelSeen, *, revision: str = "s1", seconds: float = 5) -> SentinelSeen:
    pod = replace(
        node.pod,
        killed_for_memory_at=NOW - seconds,
        memory_limit=64 * 1024 * 1024,
        restarts=4,
        revision=revision,
    )
    return replace(node, pod=pod)


@pytest.mark.parametrize("seconds", [5, 601], ids=["just now", "long ago"])
def test_a_sentinel_killed_for_memory_is_reported_with_numbers(seconds: float) -> None:
    """ST-09"""
    watchers = (sentinel(0), killed(sentinel(1), seconds=seconds), sentinel(2))
    found = told(replace(WHOLE, sentinels=watchers), at=LATER)
    degraded = next(c for c in found.conditions if c.type == "Degraded")
    if seconds > 600:
        assert degraded.status == "False"
        return
    assert degraded.reason == "OutOfMemory"
    for part in ("db-sentinel-1", "64.0Mi", "4 restarts", "spec.sentinel.resources.limits.memory"):
        assert part in degraded.message
    assert "shards" not in degraded.message


def test_a_roll_of_sentinels_stops_at_the_first_that_is_killed_for_memory() -> None:
    """It responds between two kills; all three with too little memory would be no majority."""
    lower = replace(WHOLE, sentinel_workload=NEXT)
    first = (*renewed(2)[:2], killed(sentinel(2), revision="s2"))
    found = plan(WANTED, replace(lower, sentinels=first), NOW)
    assert found.steps == ()
    assert any("db-sentinel-2 was killed repeatedly" in said for said in found.blocked)
    assert deleted(replace(lower, sentinels=renewed(2))) == ["db-sentinel-1"]
    old = (killed(sentinel(0)), *renewed(1, 2)[1:])
    assert deleted(replace(lower, sentinels=old)) == ["db-sentinel-0"], "it may get more memory"
