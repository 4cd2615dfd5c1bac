"""Rules of mode Failover by themselves, as tables: when they act, for what, and when they wait."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.failover.test_failover import (
    BARE,
    LOST,
    NOW,
    SENTINELS,
    WANTED,
    WHOLE,
    WORKLOAD,
    dead,
    made,
    of,
    sentinel,
    server,
)
from redis_operator.planning.actions import DeletePod, DeleteWorkload, ScaleWorkload
from redis_operator.planning.advice import Plan, PlanPhase, Wanted
from redis_operator.planning.failover.divided import divided, finds_again
from redis_operator.planning.failover.leave import dismiss_sentinels, shrink, stays_outdated
from redis_operator.planning.failover.name_primary import name_primary
from redis_operator.planning.failover.outvote import needed
from redis_operator.planning.failover.sentinel_pods import (
    replace_sentinel,
    roll_sentinels,
    sentinel_pods,
    shrink_sentinels,
)
from redis_operator.planning.failover.topology import FailoverTopology
from redis_operator.planning.observed import (
    Evidence,
    Observed,
    Unreachable,
)
from redis_operator.planning.sentinels import OtherSentinel, SentinelFlag

ALONE = replace(WANTED, replicas=0)
DOWN = frozenset({SentinelFlag.S_DOWN})
FAILING = frozenset({SentinelFlag.FAILOVER})
DISCONNECTED = frozenset({SentinelFlag.DISCONNECTED})
HEADLESS = made(dead(0), *LOST)


def moment(observed: Observed, wanted: Wanted = WANTED) -> FailoverTopology:
    return FailoverTopology(wanted, observed, NOW)


def ruled(rule: Any, observed: Observed, wanted: Wanted = WANTED) -> Plan:
    found = rule(moment(observed, wanted))
    assert isinstance(found, Plan)
    return found


def away(ordinal: int, evidence: Evidence = Evidence.SILENT, **pod: Any) -> Unreachable:
    where = replace(sentinel(ordinal).pod, **pod)
    return Unreachable(pod=where, error="timed out", since=NOW, evidence=evidence)


def soon(plan: Plan, seconds: float = 1.0) -> bool:
    """Whether a plan that does nothing is looked at again within so many seconds."""
    return not plan.stages and plan.again_after is not None and plan.again_after <= seconds


# Pods of sentinels


def with_pods(pods: int, **fields: Any) -> Observed:
    return replace(WHOLE, sentinel_workload=replace(SENTINELS, pods=pods, **fields))


def test_sentinels_that_are_missing_are_added() -> None:
    found = ruled(sentinel_pods, with_pods(1))
    assert found.steps == (ScaleWorkload(1, "w1", 1, 3),)
    assert found.phase is PlanPhase.SCALING
    assert ruled(sentinel_pods, replace(with_pods(1), formed=False)).phase is PlanPhase.CREATING


@pytest.mark.parametrize(
    "observed",
    [
        with_pods(3),
        with_pods(4),
        with_pods(1, deleting=True),
        replace(WHOLE, sentinel_workload=None),
    ],
    ids=["as many", "more", "deleted", "none"],
)
def test_no_sentinels_are_added(observed: Observed) -> None:
    assert sentinel_pods(moment(observed)) is None


STUCK = sentinel(1, in_the_past=True)


def test_a_sentinel_without_a_clock_is_recreated_while_the_others_are_whole() -> None:
    observed = replace(WHOLE, sentinels=(sentinel(0), STUCK, sentinel(2)))
    found = ruled(replace_sentinel, observed)
    (step,) = found.steps
    assert isinstance(step, DeletePod)
    assert (step.pod, step.uid, found.phase) == ("db-sentinel-1", "s1", PlanPhase.HEALING)
    waits = ruled(replace_sentinel, replace(observed, sentinels=(sentinel(0), STUCK, away(2))))
    assert soon(waits)
    assert waits.phase is PlanPhase.HEALING
    assert "db-sentinel-2 does not respond" in waits.blocked[0]
    assert replace_sentinel(moment(replace(HEADLESS, sentinels=observed.sentinels))) is None
    assert replace_sentinel(moment(WHOLE)) is None


def outdated(*ordinals: int, **fields: Any) -> Observed:
    """Sentinels of an old revision among those of the new one."""
    nodes = tuple(
        replace(s, pod=replace(s.pod, revision="s1" if s.pod.ordinal in ordinals else "s2"))
        for s in WHOLE.sentinels
    )
    workload = replace(SENTINELS, revision="s2")
    return replace(WHOLE, **{"sentinels": nodes, "sentinel_workload": workload, **fields})


def test_outdated_sentinels_are_replaced_the_last_first() -> None:
    found = ruled(roll_sentinels, outdated(0, 1))
    (step,) = found.steps
    assert isinstance(step, DeletePod)
    assert (step.pod, step.uid, found.phase) == ("db-sentinel-1", "s1", PlanPhase.UPDATING)
    assert step.why == "2 sentinels are of an old revision"


def test_an_outdated_sentinel_that_ended_goes_first_whatever_the_others_do() -> None:
    ended = away(0, Evidence.TERMINATED, revision="s1")
    observed = outdated(2)
    found = ruled(
        roll_sentinels, replace(observed, sentinels=(ended, away(1), observed.sentinels[2]))
    )
    assert [s.pod for s in found.steps if isinstance(s, DeletePod)] == ["db-sentinel-0"]
    silent = replace(observed, sentinels=(away(0, revision="s1"), *observed.sentinels[1:]))
    assert ruled(roll_sentinels, silent).stages == ()


def test_outdated_sentinels_wait_for_each_other_and_for_a_person() -> None:
    waits = ruled(roll_sentinels, outdated(1, sentinels=outdated(1).sentinels[:2]))
    assert soon(waits)
    assert waits.final
    assert waits.phase is PlanPhase.UPDATING
    assert waits.blocked == ("1 sentinels are of an old revision; 2 of 3 sentinels exist",)
    held = ruled(roll_sentinels, outdated(1), replace(WANTED, update_paused=True))
    assert held.stages == ()
    assert "spec.update.paused is set" in held.blocked[0]


@pytest.mark.parametrize(
    ("observed", "wanted"),
    [
        (outdated(), WANTED),
        (outdated(1), ALONE),
        (outdated(1, sentinel_workload=None), WANTED),
        (outdated(1, sentinel_workload=replace(SENTINELS, revision="")), WANTED),
        (outdated(2), replace(WANTED, sentinels=2)),
        (
            outdated(2, sentinels=(*WHOLE.sentinels[:0], away(2, revision="s1", deleting=True))),
            WANTED,
        ),
    ],
    ids=["none", "all leave", "no workload", "unknown", "it leaves", "it goes"],
)
def test_no_sentinel_is_replaced(observed: Observed, wanted: Wanted) -> None:
    assert roll_sentinels(moment(observed, wanted)) is None


def many(pods: int, *silent: int, workload: int | None = None) -> Observed:
    known = tuple(OtherSentinel(f"id-{n}", f"10.0.1.{n}", 26379) for n in range(pods))
    watchers = tuple(away(n) if n in silent else sentinel(n, sentinels=known) for n in range(pods))
    return replace(
        WHOLE,
        sentinels=watchers,
        sentinel_workload=replace(SENTINELS, pods=pods if workload is None else workload),
    )


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        (many(4), ""),
        (many(4, 3), ""),
        (many(6, 3, 4), "db-sentinel-3 does not respond, and a majority must"),
        (many(6, 3, 5), ""),
        (many(7, 3), ""),
        (many(4, 0), "db-sentinel-0 does not respond"),
        (many(4, 2), "db-sentinel-2 does not respond"),
    ],
    ids=[
        *("all respond", "the last is silent", "a majority would be lost", "it stays"),
        *("one of seven", "the first", "the last that is wanted"),
    ],
)
def test_sentinels_leave_one_by_one_while_a_majority_of_all_responds(
    observed: Observed, words: str
) -> None:
    found = ruled(shrink_sentinels, observed)
    assert found.phase is PlanPhase.SCALING
    if words:
        assert soon(found)
        assert words in found.blocked[0]
    else:
        pods = len(observed.sentinels)
        assert found.steps == (ScaleWorkload(1, "w1", pods, pods - 1),)


def test_no_sentinel_leaves() -> None:
    for observed in (WHOLE, many(3), with_pods(4, deleting=True), with_pods(2)):
        assert shrink_sentinels(moment(observed)) is None
    assert shrink_sentinels(moment(replace(WHOLE, sentinel_workload=None))) is None


# Sentinels that do not reach each other


def third(**fields: Any) -> Observed:
    return replace(WHOLE, sentinels=(sentinel(0), sentinel(1), sentinel(2, **fields)))


OTHERS = sentinel(2).view.monitored[0].sentinels
REPLICAS = sentinel(2).view.monitored[0].replicas
GONE = OtherSentinel("gone", "10.0.1.9", 26379, flags=DOWN)
BEHIND = made(
    server(0),
    server(1, of(0)),
    server(2, of(0), link={"link_up": False}),
    sentinels=third(replicas=(REPLICAS[0], replace(REPLICAS[1], flags=DOWN))).sentinels,
)
DIVIDED: dict[str, tuple[Observed, str]] = {
    "whole": (WHOLE, ""),
    "monitors nothing": (replace(WHOLE, sentinels=BARE), ""),
    "one that is gone": (third(sentinels=(GONE, *OTHERS)), ""),
    "an old address": (
        third(sentinels=(OTHERS[0], replace(OTHERS[1], ip="10.9.9.9"))),
        "db-sentinel-2 looks for db-sentinel-1 at 10.9.9.9",
    ),
    "down": (
        third(sentinels=(OTHERS[0], replace(OTHERS[1], flags=DOWN))),
        "db-sentinel-2 does not reach db-sentinel-1",
    ),
    "connecting": (third(sentinels=(OTHERS[0], replace(OTHERS[1], flags=DISCONNECTED))), ""),
    "a replica is down": (
        third(replicas=(REPLICAS[0], replace(REPLICAS[1], flags=DOWN))),
        "db-sentinel-2 does not reach db-2",
    ),
    "a replica is down that is not in sync": (BEHIND, ""),
}


@pytest.mark.parametrize("row", DIVIDED)
def test_sentinels_that_reach_each_other_are_not_divided(row: str) -> None:
    observed, words = DIVIDED[row]
    found = divided(moment(observed))
    assert (words in (found or "")) if words else found is None


RESET: dict[str, Any] = {"known_ms": 4999, "sentinels": (), "replicas": ()}
TILTED = replace(sentinel(2, **RESET), view=replace(sentinel(2, **RESET).view, tilt=True))
AGAIN: dict[str, tuple[Observed, bool]] = {
    "whole": (WHOLE, False),
    "one was reset": (third(**RESET), True),
    "one was reset, and connects": (third(**RESET, flags=DISCONNECTED), True),
    "replicas alone are not known": (third(known_ms=0, replicas=()), True),
    "sentinels alone are not known": (third(known_ms=0, sentinels=()), True),
    "five seconds ago": (third(**RESET | {"known_ms": 5000}), False),
    "holds the primary for dead": (third(**RESET, flags=DOWN), False),
    "names another server": (third(**RESET, ip="10.0.0.1"), False),
    "its clock was set back": (third(**RESET, in_the_past=True), False),
    "in TILT mode": (replace(WHOLE, sentinels=(sentinel(0), sentinel(1), TILTED)), False),
    "monitors nothing": (
        replace(WHOLE, sentinels=(sentinel(0), sentinel(1), sentinel(2, None))),
        False,
    ),
    "two of three": (
        replace(WHOLE, sentinels=(sentinel(0), sentinel(1, **RESET), sentinel(2, **RESET))),
        False,
    ),
    "a server is not in sync": (replace(third(**RESET), nodes=BEHIND.nodes), False),
    "a sentinel goes": (
        replace(
            WHOLE,
            sentinels=(
                replace(sentinel(0), pod=replace(sentinel(0).pod, deleting=True)),
                sentinel(1),
                sentinel(2, **RESET),
            ),
        ),
        False,
    ),
    "two others are divided": (
        replace(
            WHOLE,
            sentinels=(
                sentinel(
                    0,
                    sentinels=(
                        replace(sentinel(0).view.monitored[0].sentinels[0], flags=DOWN),
                        sentinel(0).view.monitored[0].sentinels[1],
                    ),
                ),
                sentinel(1),
                sentinel(2, **RESET),
            ),
        ),
        False,
    ),
}


@pytest.mark.parametrize("row", AGAIN)
def test_a_minority_that_was_reset_a_moment_ago_finds_the_others_again(row: str) -> None:
    observed, expected = AGAIN[row]
    assert finds_again(moment(observed)) is expected
    assert moment(observed).is_whole_in_a_moment is expected


def test_half_of_the_sentinels_are_no_minority() -> None:
    observed = replace(WHOLE, sentinels=(sentinel(0), sentinel(1, **RESET)))
    assert not finds_again(moment(observed, replace(WANTED, sentinels=2)))


# Leaving the mode

ONE = made(server(0), workloads=(replace(WORKLOAD, pods=1),))


def test_the_sentinels_are_deleted_when_one_server_is_left() -> None:
    found = ruled(dismiss_sentinels, ONE, ALONE)
    assert found.steps == (DeleteWorkload(1, "w1"),)
    assert found.phase is PlanPhase.SCALING
    ends = replace(ONE, nodes=(server(0), server(1, of(0), pod={"deleting": True})))
    waits = ruled(dismiss_sentinels, ends, ALONE)
    assert waits.blocked == ("1 servers are still ending",)
    assert waits.phase is PlanPhase.SCALING


@pytest.mark.parametrize(
    ("observed", "wanted"),
    [
        (ONE, WANTED),
        (ONE, replace(ALONE, hibernate=True)),
        (replace(ONE, sentinel_workload=None), ALONE),
        (replace(ONE, sentinel_workload=replace(SENTINELS, deleting=True)), ALONE),
        (replace(ONE, workloads=()), ALONE),
        (replace(ONE, workloads=(replace(WORKLOAD, pods=2),)), ALONE),
        (replace(ONE, workloads=(replace(WORKLOAD, pods=1, current=False),)), ALONE),
        (replace(ONE, nodes=(dead(0),)), ALONE),
    ],
    ids=[
        *("the mode stays", "hibernates", "none", "deleted", "no servers", "two servers"),
        *("not observed", "no primary"),
    ],
)
def test_the_sentinels_stay(observed: Observed, wanted: Wanted) -> None:
    assert dismiss_sentinels(moment(observed, wanted)) is None


def test_servers_leave_once_the_one_that_stays_is_up_to_date() -> None:
    assert shrink(moment(WHOLE, ALONE)) is not None
    stale = replace(WHOLE, workloads=(replace(WORKLOAD, current=False),))
    old = replace(WHOLE, workloads=(replace(WORKLOAD, revision="r2"),))
    for observed in (stale, old):
        assert stays_outdated(moment(observed, ALONE))
        assert shrink(moment(observed, ALONE)) is None
        assert shrink(moment(observed, replace(WANTED, replicas=1))) is not None
    gone = made(server(0, pod={"revision": "r2"}), *old.nodes[1:], workloads=old.workloads)
    assert not stays_outdated(moment(gone, ALONE))


# Votes


@pytest.mark.parametrize(
    ("observed", "wanted", "count"),
    [
        (WHOLE, WANTED, 2),
        (WHOLE, replace(WANTED, quorum=3), 3),
        (WHOLE, replace(WANTED, sentinels=5), 3),
        (many(5), WANTED, 4),
        (third(sentinels=(*OTHERS, GONE)), WANTED, 3),
        (replace(WHOLE, sentinels=()), WANTED, 2),
        (replace(WHOLE, sentinels=BARE), WANTED, 2),
    ],
    ids=["three", "quorum", "five wanted", "more are counted", "a ghost", "none", "bare"],
)
def test_a_majority_of_all_that_any_sentinel_counts_is_needed(
    observed: Observed, wanted: Wanted, count: int
) -> None:
    assert needed(moment(observed, wanted)) == count


def test_the_server_that_led_is_the_one_that_replicas_followed_and_not_the_first() -> None:
    replicas = tuple(
        server(n, of(2), link={"link_up": False, "offset": 90}, pod={"role_label": "replica"})
        for n in (0, 1)
    )
    found = name_primary(moment(made(*replicas, dead(2))))
    assert found is not None
    (step,) = found.stages[0]
    assert (step.node.pod, step.primary_pod) == ("db-0", "db-2")  # type: ignore[union-attr]
