"""Who may be promoted over a dead primary, and who in its place: row by row."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning import moments as m
from redis_operator.planning.advice import Plan
from redis_operator.planning.at import at
from redis_operator.planning.cluster.actions import MoveSlots, Replicate
from redis_operator.planning.cluster.election import (
    LAG_BYTES,
    best,
    can_be_elected,
    limitation,
    outdated,
    ranked,
    successor,
    unsynced,
)
from redis_operator.planning.cluster.guards import GUARDS
from redis_operator.planning.guards import breaches
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.observed import Election, Observed, Unreachable
from redis_operator.redis.slots import NO_SLOTS, SlotSet

W = m.whole(2)
P0, A, B, P1, P2 = (m.server(W, pod) for pod in ("0-0", "0-1", "0-2", "1-0", "2-0"))
DEAD = m.viewed(m.dead(W, "0-0"), P0.id, connected=False)
OFFSET = A.replication.offset


def candidates(moment: Observed) -> list[str]:
    return [n.pod.name for n in ranked(m.situation(moment, replicas=2), P0.id)]


def test_who_has_most_data_is_first_then_who_is_in_another_zone_then_the_lower_ordinal() -> None:
    zones = m.but(m.but(m.but(W, "0-0", pod_zone="a"), "0-1", pod_zone="a"), "0-2", pod_zone="b")
    assert candidates(zones) == ["db-0-2", "db-0-1"]
    assert candidates(m.but(zones, "0-1", pod_zone="c")) == ["db-0-1", "db-0-2"]
    ahead = m.replicating(zones, "0-1", offset=OFFSET + 1)
    assert candidates(ahead) == ["db-0-1", "db-0-2"]


BEST: dict[str, tuple[Observed, dict[str, Any], str]] = {
    "two are equal": (DEAD, {}, "db-0-1"),
    "one is ahead": (m.replicating(DEAD, "0-2", offset=OFFSET + 1), {}, "db-0-2"),
    "a sibling is silent": (m.silent(DEAD, "0-2"), {}, "may hold newer data"),
    "a sibling is dead": (m.dead(DEAD, "0-2"), {}, "db-0-1"),
    "a silent pod of the shard may be one": (
        m.silent(DEAD, "0-2", known=False),
        {},
        "may hold newer data",
    ),
    "a silent pod of another shard may be anybody": (
        m.silent(DEAD, "1-2", known=False),
        {},
        "db-0-1",
    ),
    "a silent replica of another": (m.silent(DEAD, "1-2"), {}, "db-0-1"),
    "a silent pod of another shard follows it": (
        m.viewed(m.silent(DEAD, "1-2"), m.server(W, "1-2").id, replica_of=P0.id),
        {},
        "may hold newer data",
    ),
    "one has another shard's data": (
        m.replicating(DEAD, "0-1", id=P1.replication.id, offset=OFFSET + 9),
        {},
        "db-0-2",
    ),
    "both have": (
        m.replicating(
            m.replicating(DEAD, "0-1", id=P1.replication.id), "0-2", id=P1.replication.id
        ),
        {},
        "no live replica with its data",
    ),
    "one has the past of another shard": (
        m.replicating(m.replicating(DEAD, "1-0", id2="e" * 40), "0-1", id="e" * 40, offset=10**9),
        {},
        "db-0-2",
    ),
    "one restarted and has had no link": (
        m.replicating(DEAD, "0-1", unlinked=True, link_up=False, offset=OFFSET + 9),
        {},
        "db-0-2",
    ),
    "their histories differ": (
        m.knowing(m.replicating(DEAD, "0-1", id="e" * 40), histories=()),
        {},
        "different replication histories",
    ),
    "their histories differ, and one is known": (
        m.knowing(m.replicating(DEAD, "0-1", id="e" * 40), histories=((P0.id, A.replication.id),)),
        {},
        "db-0-2",
    ),
    "one never synced": (
        m.replicating(m.but(DEAD, "0-1", keys=0), "0-1", offset=0, link_up=False, id="f" * 40),
        {},
        "db-0-2",
    ),
    "the best may not lead": (m.but(DEAD, "0-1", loading=True), {}, "loading"),
}


@pytest.mark.parametrize(("moment", "spec", "expected"), BEST.values(), ids=BEST)
def test_the_best_replica_of_a_dead_primary_has_its_data_and_nobody_can_have_more(
    moment: Observed, spec: dict[str, Any], expected: str
) -> None:
    found, reason = best(m.situation(moment, replicas=2, **spec), P0.id)
    assert expected in (found.pod.name if found is not None else reason)
    assert (found is None) == (not expected.startswith("db-"))


OLD = m.replicating(DEAD, "0-1", unlinked=True, link_up=False)


def ended(observed: Observed, **fields: Any) -> Observed:
    """The same, but for what is known of servers that do not respond."""
    nodes = (replace(n, **fields) if isinstance(n, Unreachable) else n for n in observed.nodes)
    return replace(observed, nodes=tuple(nodes))


AOF = m.but(DEAD, "0-1", config=(("appendonly", "yes"),))
LATE = m.replicating(AOF, "0-1", link_up=False, down_seconds=20.1)
OUTDATED = {
    "it was linked": (DEAD, {}, False),
    "it lost its link long before": (LATE, {}, True),
    "shortly before": (m.replicating(LATE, "0-1", down_seconds=20.0), {}, False),
    "long ago, when the primary ended": (ended(LATE, since=m.NOW - 60), {}, False),
    "long before, and the primary has a snapshot": (
        m.but(LATE, "0-1", config=(("appendonly", "no"),)),
        {},
        False,
    ),
    "long before, and nothing is on disk": (LATE, {"volatile": True}, False),
    "long before, and its slots are given up": (LATE, {"accepted_loss": P0.slots}, False),
    "when the primary ended is not known": (ended(LATE, last_id=None), {}, False),
    "it restarted": (OLD, {}, True),
    "nothing is on disk": (OLD, {"volatile": True}, False),
    "the primary's files are broken": (m.but(OLD, "0-0", pod_unloadable="bad"), {}, False),
    "its slots are given up": (OLD, {"accepted_loss": P0.slots}, False),
    "others are": (OLD, {"accepted_loss": P1.slots}, True),
    "the primary's pod runs as another server": (
        replace(
            OLD,
            nodes=(
                replace(m.server(m.emptied(W, "0-0"), "0-0"), id=NodeId("f" * 40)),
                *(node for node in OLD.nodes if node.pod.name != "db-0-0"),
            ),
        ),
        {},
        False,
    ),
    "the primary's StatefulSet is gone, and created again": (
        replace(m.without(OLD, "0-0"), workloads=W.workloads[1:]),
        {},
        True,
    ),
    "the primary's pod may come back": (m.without(OLD, "0-0"), {}, True),
}


@pytest.mark.parametrize(("moment", "spec", "waits"), OUTDATED.values(), ids=OUTDATED)
def test_a_replica_that_restarted_waits_for_the_files_of_its_primary(
    moment: Observed, spec: dict[str, Any], *, waits: bool
) -> None:
    found = m.situation(moment, replicas=2, **spec)
    reason = outdated(found, m.server(moment, "0-1"), P0.id)
    assert (reason is not None) is waits
    assert reason is None or f"accept-data-loss={P0.slots}" in reason or str(P0.slots) in reason


VOTERS = m.viewed(DEAD, A.id, "1-0")
LIMITS: dict[str, tuple[Observed, str | None]] = {
    "all is well": (DEAD, None),
    "it loads": (m.but(DEAD, "0-1", loading=True), "loading"),
    "it syncs": (m.replicating(DEAD, "0-1", syncing=True), "full sync"),
    "its pod goes": (m.but(DEAD, "0-1", pod_deleting=True), "being deleted"),
    "it was killed for memory": (
        m.but(DEAD, "0-1", pod_killed_for_memory_at=m.NOW - 59),
        "killed once",
    ),
    "it was, a while ago": (m.but(DEAD, "0-1", pod_killed_for_memory_at=m.NOW - 61), None),
    "a voter has no link to it": (m.viewed(DEAD, A.id, "1-0", connected=False), "not linked"),
    "it has no link to a voter": (m.viewed(DEAD, P1.id, "0-1", connected=False), "not linked"),
    "a voter does not know it": (
        m.but(DEAD, "1-0", peers=tuple(p for p in P1.peers if p.id != A.id)),
        "not linked",
    ),
    "a voter takes it for a primary": (m.viewed(DEAD, A.id, "1-0", replica_of=None), "not heard"),
    "it takes a voter for a replica": (m.viewed(DEAD, P1.id, "0-1", replica_of=P2.id), "own slots"),
    "it knows no slots of a voter": (m.viewed(DEAD, P1.id, "0-1", slots=NO_SLOTS), "own slots"),
    "a replica has no link to it": (m.viewed(DEAD, A.id, "1-1", connected=False), None),
    "one of three voters has no link to it": (m.viewed(W, A.id, "1-0", connected=False), None),
    "two of three have none, each for its reason": (
        m.viewed(m.viewed(W, A.id, "1-0", connected=False), P2.id, "0-1", slots=NO_SLOTS),
        "not linked",
    ),
}


@pytest.mark.parametrize(("moment", "word"), LIMITS.values(), ids=LIMITS)
def test_a_candidate_is_told_why_it_may_not_lead_now(moment: Observed, word: str | None) -> None:
    reason = limitation(m.situation(moment, replicas=2), m.server(moment, "0-1"), P0.id)
    assert (reason is None) if word is None else (reason is not None and word in reason), reason


def after(seconds: float, node: Any, over: Any, **fields: Any) -> Observed:
    moment = m.but(DEAD, "0-1", **({"config": ()} | fields))
    return replace(moment, elections=(Election(node, m.NOW - seconds, over),))


SLOW = {"config": (("cluster-node-timeout", "5000"),)}
SOON = {
    "over the same primary, just now": (after(3.9, B.id, P0.id), True),
    "over the same primary, two node timeouts ago": (after(4.1, B.id, P0.id), False),
    "over another": (after(0.0, B.id, P1.id), False),
    "of the same replica, on Valkey": (after(0.0, A.id, P1.id), False),
    "of the same replica, on Redis": (after(7.9, A.id, P1.id, engine="redis"), True),
    "four node timeouts ago, on Redis": (after(8.1, A.id, P1.id, engine="redis"), False),
    "of another, on Redis": (after(0.0, B.id, P1.id, engine="redis"), False),
    "by a longer node timeout": (after(9.9, B.id, P0.id, **SLOW), True),
    "by a longer node timeout, over": (after(10.1, B.id, P0.id, **SLOW), False),
    "by a short node timeout, on Redis": (
        after(3.9, A.id, P1.id, engine="redis", config=(("cluster-node-timeout", "500"),)),
        True,
    ),
    "by one that cannot be read": (
        after(3.9, B.id, P0.id, config=(("cluster-node-timeout", "odd"),)),
        True,
    ),
}


@pytest.mark.parametrize(("moment", "waits"), SOON.values(), ids=SOON)
def test_elections_do_not_follow_each_other_too_fast(moment: Observed, *, waits: bool) -> None:
    reason = limitation(m.situation(moment, replicas=2), m.server(moment, "0-1"), P0.id)
    assert (reason is not None and "must wait" in reason) is waits, reason


def test_a_clock_that_was_set_back_adds_nothing_to_the_wait() -> None:
    moment = after(-500.0, B.id, P0.id)
    reason = limitation(m.situation(moment, replicas=2), m.server(moment, "0-1"), P0.id)
    assert reason == "db-0-1 must wait 4.0 s after the last election"


SYNCED: dict[str, tuple[Observed, str | None]] = {
    "it has all": (W, None),
    "it is a little behind": (m.replicating(W, "0-0", offset=OFFSET + LAG_BYTES), None),
    "it is more behind": (m.replicating(W, "0-0", offset=OFFSET + LAG_BYTES + 1), "behind"),
    "it is ahead of what was told": (m.replicating(W, "0-1", offset=OFFSET + 10**9), None),
    "it follows another": (m.but(W, "0-1", replica_of=P1.id), "does not follow"),
    "it loads": (m.but(W, "0-1", loading=True), "loading"),
    "it syncs": (m.replicating(W, "0-1", syncing=True), "full sync"),
    "it has no link": (m.replicating(W, "0-1", link_up=False), "no replication link"),
}


@pytest.mark.parametrize(("moment", "word"), SYNCED.values(), ids=SYNCED)
def test_a_replica_stands_in_when_it_has_what_its_primary_has(
    moment: Observed, word: str | None
) -> None:
    one, primary = m.server(moment, "0-1"), m.server(moment, "0-0")
    reason = unsynced(one, primary)
    assert (reason is None) if word is None else (reason is not None and word in reason)
    assert LAG_BYTES == 65536


def promoted(*pods: str, id2: str = "b" * 40) -> Observed:
    moment = DEAD
    for pod in pods:
        moment = m.but(moment, pod, role=Role.PRIMARY, replica_of=None)
        moment = m.replicating(moment, pod, id2=id2)
    return moment


KNOWN = {"histories": ((P0.id, "b" * 40),)}
SUCCESSORS: dict[str, tuple[Observed, str | None]] = {
    "nobody was promoted": (m.knowing(DEAD, **KNOWN), None),
    "one has its history": (m.knowing(promoted("0-1"), **KNOWN), "db-0-1"),
    "one has another": (m.knowing(promoted("0-1", id2="c" * 40), **KNOWN), None),
    "nothing is known of its history": (promoted("0-1"), None),
    "nothing is known, and none has one": (promoted("0-1", id2=""), None),
    "two have it": (m.knowing(promoted("0-1", "0-2"), **KNOWN), None),
    "a replica has it": (m.knowing(m.replicating(DEAD, "0-1", id2="b" * 40), **KNOWN), None),
    "one was elected over it": (
        replace(promoted("0-1"), elections=(Election(A.id, m.NOW, P0.id),)),
        "db-0-1",
    ),
    "one was elected over another": (
        replace(promoted("0-1"), elections=(Election(A.id, m.NOW, P1.id),)),
        None,
    ),
    "one was elected and is a replica again": (
        replace(DEAD, elections=(Election(A.id, m.NOW, P0.id),)),
        None,
    ),
}


@pytest.mark.parametrize(("moment", "pod"), SUCCESSORS.values(), ids=SUCCESSORS)
def test_the_successor_of_a_dead_primary_is_known_by_history_or_election(
    moment: Observed, pod: str | None
) -> None:
    found = successor(m.situation(moment, replicas=2), P0.id)
    assert (found.pod.name if found is not None else None) == pod


def test_voters_that_know_a_higher_epoch_of_the_dead_primary_refuse_its_replica() -> None:
    def electable(moment: Observed) -> bool:
        return can_be_elected(m.situation(moment, replicas=2), m.server(moment, "0-1"), P0.id)

    epoch = P0.config_epoch + 1
    assert electable(DEAD)
    assert not electable(m.viewed(DEAD, P0.id, "1-0", config_epoch=epoch))
    assert electable(m.viewed(W, P0.id, "1-0", config_epoch=epoch))
    assert electable(m.viewed(DEAD, P0.id, "1-0", "0-1", config_epoch=epoch))
    ignorant = tuple(p for p in A.peers if p.id != P0.id)
    assert electable(m.but(m.viewed(DEAD, P0.id, config_epoch=epoch), "0-1", peers=ignorant))


def test_a_precondition_of_the_first_stage_that_does_not_hold_is_a_breach() -> None:
    """Those of later stages depend on what the first one does."""
    bad = Replicate(node=at(P1), primary=at(P0))
    good = MoveSlots(at(P1), at(P2), SlotSet(list(P1.slots)[:1]))

    def told(*stages: Any) -> list[str]:
        found = breaches(m.situation(W, replicas=2), Plan(rule="test", stages=stages), GUARDS)
        return [text for text in found if text.startswith("its own precondition")]

    assert len(told((bad,))) == 1
    assert told((good,), (bad,)) == []
    assert told((good,)) == []
