"""A silent primary and sentinels that cannot replace it; and what they must have heard of before.

SE-02, SE-06
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.failover.test_failover import (
    LOST,
    NAME,
    NOW,
    WANTED,
    WHOLE,
    blocked,
    condition,
    dead,
    fresh,
    ip,
    made,
    of,
    sentinel,
    server,
    steps,
    told,
)
from redis_operator.planning.actions import LabelRole
from redis_operator.planning.advice import Plan, Wanted
from redis_operator.planning.failover.actions import Elect, Follow, Introduce, Promote, Watch
from redis_operator.planning.failover.guards import GUARDS
from redis_operator.planning.fence import Fence
from redis_operator.planning.guards import breaches
from redis_operator.planning.identity import Role
from redis_operator.planning.modes import situation
from redis_operator.planning.observed import Evidence, Observed, SentinelSeen, Unreachable
from redis_operator.planning.plan import plan
from redis_operator.planning.preconditions import ActionFacts, ServerFacts, precondition
from redis_operator.planning.sentinels import OtherSentinel, SentinelFlag, WatchedReplica

S_DOWN, O_DOWN = SentinelFlag.S_DOWN, SentinelFlag.O_DOWN
GAVE_UP: dict[str, Any] = {
    "flags": frozenset({S_DOWN, O_DOWN}),
    "down_ms": 5000,
    "replicas": (),
}
SILENT = dead(0, Evidence.SILENT)


def given_up(ordinal: int, **fields: Any) -> SentinelSeen:
    """A sentinel that holds db-0 for dead and has heard of no replica."""
    return sentinel(ordinal, **{**GAVE_UP, **fields})


def away(ordinal: int, evidence: Evidence = Evidence.SILENT) -> Unreachable:
    return Unreachable(pod=sentinel(ordinal).pod, error="timed out", since=NOW, evidence=evidence)


def lost(*watchers: Any, nodes: tuple[Any, ...] = (SILENT, *LOST)) -> Observed:
    return made(*nodes, sentinels=watchers or tuple(given_up(n) for n in range(3)))


def kinds(observed: Observed, wanted: Wanted = WANTED) -> list[str]:
    return [type(step).__name__ for step in steps(observed, wanted)]


def test_the_replica_that_has_most_is_voted_for_named_and_promoted() -> None:
    found = plan(WANTED, lost(), NOW)
    (elect,), (promote,), after = found.stages
    assert isinstance(elect, Elect)
    assert (elect.node.pod, elect.follows, elect.needed, elect.name) == ("db-2", of(0), 2, NAME)
    assert (elect.replication_id, elect.min_offset) == ("history", 100)
    assert [at.pod for at in elect.sentinels] == [f"db-sentinel-{n}" for n in range(3)]
    assert isinstance(promote, Promote)
    assert (promote.node, promote.fence, promote.needed) == (elect.node, Fence.DEPOSED, 2)
    assert promote.sentinels == elect.sentinels
    labels = {s.pod: s.role for s in after if isinstance(s, LabelRole)}
    assert labels["db-2"] is Role.PRIMARY
    assert [s.node.pod for s in after if isinstance(s, Follow)] == ["db-1"]
    assert found.urgent
    assert "the sentinels consider db-0 dead and cannot replace it" in found.why


def test_a_sentinel_that_went_with_the_primary_holds_nothing_up() -> None:
    """It can win no election without those that answer, and hears of the new epoch from them."""
    assert kinds(lost(given_up(0), given_up(1), away(2)))[:2] == ["Elect", "Promote"]
    assert kinds(lost(given_up(0), given_up(1), away(2, Evidence.TERMINATED)))[:2] == [
        "Elect",
        "Promote",
    ]


PROMOTABLE = (WatchedReplica(ip(1), 6379),)
GHOST = OtherSentinel("ghost", "10.0.1.9", 26379)


@pytest.mark.parametrize(
    "watchers",
    [
        (given_up(0), sentinel(1, replicas=()), sentinel(2, replicas=())),
        (given_up(0), away(1), away(2)),
        (given_up(0), given_up(1, down_ms=4999), given_up(2, down_ms=0)),
        (given_up(0), given_up(1, flags=frozenset({O_DOWN})), sentinel(2, replicas=())),
        (given_up(0), sentinel(1, 2, replicas=()), sentinel(2, 1, replicas=())),
        (given_up(0), sentinel(1, None), sentinel(2, None)),
        (given_up(0), given_up(1), given_up(2, flags=GAVE_UP["flags"] | {SentinelFlag.FAILOVER})),
        (given_up(0), given_up(1), given_up(2, replicas=PROMOTABLE)),
        tuple(
            given_up(n, sentinels=(*sentinel(n).view.monitored[0].sentinels, GHOST, GHOST))
            for n in range(2)
        ),
    ],
    ids=[
        *("one of three", "two do not answer", "not for long enough", "not by itself"),
        *("names another", "monitor nothing", "one fails over", "one could promote"),
        "two of five that they count",
    ],
)
def test_while_the_sentinels_do_not_agree_or_may_act_nobody_is_promoted(watchers: Any) -> None:
    observed = lost(*watchers)
    assert not {"Elect", "Promote"} & {*kinds(observed)}
    assert blocked(observed)


def test_a_sentinel_in_tilt_mode_has_no_say() -> None:
    def tilted(ordinal: int) -> SentinelSeen:
        found = given_up(ordinal)
        return replace(found, view=replace(found.view, tilt=True))

    assert kinds(lost(given_up(0), given_up(1), tilted(2)))[:1] == ["Elect"]
    assert kinds(lost(given_up(0), tilted(1), tilted(2))) == []


def test_the_quorum_is_asked_for_where_it_is_more_than_a_majority() -> None:
    strict = replace(WANTED, quorum=3)
    watchers = tuple(given_up(n, quorum=3) for n in range(3))
    assert kinds(lost(*watchers), strict)[:1] == ["Elect"]
    assert kinds(lost(*watchers[:2], away(2)), strict) == []


@pytest.mark.parametrize(
    "nodes",
    [
        (SILENT, fresh(1), fresh(2)),
        (SILENT, fresh(1, keys=5), fresh(2, keys=5)),
        (SILENT, server(1, "10.9.9.9:6379"), server(2, "10.9.9.9:6379")),
    ],
    ids=["restarted empty", "restarted with files", "followed another one"],
)
def test_who_did_not_follow_the_silent_primary_does_not_take_its_place(nodes: Any) -> None:
    assert "Elect" not in kinds(lost(nodes=nodes))


OLD = WatchedReplica(ip(0), 6379, flags=frozenset({S_DOWN}))
NAMED = tuple(sentinel(n, 2, replicas=(OLD,)) for n in range(3))


def test_a_vote_that_was_won_is_followed_up_by_whoever_comes_next() -> None:
    """The operator ended after the sentinels had been told, and before the promotion."""
    found = steps(lost(*NAMED))
    assert [type(s).__name__ for s in found][:2] == ["Elect", "Promote"]
    assert (found[1].node.pod, found[1].fence) == ("db-2", Fence.DEPOSED)
    assert [s.node.pod for s in steps(lost(*NAMED[:2], away(2))) if isinstance(s, Promote)] == [
        "db-2"
    ]


def test_a_primary_that_a_sentinel_sees_alive_was_not_voted_out() -> None:
    """They have not heard of a switchover yet; it leads, and did not respond to the operator."""
    one = sentinel(2, 2, replicas=(replace(OLD, flags=frozenset()),))
    assert kinds(lost(*NAMED[:2], one)) == []


def test_who_is_promoted_and_named_leads_and_the_silent_one_loses_its_label() -> None:
    promoted = server(2, pod={"role_label": "replica"})
    observed = lost(*NAMED, nodes=(SILENT, server(1, of(2)), promoted))
    labels = {s.pod: s.role for s in plan(WANTED, observed, NOW).steps if isinstance(s, LabelRole)}
    assert labels == {"db-0": Role.REPLICA, "db-2": Role.PRIMARY}
    assert told(observed).primary == "db-2"


# Right before

ELECT = steps(lost())[0]
PROMOTE = steps(lost())[1]
REPLICA = ServerFacts(
    id=LOST[1].id, role=Role.REPLICA, follows=of(0), offset=100, replication_id="history"
)
VIEWS = tuple(given_up(n).view for n in range(3))


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (ActionFacts(server=REPLICA, sentinels=VIEWS), ""),
        (ActionFacts(server=REPLICA, sentinels=VIEWS[:2]), ""),
        (ActionFacts(sentinels=VIEWS), "does not respond"),
        (ActionFacts(server=replace(REPLICA, role=Role.PRIMARY), sentinels=VIEWS), " now"),
        (ActionFacts(server=replace(REPLICA, follows=of(1)), sentinels=VIEWS), " now"),
        (ActionFacts(server=replace(REPLICA, offset=99), sentinels=VIEWS), "other data"),
        (ActionFacts(server=replace(REPLICA, replication_id="x"), sentinels=VIEWS), "other data"),
        (ActionFacts(server=REPLICA, sentinels=VIEWS[:1]), "1 sentinels consider"),
        (
            ActionFacts(
                server=REPLICA, sentinels=(*VIEWS[:2], given_up(2, replicas=PROMOTABLE).view)
            ),
            "elect who fails over",
        ),
        (ActionFacts(server=REPLICA, sentinels=tuple(s.view for s in NAMED)), ""),
        (
            ActionFacts(server=REPLICA, sentinels=(NAMED[0].view, *VIEWS[1:2])),
            "1 sentinels consider",
        ),
    ],
)
def test_a_vote_is_asked_for_only_while_all_is_as_it_was(facts: ActionFacts, words: str) -> None:
    found = precondition(ELECT, facts)
    assert (words in (found or "")) if words else found is None


@pytest.mark.parametrize(
    ("sentinels", "words"),
    [
        (NAMED, ""),
        (NAMED[:2], ""),
        ((*NAMED[:1], given_up(1), given_up(2)), "1 sentinels name db-2, 2 are needed"),
        ((sentinel(0, 1), sentinel(1, 1), sentinel(2, 2)), "1 sentinels name db-2"),
    ],
    ids=["all", "two of three", "one", "another one was voted for since"],
)
def test_nobody_is_promoted_whom_the_sentinels_do_not_name(sentinels: Any, words: str) -> None:
    facts = ActionFacts(server=REPLICA, sentinels=tuple(s.view for s in sentinels))
    found = precondition(PROMOTE, facts)
    assert (words in (found or "")) if words else found is None


def test_no_rule_may_have_a_replica_voted_for_beside_a_primary_or_one_that_has_more() -> None:
    behind = replace(ELECT, node=replace(ELECT.node, id=LOST[0].id, pod="db-1"))
    for observed, step, words in (
        (WHOLE, replace(ELECT, node=replace(ELECT.node, id=WHOLE.seen[1].id)), "is a primary"),
        (lost(), behind, "db-2 has more than db-1"),
        (lost(), replace(ELECT, node=replace(ELECT.node, id=WHOLE.seen[0].id)), "was not observed"),
    ):
        topology = situation(WANTED, observed, NOW)
        found = breaches(topology, Plan(rule="any", stages=((step,),)), GUARDS)
        assert any(words in reason for reason in found), found


# What sentinels have to have heard of

HALF = (WatchedReplica(ip(1), 6379),)


def test_a_database_is_not_ready_before_every_sentinel_has_heard_of_every_replica() -> None:
    observed = replace(WHOLE, sentinels=(sentinel(0), sentinel(1, replicas=HALF), sentinel(2)))
    assert condition(told(observed), "Ready")[0] == "False"
    (step,) = steps(observed)
    assert isinstance(step, Watch)
    assert (step.node.pod, step.primary.pod, step.afresh) == ("db-sentinel-1", "db-0", True)
    assert [other.pod for other in step.others] == ["db-sentinel-0", "db-sentinel-2"]


def test_sentinels_begin_again_one_after_the_other_and_all_at_once_before_the_first_ready() -> None:
    blind = tuple(sentinel(n, replicas=HALF) for n in range(3))
    observed = replace(WHOLE, sentinels=blind)
    assert [step.node.pod for step in steps(observed)] == ["db-sentinel-0"]
    first = replace(observed, formed=False)
    assert [step.node.pod for step in steps(first)] == [f"db-sentinel-{n}" for n in range(3)]
    assert plan(WANTED, first, NOW).rule == "acquaint"


@pytest.mark.parametrize(
    "others",
    [
        (sentinel(0), away(2)),
        (sentinel(0, flags=frozenset({SentinelFlag.DISCONNECTED})), sentinel(2)),
        (sentinel(0, flags=frozenset({S_DOWN})), sentinel(2)),
        (sentinel(0, sentinels=()), sentinel(2)),
        (sentinel(0, flags=frozenset({SentinelFlag.FAILOVER})), sentinel(2)),
    ],
    ids=["silent", "not connected", "down to one", "alone", "one fails over"],
)
def test_none_begins_again_while_another_one_is_not_whole(others: Any) -> None:
    observed = replace(WHOLE, sentinels=(others[0], sentinel(1, replicas=HALF), others[1]))
    assert not [step for step in steps(observed) if isinstance(step, Watch) and step.afresh]


def test_one_that_was_told_a_moment_ago_has_the_time_to_ask() -> None:
    asks = sentinel(1, replicas=HALF, known_ms=499)
    observed = replace(WHOLE, sentinels=(sentinel(0), asks, sentinel(2)))
    assert steps(observed) == ()
    assert "db-sentinel-1 has not heard of db-2 yet" in blocked(observed)
    found = plan(WANTED, observed, NOW)
    assert found.again_after is not None
    assert found.again_after < 0.5
    later = sentinel(1, replicas=HALF, known_ms=500)
    assert steps(replace(observed, sentinels=(sentinel(0), later, sentinel(2))))


def test_a_replica_that_is_not_in_sync_is_not_asked_for() -> None:
    behind = server(2, of(0), link={"link_up": False})
    observed = made(server(0), server(1, of(0)), behind, sentinels=(sentinel(0, replicas=HALF),))
    assert not [step for step in steps(observed) if isinstance(step, Watch) and step.afresh]


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (sentinel(1), None),
        (sentinel(1, None), None),
        (sentinel(1, flags=frozenset({SentinelFlag.DISCONNECTED})), "forgets nothing"),
        (sentinel(1, flags=frozenset({S_DOWN})), "forgets nothing"),
        (sentinel(1, flags=frozenset({SentinelFlag.FAILOVER})), "failing over"),
    ],
    ids=["at rest", "monitors nothing", "not connected", "down", "fails over"],
)
def test_a_sentinel_forgets_nothing_once_it_doubts_the_primary(
    view: SentinelSeen, words: str | None
) -> None:
    blind = replace(WHOLE, sentinels=(sentinel(0), sentinel(1, replicas=HALF), sentinel(2)))
    (step,) = steps(blind)
    found = precondition(step, ActionFacts(sentinel=view.view))
    assert found is None if words is None else words in (found or "")


# Sentinels that have not heard of each other


def hearing(ordinal: int, *heard: int, **fields: Any) -> SentinelSeen:
    """A sentinel that has heard of these others."""
    known = tuple(OtherSentinel(f"id-{n}", f"10.0.1.{n}", 26379) for n in heard)
    return sentinel(ordinal, sentinels=known, **fields)


def test_sentinels_are_told_of_those_that_they_have_not_heard_of_and_of_nobody_else() -> None:
    observed = replace(WHOLE, sentinels=(hearing(0, 1), hearing(1, 0, 2), hearing(2)))
    found = {step.node.pod: [o.pod for o in step.others] for step in steps(observed)}
    assert found == {
        "db-sentinel-0": ["db-sentinel-2"],
        "db-sentinel-2": ["db-sentinel-0", "db-sentinel-1"],
    }
    assert plan(WANTED, observed, NOW).rule == "introduce"


def test_one_that_was_reset_a_moment_ago_finds_the_others_by_itself() -> None:
    reset = hearing(2, known_ms=1000)
    observed = replace(WHOLE, sentinels=(sentinel(0), sentinel(1), reset))
    assert steps(observed) == ()
    assert [s.node.pod for s in steps(replace(observed, formed=False))] == ["db-sentinel-2"]


def test_a_sentinel_that_goes_or_says_nothing_itself_is_not_introduced() -> None:
    late = hearing(2, 0, 1)
    going = replace(late, pod=replace(late.pod, deleting=True))
    for other in (going, hearing(2, 0, 1, in_the_past=True), sentinel(2, None), sentinel(2, 1)):
        observed = replace(WHOLE, sentinels=(hearing(0, 1), hearing(1, 0), other))
        assert not [step for step in steps(observed) if isinstance(step, Introduce)]


def test_nobody_is_introduced_to_a_sentinel_that_names_another_primary_by_then() -> None:
    (step,) = steps(replace(WHOLE, sentinels=(hearing(0, 1), sentinel(1), sentinel(2))))
    assert precondition(step, ActionFacts(sentinel=sentinel(0).view)) is None
    assert "names another" in (precondition(step, ActionFacts(sentinel=sentinel(0, 1).view)) or "")
    assert "names another" in (
        precondition(step, ActionFacts(sentinel=sentinel(0, None).view)) or ""
    )
    assert "does not respond" in (precondition(step, ActionFacts()) or "")
