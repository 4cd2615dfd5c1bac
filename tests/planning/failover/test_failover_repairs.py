"""Repairs of mode Failover as tables: who follows, what sentinels watch, hear of and forget."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.failover.test_failover import (
    BARE,
    WANTED,
    WHOLE,
    fresh,
    made,
    of,
    sentinel,
    server,
)
from planning.failover.test_failover_rules import (
    BEHIND,
    DOWN,
    FAILING,
    GONE,
    HEADLESS,
    OTHERS,
    REPLICAS,
    moment,
    ruled,
    soon,
    third,
)
from redis_operator.planning.advice import PlanPhase
from redis_operator.planning.failover.acquaint import acquaint
from redis_operator.planning.failover.follow import follow, limitation
from redis_operator.planning.failover.ghosts import forget_replicas, forget_sentinels
from redis_operator.planning.failover.introduce import introduce
from redis_operator.planning.failover.set_aside import set_aside
from redis_operator.planning.failover.tails import tail
from redis_operator.planning.failover.vouch import vouch
from redis_operator.planning.failover.watch import watch
from redis_operator.planning.observed import (
    Seen,
    SentinelSeen,
)
from redis_operator.planning.sentinels import OtherSentinel, WatchedReplica

# Followers


@pytest.mark.parametrize(
    ("node", "follows"),
    [
        (server(2, of(0)), False),
        (server(2, of(1)), True),
        (fresh(2), True),
        (server(2), True),
        (server(2, of(1), loading=True), False),
        (server(2, of(1), pod={"deleting": True}), False),
    ],
    ids=["in place", "of a replica", "restarted", "a second primary", "loads", "goes"],
)
def test_a_server_that_is_not_in_place_follows(node: Seen, *, follows: bool) -> None:
    observed = made(server(0), server(1, of(0)), node)
    found = follow(moment(observed))
    assert (found is not None and [s.node.pod for s in found.steps] == ["db-2"]) is follows
    assert follows is (found is not None)


def test_followers_wait_for_an_election_and_for_a_primary() -> None:
    observed = made(server(0), server(1, of(0)), fresh(2))
    for formed, phase in ((True, PlanPhase.HEALING), (False, PlanPhase.CREATING)):
        found = ruled(follow, replace(observed, formed=formed))
        assert found.phase is phase
        assert found.routine
        begun = third(flags=FAILING).sentinels
        waits = ruled(follow, replace(observed, formed=formed, sentinels=begun))
        assert soon(waits, 0.5)
        assert waits.phase is phase
        assert waits.blocked == ("a sentinel is failing over",)
    assert follow(moment(HEADLESS)) is None


@pytest.mark.parametrize(
    ("nodes", "routine"),
    [
        ((fresh(1), fresh(2)), True),
        ((fresh(1), server(2, of(1))), False),
        ((server(1), fresh(2)), False),
    ],
    ids=["both restarted", "one moved", "one leads"],
)
def test_attaching_servers_that_restarted_is_routine(
    nodes: tuple[Seen, ...], *, routine: bool
) -> None:
    assert ruled(follow, made(server(0), *nodes)).routine is routine


def test_a_server_does_not_drop_data_for_an_empty_primary_of_another_history() -> None:
    empty, full = server(0, keys=0, link={"id": "x"}), server(1, of(9))
    assert "does not follow an empty primary" in (limitation(full, empty) or "")
    assert limitation(server(1, of(9), keys=0), empty) is None
    assert limitation(full, server(0, keys=0)) is None
    assert limitation(full, server(0, link={"id": "x"})) is None
    found = ruled(follow, made(empty, full, fresh(2)))
    assert [s.node.pod for s in found.steps] == ["db-2"]
    assert len(found.blocked) == 1
    assert ruled(follow, made(empty, full)).stages == ()


@pytest.mark.parametrize(
    ("mine", "other", "words"),
    [
        (
            {"id": "a", "id2": "b", "id2_offset": 51, "offset": 90},
            {"id": "b", "offset": 70},
            "40 bytes of writes after offset 50",
        ),
        (
            {"id": "a", "id2": "c", "id2_offset": 61, "offset": 90},
            {"id": "b", "id2": "c", "id2_offset": 71},
            "30 bytes of writes after offset 60",
        ),
        (
            {"id": "a", "id2": "c", "id2_offset": 61, "offset": 90},
            {"id": "c", "id2": "d", "id2_offset": 11, "offset": 70},
            "30 bytes of writes after offset 60",
        ),
        ({"id": "a", "id2": "x", "offset": 90}, {"id": "a", "offset": 89}, "1 bytes"),
        ({"id": "", "offset": 90}, {"id": "", "id2": ""}, "5 keys of a history of its own"),
        ({"id": "", "offset": 90}, {"id": "b", "id2": ""}, "5 keys of a history of its own"),
    ],
    ids=["promoted", "both promoted", "of its first", "ahead", "unknown", "unknown beside known"],
)
def test_what_a_second_primary_took_is_told_from_where_the_histories_part(
    mine: dict[str, Any], other: dict[str, Any], words: str
) -> None:
    assert tail(server(1, link=mine), server(0, link=other)).startswith(words)


def test_files_are_not_put_aside_of_a_primary_that_goes_or_where_there_are_none() -> None:
    own = {"id": "own", "id2": "history", "id2_offset": 51, "offset": 60}
    second = server(1, link=own)
    assert set_aside(moment(made(server(0), second))) is not None
    assert set_aside(moment(made(server(0)))) is None
    assert set_aside(moment(HEADLESS)) is None
    assert set_aside(moment(made(server(0), server(1, link=own, pod={"deleting": True})))) is None
    assert set_aside(moment(made(server(0), second), replace(WANTED, persistent=False))) is None


# Watching

OTHER_ADDRESS = replace(WHOLE, sentinels=(sentinel(0), sentinel(1, 2), sentinel(2, None)))


def test_sentinels_are_told_once_no_election_has_begun() -> None:
    found = ruled(watch, OTHER_ADDRESS)
    assert [s.node.pod for s in found.steps] == ["db-sentinel-1", "db-sentinel-2"]
    assert (found.phase, found.routine) == (PlanPhase.HEALING, False)
    new = ruled(watch, replace(WHOLE, sentinels=BARE, formed=False))
    assert (new.phase, new.routine) == (PlanPhase.CREATING, True)
    begun = (sentinel(0, flags=FAILING), *OTHER_ADDRESS.sentinels[1:])
    waits = ruled(watch, replace(OTHER_ADDRESS, sentinels=begun))
    assert soon(waits, 0.5)
    assert waits.phase is PlanPhase.HEALING
    assert watch(moment(WHOLE)) is None
    assert watch(moment(replace(HEADLESS, sentinels=BARE))) is None


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        ("down-after-milliseconds", "down_after_ms"),
        ("failover-timeout", "failover_timeout_ms"),
        ("parallel-syncs", "parallel_syncs"),
    ],
)
def test_a_setting_that_differs_is_set(setting: str, field: str) -> None:
    wanted = replace(WANTED, sentinel_settings=((setting, "7"),))
    same = tuple(sentinel(n, **{field: 7}) for n in range(3))
    assert watch(moment(replace(WHOLE, sentinels=same), wanted)) is None
    other = (*same[:2], sentinel(2, **{field: 8}))
    found = ruled(watch, replace(WHOLE, sentinels=other), wanted)
    assert [s.node.pod for s in found.steps] == ["db-sentinel-2"]
    assert found.phase is PlanPhase.UPDATING  # nothing is wrong: the spec has changed


def test_another_port_is_another_address() -> None:
    found = ruled(watch, third(port=6380))
    assert "db-sentinel-2 names 10.0.0.0:6380 as the primary" in found.why


# Introducing


def hearing(ordinal: int, *heard: int, **fields: Any) -> SentinelSeen:
    known = tuple(OtherSentinel(f"id-{n}", f"10.0.1.{n}", 26379) for n in heard)
    return sentinel(ordinal, sentinels=known, **fields)


def test_introductions_are_urgent_and_need_a_primary() -> None:
    deaf = (hearing(0, 1), hearing(1, 0, 2), hearing(2, 0, 1))
    found = ruled(introduce, replace(WHOLE, sentinels=deaf))
    assert (found.urgent, found.phase) == (True, PlanPhase.HEALING)
    assert [s.node.pod for s in found.steps] == ["db-sentinel-0"]
    assert "db-sentinel-0" in found.why
    assert "db-sentinel-1 " not in found.why
    first = ruled(introduce, replace(WHOLE, sentinels=deaf, formed=False))
    assert first.phase is PlanPhase.CREATING
    assert introduce(moment(WHOLE)) is None
    assert introduce(moment(replace(HEADLESS, sentinels=deaf))) is None


# What is gone

GHOST = WatchedReplica("10.0.9.9", 6379)


def test_sentinels_and_replicas_that_are_gone_are_forgotten_while_all_is_settled() -> None:
    counts = third(sentinels=(*OTHERS, GONE), replicas=(*REPLICAS, GHOST))
    for rule, words in ((forget_sentinels, "10.0.1.9:26379"), (forget_replicas, "10.0.9.9:6379")):
        found = ruled(rule, counts)
        (step,) = found.steps
        assert step.node.pod == "db-sentinel-2"
        assert [o.pod for o in step.others] == ["db-sentinel-0", "db-sentinel-1"]
        assert words in found.why
        assert (found.urgent, found.phase) == (True, PlanPhase.UPDATING)
        assert rule(moment(WHOLE)) is None
        assert rule(moment(replace(counts, nodes=HEADLESS.nodes))) is None
        assert rule(moment(replace(counts, nodes=BEHIND.nodes))) is None


def test_a_replica_at_another_port_of_a_pod_is_gone() -> None:
    counts = third(replicas=(*REPLICAS, WatchedReplica("10.0.0.1", 6380)))
    assert "10.0.0.1:6380" in ruled(forget_replicas, counts).why


# Replicas that may be promoted


@pytest.mark.parametrize(
    ("fields", "waits"),
    [
        ({}, False),
        ({"role_reported": "slave"}, True),
        ({"flags": DOWN}, True),
        ({"flags": FAILING}, True),
        ({"name": "another"}, True),
    ],
    ids=["up", "a replica to it", "down", "fails over", "monitors nothing"],
)
def test_replicas_are_vouched_for_once_every_sentinel_sees_the_primary(
    fields: dict[str, Any], *, waits: bool
) -> None:
    nodes = (server(0), server(1, of(0), link={"priority": 0}), server(2, of(0)))
    for formed, phase in ((True, PlanPhase.HEALING), (False, PlanPhase.CREATING)):
        found = ruled(vouch, replace(third(**fields), nodes=nodes, formed=formed))
        assert found.phase is phase
        assert [s.node.pod for s in found.steps] == ([] if waits else ["db-1"])
        assert soon(found) is waits
    assert vouch(moment(WHOLE)) is None


# Replicas that sentinels have not heard of


def test_a_sentinel_that_has_not_heard_of_a_replica_asks_again() -> None:
    blind = third(replicas=REPLICAS[:1])
    found = ruled(acquaint, blind)
    assert [(s.node.pod, s.afresh) for s in found.steps] == [("db-sentinel-2", True)]
    assert (found.urgent, found.phase) == (True, PlanPhase.HEALING)
    assert ruled(acquaint, replace(blind, formed=False)).phase is PlanPhase.CREATING
    asks = third(replicas=REPLICAS[:1], known_ms=499)
    assert soon(ruled(acquaint, asks), 0.5)
    assert ruled(acquaint, asks).phase is PlanPhase.HEALING
    assert acquaint(moment(WHOLE)) is None
    assert acquaint(moment(replace(blind, nodes=HEADLESS.nodes))) is None
