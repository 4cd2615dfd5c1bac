"""Sentinels that are of no use for a while, and what is told of sentinels."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.failover.test_failover import (
    NOW,
    SENTINELS,
    WANTED,
    WHOLE,
    blocked,
    condition,
    sentinel,
    steps,
    told,
)
from redis_operator.api.status import Binding, Phase, RedisStatus, ShardStatus
from redis_operator.planning.actions import DeletePod, ScaleWorkload
from redis_operator.planning.advice import Switchover
from redis_operator.planning.failover.actions import SwitchOver
from redis_operator.planning.observed import Observed, SentinelSeen, Unreachable
from redis_operator.planning.plan import plan
from redis_operator.planning.reporting.announcements import announcements
from redis_operator.planning.reporting.context import Context
from redis_operator.planning.reporting.status import status
from redis_operator.planning.sentinels import Monitored, OtherSentinel, SentinelFlag

ASKED = replace(WANTED, switchover=Switchover("db-1"))


def tilted(ordinal: int) -> SentinelSeen:
    found = sentinel(ordinal)
    return replace(found, view=replace(found.view, tilt=True))


def test_a_sentinel_in_tilt_mode_is_told_and_waited_for() -> None:
    observed = replace(WHOLE, sentinels=(sentinel(0), tilted(1), sentinel(2)))
    assert steps(observed, ASKED) == ()
    assert "db-sentinel-1 is in TILT mode" in blocked(observed, ASKED)
    assert "db-sentinel-1 is in TILT mode" in blocked(observed)


def knowing(ordinal: int, **other: Any) -> SentinelSeen:
    """A sentinel that sees the first of the others so."""
    found = sentinel(ordinal).view.monitored[0].sentinels
    return sentinel(ordinal, sentinels=(replace(found[0], **other), *found[1:]))


DISCONNECTED = SentinelFlag.DISCONNECTED
DOWN = frozenset({SentinelFlag.S_DOWN, DISCONNECTED})
BLIND = sentinel(2).view.monitored[0].replicas


@pytest.mark.parametrize(
    ("divided", "said"),
    [
        (knowing(2, flags=DOWN), "db-sentinel-2 does not reach db-sentinel-0 at 10.0.1.0:26379"),
        (knowing(2, ip="10.9.9.9"), "db-sentinel-2 looks for db-sentinel-0 at 10.9.9.9"),
        (
            sentinel(2, replicas=(replace(BLIND[0], flags=DOWN), BLIND[1])),
            "db-sentinel-2 does not reach db-1 at 10.0.0.1",
        ),
    ],
    ids=["another sentinel", "another address", "a replica"],
)
def test_sentinels_that_could_not_fail_over_are_told(divided: SentinelSeen, said: str) -> None:
    observed = replace(WHOLE, sentinels=(sentinel(0), sentinel(1), divided))
    assert said in blocked(observed)
    assert condition(told(observed), "Ready")[0] == "False"
    first, *_ = steps(observed, ASKED)
    assert isinstance(first, SwitchOver), "the operator itself reaches all of them"


def test_no_sentinel_is_replaced_before_the_others_know_where_the_last_one_is() -> None:
    observed = replace(
        WHOLE,
        sentinels=(sentinel(0), sentinel(1), knowing(2, ip="10.9.9.9")),
        sentinel_workload=replace(SENTINELS, revision="s2"),
    )
    assert steps(observed) == ()


PAST = sentinel(1, in_the_past=True)


def test_a_sentinel_whose_clock_was_set_far_back_is_recreated() -> None:
    (step,) = steps(replace(WHOLE, sentinels=(sentinel(0), PAST, sentinel(2))))
    assert isinstance(step, DeletePod)
    assert step.pod == "db-sentinel-1"


@pytest.mark.parametrize(
    "other",
    [
        tilted(2),
        sentinel(2, flags=frozenset({SentinelFlag.S_DOWN})),
    ],
    ids=["TILT", "not connected"],
)
def test_it_waits_until_the_others_are_whole(other: SentinelSeen) -> None:
    observed = replace(WHOLE, sentinels=(sentinel(0), PAST, other))
    assert steps(observed) == ()
    assert "recreated when the others are whole: db-sentinel-2" in blocked(observed)


def test_sentinels_whose_clocks_were_all_set_back_do_not_wait_for_each_other() -> None:
    """On one node, or on nodes with the same source of time, no sentinel is left that acts."""
    past = tuple(sentinel(n, in_the_past=True) for n in range(3))
    (step,) = steps(replace(WHOLE, sentinels=past))
    assert isinstance(step, DeletePod)
    assert step.pod == "db-sentinel-0"
    ending = replace(past[0], pod=replace(past[0].pod, deleting=True))
    one_by_one = replace(WHOLE, sentinels=(ending, *past[1:]))
    assert steps(one_by_one) == ()
    assert "db-sentinel-0 is being deleted" in blocked(one_by_one)


def test_a_further_name_that_a_sentinel_monitors_is_told() -> None:
    found = sentinel(0)
    foreign = Monitored(name="other.db", ip="10.9.9.9", port=6379)
    seen = replace(found, view=replace(found.view, monitored=(*found.view.monitored, foreign)))
    status = told(replace(WHOLE, sentinels=(seen, sentinel(1), sentinel(2))))
    assert condition(status, "Degraded") == ("True", "ForeignPrimary")
    (message,) = (c.message for c in status.conditions if c.type == "Degraded")
    assert "db-sentinel-0 also monitors other.db" in message


def test_an_even_number_of_sentinels_is_pointed_out_and_nothing_is_wrong() -> None:
    sentinels = tuple(sentinel(n) for n in range(4))
    observed = replace(
        WHOLE, sentinels=sentinels, sentinel_workload=replace(WHOLE.sentinel_workload, pods=4)
    )
    status = told(observed, replace(WANTED, sentinels=4, quorum=3))
    (message,) = (c.message for c in status.conditions if c.type == "Available")
    assert "4 sentinels survive the loss of no more than 3 would" in message
    assert condition(status, "Available") == ("True", "Serving")


def test_one_primary_with_replicas_is_one_shard() -> None:
    assert told(WHOLE).shard_count == 1


@pytest.mark.parametrize(("formed", "count"), [(False, 0), (True, 1)])
def test_another_primary_is_news_only_once_somebody_was_served(count: int, *, formed: bool) -> None:
    before: Any = RedisStatus(
        shards=(ShardStatus(name="server-0", primary="db-0"),),
        binding=Binding("conn") if formed else None,
    )
    after = replace(before, shards=(ShardStatus(name="server-0", primary="db-1"),))
    assert [a.reason for a in announcements(before, after)] == ["PrimaryChanged"] * count


def many(pods: int, *away: int) -> Observed:
    """More sentinels than are wanted, of which some do not respond."""
    known = tuple(OtherSentinel(f"id-{n}", f"10.0.1.{n}", 26379) for n in range(pods))
    watchers = (
        Unreachable(pod=sentinel(n).pod, error="timed out", since=NOW)
        if n in away
        else sentinel(n, sentinels=tuple(other for other in known if other.id != f"id-{n}"))
        for n in range(pods)
    )
    workload = replace(SENTINELS, pods=pods)
    return replace(WHOLE, sentinels=tuple(watchers), sentinel_workload=workload)


@pytest.mark.parametrize("away", [(), (3,), (4,), (3, 4)])
def test_a_sentinel_that_is_not_wanted_and_does_not_respond_holds_no_removal_up(
    away: tuple[int, ...],
) -> None:
    (step,) = steps(many(5, *away))
    assert isinstance(step, ScaleWorkload)
    assert (step.from_pods, step.to_pods) == (5, 4)


def test_none_is_removed_while_a_wanted_one_does_not_respond_or_no_majority_would_be_left() -> None:
    assert steps(many(5, 2)) == ()
    assert steps(many(7, 3, 4, 5)) == ()
    assert "a majority must" in blocked(many(7, 3, 4, 5))


RESET = {"known_ms": 500, "sentinels": (), "replicas": ()}


def seen(phase: Phase, *found: SentinelSeen) -> str:
    """Whether a database that was in a phase is told to be Ready with these sentinels."""
    observed = replace(WHOLE, sentinels=found)
    before = replace(told(WHOLE), phase=phase)
    context = Context(previous=before, generation=1, now="2026-01-01T00:00:00Z", binding="conn")
    return condition(status(WANTED, observed, plan(WANTED, observed, NOW), context), "Ready")[0]


@pytest.mark.parametrize(
    ("phase", "found", "ready"),
    [
        (Phase.READY, sentinel(2, **RESET), "True"),
        (Phase.READY, sentinel(2, **RESET, flags=frozenset({DISCONNECTED})), "True"),
        (Phase.CREATING, sentinel(2, **RESET), "False"),
        (Phase.READY, sentinel(2, **(RESET | {"known_ms": 20_000})), "False"),
        (Phase.READY, sentinel(2, **RESET, flags=DOWN), "False"),
        (Phase.READY, sentinel(2, **(RESET | {"ip": "10.9.9.9"})), "False"),
    ],
    ids=["reset", "connecting", "new", "lasts", "down", "elsewhere"],
)
def test_a_database_stays_ready_while_one_sentinel_finds_the_others_again(
    phase: Phase, found: SentinelSeen, ready: str
) -> None:
    assert seen(phase, sentinel(0), sentinel(1), found) == ready


def test_a_database_is_not_ready_while_most_sentinels_find_each_other_again() -> None:
    assert seen(Phase.READY, sentinel(0), sentinel(1, **RESET), sentinel(2, **RESET)) == "False"
