"""Replicas that lost their link long before the primary ended: its files are waited for. SE-18"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.failover.test_failover import (
    IN_MEMORY,
    WANTED,
    WHOLE,
    blocked,
    dead,
    fresh,
    made,
    of,
    sentinel,
    server,
    steps,
)
from planning.failover.test_failover_silent import GAVE_UP
from redis_operator.planning.failover.actions import Promote
from redis_operator.planning.observed import Evidence, Observed, SentinelSeen
from redis_operator.redis.slots import ALL_SLOTS

GIVEN_UP = replace(WANTED, accepted_loss=ALL_SLOTS)
LINK: dict[str, Any] = {"link_up": False, "down_seconds": 60.0}
REPLICAS = tuple(server(n, of(0), link=LINK) for n in (1, 2))


def late(ordinal: int, *, link_down_ms: int = 60_000, **fields: Any) -> SentinelSeen:
    """A sentinel to which both replicas said that they have had no link for a minute."""
    known = sentinel(ordinal).view.monitored[0].replicas
    replicas = tuple(replace(replica, link_down_ms=link_down_ms) for replica in known)
    return sentinel(ordinal, **{**fields, "replicas": replicas})


LATE = tuple(late(n) for n in range(3))


def after(*nodes: Any, sentinels: tuple[Any, ...] = LATE) -> Observed:
    return made(*nodes, *REPLICAS, sentinels=sentinels)


def promoted(observed: Observed, wanted: Any = WANTED) -> list[str]:
    return [s.node.pod for s in steps(observed, wanted) if isinstance(s, Promote)]


def test_a_primary_that_ended_is_waited_for() -> None:
    found = after(dead(0))
    assert promoted(found) == []
    assert "db-0 does not respond" in blocked(found)
    assert "db-1, db-2 lost the link to the primary long before that ended" in blocked(found)
    assert "kubectl annotate redis db --overwrite redisoperator.dev/accept-data-loss=all" in (
        blocked(found)
    )


def test_a_person_may_go_on_with_what_the_replicas_have() -> None:
    assert promoted(after(dead(0)), GIVEN_UP) == ["db-1"]


def test_in_memory_there_is_nothing_to_wait_for() -> None:
    assert promoted(after(dead(0)), IN_MEMORY) == ["db-1"]


NAMED = sentinel(0, 1).view.monitored[0]


@pytest.mark.parametrize(
    "sentinels",
    [
        tuple(late(n, link_down_ms=50_000) for n in range(3)),
        tuple(late(n, down_ms=10_000) for n in range(3)),
        (sentinel(0, None), sentinel(1), sentinel(2)),
        tuple(replace(s, view=replace(s.view, tilt=True)) for s in LATE),
        tuple(late(n, ip="10.9.9.9") for n in range(3)),
    ],
    ids=["not for long", "since it ended", "not known", "TILT", "of another primary"],
)
def test_replicas_that_lost_it_with_the_link_or_a_little_before_are_promoted(
    sentinels: tuple[Any, ...],
) -> None:
    assert promoted(after(dead(0), sentinels=sentinels)) == ["db-1"]


def test_one_that_kept_its_link_is_promoted() -> None:
    known = LATE[0].view.monitored[0].replicas
    one = tuple(sentinel(n, replicas=(known[0], WHOLE_KNOWN[1])) for n in range(3))
    assert promoted(after(dead(0), sentinels=one)) == ["db-2"]


WHOLE_KNOWN = sentinel(0).view.monitored[0].replicas


def test_a_silent_primary_is_not_voted_away_for_them() -> None:
    silent = after(
        dead(0, Evidence.SILENT),
        sentinels=tuple(late(n, **{**GAVE_UP, "link_down_ms": 70_000}) for n in range(3)),
    )
    assert steps(silent) == ()
    assert promoted(silent, GIVEN_UP) == ["db-1"]


BACK = fresh(0, keys=6)


def test_it_leads_again_with_what_it_read_from_its_files() -> None:
    """An append-only file begins a new history: the status names the old one, and who led."""
    assert promoted(after(BACK)) == ["db-0"]


@pytest.mark.parametrize(
    "back",
    [
        fresh(0),
        replace(BACK, replication=replace(BACK.replication, id="history", offset=90)),
    ],
    ids=["without files", "with an older snapshot"],
)
def test_replicas_that_have_more_lead(back: Any) -> None:
    assert promoted(after(back)) == ["db-1"]


def test_another_server_that_came_back_does_not_take_its_place() -> None:
    other = fresh(2, keys=3)
    found = made(fresh(0), REPLICAS[0], other, sentinels=LATE)
    assert promoted(found) == ["db-1"]
    assert WHOLE.led[0].pod == "db-0"
