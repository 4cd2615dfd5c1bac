"""Preconditions of mode Failover as a table: the facts right before a step, and the answer."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.failover.test_failover import NAME, WHOLE, of, sentinel, server
from redis_operator.planning.actions import Action
from redis_operator.planning.at import At, at
from redis_operator.planning.failover.actions import (
    Elect,
    Follow,
    FollowSource,
    Introduce,
    Promote,
    ResetSentinel,
    SwitchOver,
    Unwatch,
    Watch,
)
from redis_operator.planning.failover.preconditions import (
    begun_election,
    gave_up,
    naming,
    not_a_primary,
)
from redis_operator.planning.fence import Fence
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.observed import SentinelSeen
from redis_operator.planning.preconditions import ActionFacts, ServerFacts, precondition
from redis_operator.planning.sentinels import SentinelFlag, SentinelView, WatchedReplica

PRIMARY, REPLICA = at(WHOLE.seen[0]), at(WHOLE.seen[1])
WATCHERS: tuple[At, ...] = tuple(
    at(one) for one in WHOLE.sentinels if isinstance(one, SentinelSeen)
)
S_DOWN, O_DOWN, FAILOVER = SentinelFlag.S_DOWN, SentinelFlag.O_DOWN, SentinelFlag.FAILOVER
AT_REST = tuple(sentinel(n).view for n in range(3))


def view(ordinal: int = 0, names: int | None = 0, **fields: Any) -> SentinelView:
    return sentinel(ordinal, names, **fields).view


def flagged(*flags: SentinelFlag, **fields: Any) -> SentinelView:
    return view(2, flags=frozenset(flags), **fields)


def replica(**fields: Any) -> ServerFacts:
    told = {"follows": of(0), "offset": 100, "replication_id": "history", **fields}
    return ServerFacts(id=NodeId("run-1"), role=Role.REPLICA, **told)


LEADS = ServerFacts(id=NodeId("run-1"), role=Role.PRIMARY, offset=100, replication_id="history")

PROMOTE = Promote(
    node=REPLICA,
    follows=of(0),
    fence=Fence.PROCESS_GONE,
    replication_id="history",
    min_offset=100,
    sentinels=WATCHERS,
    name=NAME,
)
DEPOSED = replace(PROMOTE, fence=Fence.DEPOSED, needed=2)
FOLLOW = Follow(node=REPLICA, primary=at(server(2)), follows=of(0))
SOURCE = FollowSource(node=REPLICA, host="10.8.8.8", port=7000, follows=of(0))
WATCH = Watch(node=WATCHERS[0], name=NAME, primary=PRIMARY, quorum=2)
AFRESH = replace(WATCH, afresh=True)
UNWATCH = Unwatch(node=WATCHERS[0], name=NAME, named=f"{PRIMARY.ip}:6379")
RESET = ResetSentinel(node=WATCHERS[0], name=NAME, primary=PRIMARY)
SWITCH = SwitchOver(node=REPLICA, primary=PRIMARY, name=NAME, sentinels=WATCHERS)

ELECT = Elect(
    node=REPLICA,
    follows=of(0),
    name=NAME,
    sentinels=WATCHERS,
    needed=2,
    replication_id="history",
    min_offset=100,
)
DOWN = tuple(view(n, flags=frozenset({S_DOWN}), down_ms=5000) for n in range(3))
LED = replace(FOLLOW, follows="", sentinels=WATCHERS, name=NAME, needed=2)
INTRODUCE = Introduce(node=WATCHERS[0], name=NAME, primary=PRIMARY, others=WATCHERS[1:])

ROWS: dict[str, tuple[Action, ActionFacts, str]] = {
    "promote: silent": (PROMOTE, ActionFacts(), "db-1 does not respond"),
    "promote: as it was": (PROMOTE, ActionFacts(server=replica(), sentinels=AT_REST), ""),
    "promote: it leads": (PROMOTE, ActionFacts(server=replace(LEADS, offset=0)), ""),
    "promote: follows another": (
        PROMOTE,
        ActionFacts(server=replica(follows=of(2))),
        "db-1 follows 10.0.0.2:6379 now",
    ),
    "promote: one byte less": (
        PROMOTE,
        ActionFacts(server=replica(offset=99)),
        "db-1 is at offset 99, before 100",
    ),
    "promote: more than then": (PROMOTE, ActionFacts(server=replica(offset=101)), ""),
    "promote: another history": (
        PROMOTE,
        ActionFacts(server=replica(replication_id="x")),
        "db-1 has another history now",
    ),
    "promote: no history known": (
        replace(PROMOTE, replication_id=""),
        ActionFacts(server=replica(replication_id="x")),
        "",
    ),
    "promote: a failover began": (
        PROMOTE,
        ActionFacts(server=replica(), sentinels=(*AT_REST[:2], flagged(FAILOVER))),
        "a sentinel is failing over",
    ),
    "promote: down and a replica can be promoted": (
        PROMOTE,
        ActionFacts(server=replica(), sentinels=(*AT_REST[:2], flagged(O_DOWN))),
        "the sentinels agree that the primary is down",
    ),
    "promote: names do not count with another fence": (
        replace(PROMOTE, needed=2),
        ActionFacts(server=replica(), sentinels=AT_REST),
        "",
    ),
    "promote: deposed, one names it": (
        DEPOSED,
        ActionFacts(server=replica(), sentinels=(view(0, 1), view(1), view(2))),
        "1 sentinels name db-1, 2 are needed",
    ),
    "promote: deposed, two name it": (
        DEPOSED,
        ActionFacts(server=replica(), sentinels=(view(0, 1), view(1, 1), view(2))),
        "",
    ),
    "promote: deposed, and a failover began": (
        DEPOSED,
        ActionFacts(server=replica(), sentinels=(view(0, 1), view(1, 1), flagged(FAILOVER))),
        "a sentinel is failing over",
    ),
    "follow: silent": (FOLLOW, ActionFacts(), "db-1 does not respond"),
    "follow: as it was": (FOLLOW, ActionFacts(server=replica()), ""),
    "follow: does already": (FOLLOW, ActionFacts(server=replica(follows=of(2))), ""),
    "follow: another one": (
        FOLLOW,
        ActionFacts(server=replica(follows=of(7))),
        "db-1 follows 10.0.0.7:6379 now",
    ),
    "follow: leads now": (FOLLOW, ActionFacts(server=LEADS), "db-1 follows no primary now"),
    "follow: led and does": (replace(FOLLOW, follows=""), ActionFacts(server=LEADS), ""),
    "source: silent": (SOURCE, ActionFacts(), "db-1 does not respond"),
    "source: as it was": (SOURCE, ActionFacts(server=replica()), ""),
    "source: does already": (SOURCE, ActionFacts(server=replica(follows="10.8.8.8:7000")), ""),
    "source: another port": (
        SOURCE,
        ActionFacts(server=replica(follows="10.8.8.8:7001")),
        "db-1 follows 10.8.8.8:7001 now",
    ),
    "source: takes writes": (SOURCE, ActionFacts(server=LEADS), "db-1 accepts writes now"),
    "watch: silent": (WATCH, ActionFacts(), "db-sentinel-0 does not respond"),
    "watch: at rest": (WATCH, ActionFacts(sentinel=view()), ""),
    "watch: monitors nothing": (WATCH, ActionFacts(sentinel=view(0, None)), ""),
    "watch: fails over": (
        WATCH,
        ActionFacts(sentinel=flagged(FAILOVER)),
        "db-sentinel-0 is failing over",
    ),
    "watch: holds it for dead": (WATCH, ActionFacts(sentinel=flagged(S_DOWN)), ""),
    "watch afresh: at rest": (AFRESH, ActionFacts(sentinel=view()), ""),
    "watch afresh: monitors nothing": (AFRESH, ActionFacts(sentinel=view(0, None)), ""),
    "watch afresh: holds it for dead": (
        AFRESH,
        ActionFacts(sentinel=flagged(S_DOWN)),
        "db-sentinel-0 has no connection to the primary",
    ),
    "unwatch: silent": (UNWATCH, ActionFacts(), "db-sentinel-0 does not respond"),
    "unwatch: answers": (UNWATCH, ActionFacts(sentinel=view()), ""),
    "reset: silent": (
        RESET,
        ActionFacts(),
        "db-sentinel-0 does not respond, or monitors no primary",
    ),
    "reset: monitors nothing": (
        RESET,
        ActionFacts(sentinel=view(0, None)),
        "db-sentinel-0 does not respond, or monitors no primary",
    ),
    "reset: at rest": (RESET, ActionFacts(sentinel=view()), ""),
    "reset: another primary": (
        RESET,
        ActionFacts(sentinel=view(0, 1)),
        "db-sentinel-0 names another primary now",
    ),
    "reset: another port": (
        RESET,
        ActionFacts(sentinel=view(0, port=6380)),
        "db-sentinel-0 names another primary now",
    ),
    "reset: fails over": (
        RESET,
        ActionFacts(sentinel=flagged(FAILOVER)),
        "is failing over, or has no",
    ),
    "reset: not connected": (
        RESET,
        ActionFacts(sentinel=flagged(SentinelFlag.DISCONNECTED)),
        "is failing over, or has no connection",
    ),
    "switch: silent": (SWITCH, ActionFacts(sentinels=AT_REST), "db-1 does not respond"),
    "switch: as it was": (SWITCH, ActionFacts(server=replica(), sentinels=AT_REST), ""),
    "switch: it leads": (SWITCH, ActionFacts(server=LEADS), ""),
    "switch: follows another": (
        SWITCH,
        ActionFacts(server=replica(follows=of(2)), sentinels=AT_REST),
        "db-1 follows 10.0.0.2:6379 now",
    ),
    "switch: a sentinel is silent": (
        SWITCH,
        ActionFacts(server=replica(), sentinels=AT_REST[:2]),
        "a sentinel does not respond",
    ),
    "switch: one names another": (
        SWITCH,
        ActionFacts(server=replica(), sentinels=(*AT_REST[:2], view(2, 1))),
        "2 of 3 sentinels name db-0 as the primary now",
    ),
    "elect: silent": (ELECT, ActionFacts(sentinels=DOWN), "db-1 does not respond"),
    "elect: as it was": (ELECT, ActionFacts(server=replica(), sentinels=DOWN), ""),
    "elect: it leads": (
        ELECT,
        ActionFacts(server=replace(LEADS, follows=of(0)), sentinels=DOWN),
        "db-1 follows 10.0.0.0:6379 now",
    ),
    "elect: follows another": (
        ELECT,
        ActionFacts(server=replica(follows=of(2)), sentinels=DOWN),
        "db-1 follows 10.0.0.2:6379 now",
    ),
    "elect: one byte less": (
        ELECT,
        ActionFacts(server=replica(offset=99), sentinels=DOWN),
        "db-1 has other data now",
    ),
    "elect: another history": (
        ELECT,
        ActionFacts(server=replica(replication_id="x"), sentinels=DOWN),
        "db-1 has other data now",
    ),
    "elect: two name it": (
        ELECT,
        ActionFacts(server=replica(), sentinels=(view(0, 1), view(1, 1), flagged(FAILOVER))),
        "",
    ),
    "elect: one names it": (
        ELECT,
        ActionFacts(server=replica(), sentinels=(view(0, 1), view(1), view(2))),
        "0 sentinels consider 10.0.0.0:6379 dead, 2 are needed",
    ),
    "elect: one trusts it again": (
        ELECT,
        ActionFacts(server=replica(), sentinels=(DOWN[0], *AT_REST[1:])),
        "1 sentinels consider 10.0.0.0:6379 dead, 2 are needed",
    ),
    "elect: a failover began": (
        ELECT,
        ActionFacts(server=replica(), sentinels=(*DOWN[:2], flagged(FAILOVER))),
        "a sentinel is failing over",
    ),
    "promote: elected another since": (
        PROMOTE,
        ActionFacts(server=replica(), sentinels=(*AT_REST[:2], view(2, 2))),
        "a sentinel names 10.0.0.2:6379 as the primary now",
    ),
    "follow: two elected it": (
        LED,
        ActionFacts(server=LEADS, sentinels=(view(0, 1), view(1, 1), view(2))),
        "2 sentinels name db-1 as the primary now",
    ),
    "follow: one elected it": (
        LED,
        ActionFacts(server=LEADS, sentinels=(view(0, 1), view(1), view(2))),
        "",
    ),
    "follow: a failover began": (
        LED,
        ActionFacts(server=LEADS, sentinels=(*AT_REST[:2], flagged(FAILOVER))),
        "a sentinel is failing over",
    ),
    "watch: elected another since": (
        WATCH,
        ActionFacts(sentinel=view(0, 2)),
        "db-sentinel-0: a sentinel names 10.0.0.2:6379 as the primary now",
    ),
    "introduce: silent": (INTRODUCE, ActionFacts(), "db-sentinel-0 does not respond"),
    "introduce: names it": (INTRODUCE, ActionFacts(sentinel=view()), ""),
    "introduce: another primary": (
        INTRODUCE,
        ActionFacts(sentinel=view(0, 1)),
        "db-sentinel-0 names another primary now",
    ),
    "unwatch: elected another since": (
        UNWATCH,
        ActionFacts(sentinel=view(0, 1)),
        "db-sentinel-0: a sentinel names 10.0.0.1:6379 as the primary now",
    ),
    "unwatch: fails over": (
        UNWATCH,
        ActionFacts(sentinel=flagged(FAILOVER)),
        "db-sentinel-0: a sentinel is failing over",
    ),
    "switch: a failover began": (
        SWITCH,
        ActionFacts(server=replica(), sentinels=(*AT_REST[:2], flagged(FAILOVER))),
        "a sentinel is failing over",
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_what_is_known_right_before_a_step_decides_whether_it_is_taken(row: str) -> None:
    action, facts, words = ROWS[row]
    found = precondition(action, facts)
    assert (words in (found or "")) if words else found is None


# What sentinels say together


def known(**fields: Any) -> tuple[WatchedReplica, ...]:
    return (WatchedReplica("10.0.0.1", 6379, **fields),)


OTHER_NAME = SentinelView(
    id="x", monitored=(replace(flagged(FAILOVER).monitored[0], name="another"),)
)

ELECTIONS: dict[str, tuple[tuple[SentinelView, ...], str]] = {
    "no sentinel": ((), ""),
    "at rest": (AT_REST, ""),
    "monitors nothing, and the next one fails over": (
        (view(0, None), flagged(FAILOVER)),
        "a sentinel is failing over",
    ),
    "fails over another primary": ((OTHER_NAME,), ""),
    "down for one only": ((flagged(S_DOWN),), ""),
    "down for all": ((flagged(S_DOWN, O_DOWN),), "elect who fails over"),
    "down for all, and no replica is known": ((flagged(O_DOWN, replicas=()),), ""),
    "down for all, and no replica is eligible": (
        (flagged(O_DOWN, replicas=known(priority=0)),),
        "",
    ),
    "down for all, and one replica of priority 1": (
        (flagged(O_DOWN, replicas=known(priority=1)),),
        "elect who fails over",
    ),
    "down for all, and the replica lost its link a minute before": (
        (flagged(O_DOWN, down_ms=7000, down_after_ms=5000, replicas=known(link_down_ms=62_001)),),
        "",
    ),
    "down for all, and what is known of its link may be old": (
        (flagged(O_DOWN, down_ms=7000, down_after_ms=5000, replicas=known(link_down_ms=62_000)),),
        "elect who fails over",
    ),
    "down for all, and the replica is down": (
        (flagged(O_DOWN, replicas=known(flags=frozenset({S_DOWN}))),),
        "",
    ),
}


@pytest.mark.parametrize("row", ELECTIONS)
def test_an_election_is_known_from_what_the_sentinels_say(row: str) -> None:
    views, words = ELECTIONS[row]
    found = begun_election(NAME, views)
    assert (words in (found or "")) if words else found is None


def down(**fields: Any) -> SentinelView:
    told = {"flags": frozenset({S_DOWN}), "down_ms": 5000, **fields}
    return view(0, **told)


GAVE_UP: dict[str, tuple[tuple[SentinelView, ...], int]] = {
    "two of three": ((down(), view(1), down()), 2),
    "not for long enough": ((down(down_ms=4999),), 0),
    "for longer than it needs": ((down(down_ms=5001),), 1),
    "not held for dead": ((down(flags=frozenset({O_DOWN})),), 0),
    "at another port": ((down(port=6380),), 0),
    "at another address": ((down(ip="10.0.0.9"),), 0),
    "in TILT mode": ((replace(down(), tilt=True),), 0),
    "monitors nothing": ((view(0, None), down()), 1),
}


@pytest.mark.parametrize("row", GAVE_UP)
def test_sentinels_that_gave_up_are_counted(row: str) -> None:
    views, count = GAVE_UP[row]
    assert gave_up(NAME, of(0), views) == count


@pytest.mark.parametrize(
    ("views", "count"),
    [
        ((), 0),
        (AT_REST, 3),
        ((view(0), view(1, 1), view(2, None)), 1),
        ((view(0, port=6380),), 0),
    ],
    ids=["none", "all", "one", "another port"],
)
def test_sentinels_that_name_a_server_are_counted(
    views: tuple[SentinelView, ...], count: int
) -> None:
    assert naming(NAME, PRIMARY, views) == count


def test_only_a_primary_is_followed_and_watched() -> None:
    assert not_a_primary(REPLICA, LEADS) is None
    assert not_a_primary(REPLICA, replica()) == "db-1 is no longer a primary"
