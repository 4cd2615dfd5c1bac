"""A database that copies an external server: who follows, when one is promoted, what is told."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.failover.test_failover import (
    SENTINELS,
    WANTED,
    WORKLOAD,
    condition,
    dead,
    of,
    sentinel,
    server,
)
from redis_operator.api.redis import Mode
from redis_operator.api.status import Phase, RedisStatus
from redis_operator.planning.actions import ConfigSet, LabelRole
from redis_operator.planning.advice import Wanted
from redis_operator.planning.at import at
from redis_operator.planning.failover.actions import Follow, FollowSource, Promote
from redis_operator.planning.failover.election import FRESH
from redis_operator.planning.fence import Fence
from redis_operator.planning.guards import breaches
from redis_operator.planning.identity import NodeId
from redis_operator.planning.modes import MODES, situation
from redis_operator.planning.observed import Evidence, Observed, Replication, Seen
from redis_operator.planning.plan import Plan, plan
from redis_operator.planning.repeats import after_attempt
from redis_operator.planning.reporting.context import Context
from redis_operator.planning.reporting.status import status
from redis_operator.planning.sources import ExternalSource, SourceNode, SourceSeen, SourceSilent

NOW = 1_000_000.0
PLACE = "old.example:7000"
SOURCE = SourceSeen(NodeId("run-old"), replication_id="theirs", offset=100, engine="valkey")
COPIES = replace(WANTED, source=ExternalSource("old.example", 7000))
PROMOTES = WANTED
ALONE = Wanted(name="db", shards=1, replicas=0, mode=Mode.STANDALONE)


def copy(ordinal: int, follows: str = PLACE, **fields: Any) -> Seen:
    """A server that has what the source has."""
    link = {"id": "theirs", "offset": 100, **fields.pop("link", {})}
    above = next((NodeId(f"run-{n}") for n in range(3) if follows == of(n)), None)
    return server(ordinal, follows, link=link, replica_of=above, **fields)


def fresh(ordinal: int, **fields: Any) -> Seen:
    return copy(ordinal, FRESH, keys=0, link={"link_up": False, "id": "own", "offset": 0}, **fields)


def down(ordinal: int, follows: str = PLACE, **fields: Any) -> Seen:
    link = {"link_up": False, **fields.pop("link", {})}
    return copy(ordinal, follows, link=link, **fields)


def seen(*nodes: Any, source: SourceNode | None = SOURCE, **fields: Any) -> Observed:
    given: dict[str, Any] = {"copied": PLACE, **fields}
    return Observed(
        nodes=nodes,
        workloads=(replace(WORKLOAD, pods=len(nodes)),),
        sentinels=tuple(sentinel(n, None) for n in range(3)),
        sentinel_workload=SENTINELS,
        source=source,
        **given,
    )


EMPTY = seen(fresh(0), fresh(1), fresh(2), copied="")
SYNCED = seen(copy(0), copy(1, of(0)), copy(2, of(0)))


def steps(observed: Observed, wanted: Wanted = COPIES) -> tuple[Any, ...]:
    found = plan(wanted, observed, NOW)
    assert not any("this is a bug" in reason for reason in found.blocked), found.blocked
    return tuple(step for step in found.steps if not isinstance(step, LabelRole))


def who(observed: Observed, wanted: Wanted = COPIES) -> list[tuple[str, str]]:
    """Return the steps as their kind and the pod that they are about."""
    return [(type(step).__name__, step.node.pod) for step in steps(observed, wanted)]


def blocked(observed: Observed, wanted: Wanted = COPIES) -> str:
    return "; ".join(plan(wanted, observed, NOW).blocked)


def told(observed: Observed, wanted: Wanted = COPIES) -> RedisStatus:
    context = Context(
        previous=RedisStatus(), generation=1, now="2026-01-01T00:00:00Z", binding="conn"
    )
    return status(wanted, observed, plan(wanted, observed, NOW), context)


# Following


def test_it_is_written_down_that_servers_hold_copies_before_one_follows() -> None:
    assert steps(EMPTY) == ()
    found = told(EMPTY)
    assert found.source is not None
    assert found.source.address == PLACE
    assert who(replace(EMPTY, copied=PLACE)) == [("FollowSource", "db-0")]


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        (seen(fresh(0), fresh(1), replace(fresh(2), keys=7), copied=""), "db-2 holds 7 keys"),
        (seen(fresh(0), fresh(1), dead(2, Evidence.SILENT), copied=""), "db-2 does not respond"),
        (
            seen(fresh(0), fresh(1), replace(fresh(2), loading=True), copied=""),
            "db-2 is still load",
        ),
        (
            replace(seen(fresh(0), fresh(1), copied=""), workloads=(WORKLOAD,)),
            "db-2 does not exist yet",
        ),
    ],
    ids=["data of its own", "silent", "loading", "missing"],
)
def test_nothing_follows_while_a_server_may_have_data_of_its_own(
    observed: Observed, words: str
) -> None:
    assert steps(observed) == ()
    assert words in blocked(observed)
    assert told(observed).source is None


def test_one_server_follows_the_source_and_the_others_follow_that_one() -> None:
    first = seen(down(0, keys=0), fresh(1), fresh(2))
    assert who(first) == [("Follow", "db-1"), ("Follow", "db-2")]
    assert {step.primary.pod for step in steps(first)} == {"db-0"}
    assert steps(SYNCED) == ()


def test_a_copy_in_sync_says_that_it_is_read_only_and_how_it_is_promoted() -> None:
    found = told(SYNCED)
    assert found.phase is Phase.FOLLOWING
    assert condition(found, "Following") == ("True", "InSync")
    assert condition(found, "Available") == ("False", "ReadOnly")
    assert condition(found, "Degraded") == ("False", "Healthy")
    assert condition(found, "Ready") == ("False", "ReadOnly")
    assert "remove spec.bootstrap.fromRedis" in found.message
    assert found.source is not None
    assert (found.source.pod, found.source.link, found.source.lag_bytes) == ("db-0", "up", 0)
    assert [r.link for r in found.shards[0].replicas] == ["up", "up"]
    assert (found.primary, found.ready, found.binding) == ("", "3/3", None)


def test_servers_of_a_copy_are_labelled_as_replicas() -> None:
    bare = seen(copy(0, pod={"role_label": ""}), copy(1, of(0)), copy(2, of(0)))
    labels = [s for s in plan(COPIES, bare, NOW).steps if isinstance(s, LabelRole)]
    assert [(s.pod, s.role.value) for s in labels] == [("db-0", "replica")]


def test_a_copy_is_in_sync_when_all_servers_are() -> None:
    for lacks in (
        seen(copy(0), copy(1, of(0)), dead(2)),
        replace(seen(copy(0), copy(1, of(0))), workloads=(WORKLOAD,)),
        seen(copy(0), copy(1, of(0)), down(2, of(0))),
    ):
        found = told(lacks)
        assert condition(found, "Following") == ("False", "Copying")
        assert "db-2" in found.message
        assert found.phase is Phase.FOLLOWING


def test_the_lag_is_told_in_whole_mebibytes() -> None:
    behind = replace(SYNCED, source=replace(SOURCE, offset=100 + 5 * 2**20))
    found = told(behind).source
    assert found is not None
    assert found.lag_bytes == 5 * 2**20


@pytest.mark.parametrize("evidence", list(Evidence))
def test_another_server_follows_the_source_when_the_first_does_not_respond(
    evidence: Evidence,
) -> None:
    """Nothing is written to any of them: a second one that follows harms nothing."""
    lost = seen(dead(0, evidence), down(1, of(0)), down(2, of(0), link={"offset": 90}))
    assert who(lost) == [("FollowSource", "db-1")]


def test_a_server_that_comes_back_empty_follows_and_is_not_followed() -> None:
    back = seen(fresh(0), down(1, of(0)), down(2, of(0)))
    assert who(back) == [("FollowSource", "db-1")]


def test_a_server_that_is_loading_or_being_deleted_is_not_made_to_follow() -> None:
    loading = [fresh(n, loading=True) for n in range(3)]
    assert steps(seen(*loading)) == ()
    leaving = [fresh(n, pod={"deleting": True}) for n in range(3)]
    assert steps(seen(*leaving)) == ()
    another = [("FollowSource", "db-1")]
    assert who(seen(leaving[0], fresh(1), fresh(2))) == another
    assert who(seen(copy(0, pod={"deleting": True}), copy(1, of(0)), copy(2, of(0)))) == another


def test_a_copy_is_kept_until_the_server_that_it_shall_follow_has_one() -> None:
    syncing = down(0, keys=0)
    assert who(seen(syncing, down(1, of(9)), fresh(2))) == [("Follow", "db-2")]
    assert who(seen(copy(0), down(1, of(9)), copy(2, of(0)))) == [("Follow", "db-1")]


def test_of_two_that_follow_the_source_one_follows_the_other() -> None:
    assert who(seen(copy(0), copy(1), copy(2, of(0)))) == [("Follow", "db-1")]


def test_another_source_is_followed_in_the_place_of_the_first() -> None:
    moved = replace(COPIES, source=ExternalSource("new.example", 6379))
    (step,) = steps(SYNCED, moved)
    assert (step.node.pod, step.host, step.follows) == ("db-0", "new.example", PLACE)


def test_settings_reach_a_copy_and_restarts_wait() -> None:
    wanted = replace(COPIES, config=(("maxmemory", "5"),))
    nodes = [replace(n, config=(("maxmemory", "4"),)) for n in SYNCED.seen]
    assert {type(s) for s in steps(seen(*nodes), wanted)} == {ConfigSet}
    outdated = replace(SYNCED, workloads=(replace(WORKLOAD, revision="r2"),))
    assert steps(outdated) == ()


# What is wrong with the source


WRONG: dict[str, tuple[SourceNode, str, str, bool]] = {
    "unreachable": (SourceSilent("SourceUnreachable", "refused"), "SourceUnreachable", "", True),
    "login": (SourceSilent("SourceLogin", "no", hopeless=True), "SourceLogin", "no", False),
    "secret": (SourceSilent("SourceSecret", "gone", hopeless=True), "SourceSecret", "gone", False),
    "cluster": (replace(SOURCE, cluster=True), "SourceIsCluster", "key by key", False),
    "itself": (replace(SOURCE, id=NodeId("run-1")), "SourceIsOwn", "db-1", False),
    "its replica": (
        replace(SOURCE, is_primary=False, follows=of(0)),
        "SourceIsOwn",
        "replica of db-0",
        False,
    ),
    "newer": (
        replace(SOURCE, engine="redis", version="8.0.0"),
        "SourceIncompatible",
        "cannot load",
        False,
    ),
    "replica": (
        replace(SOURCE, is_primary=False, follows="10.9.9.9:6379"),
        "SourceIsReplica",
        "10.9.9.9:6379",
        True,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_the_source_is_told_with_its_place(name: str) -> None:
    source, reason, words, followed = WRONG[name]
    found = replace(EMPTY, copied=PLACE, source=source)
    assert bool(steps(found)) is followed, "it is followed unless that is known to be in vain"
    waiting = replace(seen(down(0), down(1, of(0)), down(2, of(0))), source=source)
    assert condition(told(waiting), "Following") == ("False", reason)
    assert condition(told(waiting), "Degraded") == ("True", reason)
    message = next(c.message for c in told(waiting).conditions if c.type == "Following")
    assert PLACE in message
    assert words in message
    assert steps(waiting) == (), "who follows it already is left alone"


def test_a_link_that_pods_do_not_get_is_told() -> None:
    found = told(seen(down(0), down(1, of(0)), down(2, of(0))))
    assert condition(found, "Degraded") == ("True", "LinkDown")
    assert "network policy" in found.message


# Promotion


def test_the_server_that_follows_is_promoted_when_everything_has_arrived() -> None:
    promote, *others = steps(SYNCED, PROMOTES)
    assert isinstance(promote, Promote)
    assert (promote.node.pod, promote.follows, promote.source) == ("db-0", PLACE, PLACE)
    assert promote.replication_id == "theirs"
    assert {type(s).__name__ for s in others} == {"Follow", "Watch"}


UNPROVEN: dict[str, tuple[Observed, str]] = {
    "no link": (seen(down(0), down(1, of(0)), down(2, of(0))), "no server is in sync"),
    "all restarted": (
        seen(*(copy(n, "127.0.0.1:1", link={"link_up": False}) for n in range(3))),
        "no server is in sync",
    ),
    "silent": (
        replace(SYNCED, source=SourceSilent("SourceUnreachable", "refused")),
        "does not report its offset: refused",
    ),
    "replica": (
        replace(SYNCED, source=replace(SOURCE, is_primary=False, follows="a:1")),
        "is itself a replica of a:1",
    ),
    "other history": (
        replace(SYNCED, source=replace(SOURCE, replication_id="else")),
        "another history",
    ),
    "behind": (replace(SYNCED, source=replace(SOURCE, offset=10**9)), "bytes behind"),
}


@pytest.mark.parametrize("name", UNPROVEN)
def test_nothing_is_promoted_while_writes_may_be_missing_unless_a_person_says_so(name: str) -> None:
    observed, words = UNPROVEN[name]
    assert not [s for s in steps(observed, PROMOTES) if isinstance(s, Promote)]
    reason = blocked(observed, PROMOTES)
    assert words in reason
    assert "accept-data-loss=source" in reason
    assert condition(told(observed, PROMOTES), "Following") == ("False", "Promoting")
    given_up = replace(PROMOTES, source_given_up=True)
    (promote,) = (s for s in steps(observed, given_up) if isinstance(s, Promote))
    assert promote.source == ""


def test_a_person_who_sets_the_source_again_has_it_followed_on() -> None:
    restarted = UNPROVEN["all restarted"][0]
    assert who(restarted, COPIES) == [("FollowSource", "db-0")]


def test_after_the_promotion_the_status_forgets_the_source() -> None:
    led = seen(copy(0, ""), copy(1, of(0)), copy(2, of(0)))
    assert told(led, PROMOTES).source is None
    assert {type(s).__name__ for s in steps(led, PROMOTES)} == {"Watch"}


# Data of its own


def test_a_server_that_somebody_promoted_is_never_made_to_follow() -> None:
    led = seen(copy(0, ""), copy(1, of(0)), copy(2, of(0)))
    assert not [s for s in steps(led) if isinstance(s, FollowSource)]
    assert "has data of its own" in blocked(led)


def test_a_database_in_use_is_never_made_to_follow() -> None:
    asleep = seen(*(copy(n, "127.0.0.1:1", link={"link_up": False}) for n in range(3)), formed=True)
    found = steps(asleep)
    assert not [s for s in found if isinstance(s, FollowSource)]
    assert [type(s) for s in found][:1] == [Promote], "it is healed as ever"


@pytest.mark.parametrize("mode", [Mode.FAILOVER, Mode.STANDALONE])
@pytest.mark.parametrize(
    ("observed", "wanted", "words"),
    [
        (replace(SYNCED, formed=True), COPIES, "data of its own"),
        (replace(SYNCED, copied=""), COPIES, "not known that what db-0 holds is a copy"),
        (SYNCED, PROMOTES, "names no server"),
        (seen(copy(0, ""), copy(1, of(0))), COPIES, "db-0 accepts writes, which would be lost"),
        (seen(copy(1), copy(2, of(1))), COPIES, "was not observed"),
    ],
    ids=["formed", "not recorded", "not wanted", "primary", "unseen"],
)
def test_no_plan_has_a_server_drop_what_may_be_the_only_copy(
    mode: Mode, observed: Observed, wanted: Wanted, words: str
) -> None:
    node = at(copy(0))
    follows = observed.seen[0].replication.follows
    step = FollowSource(node, "old.example", 7000, follows)
    found = situation(replace(wanted, mode=mode), observed, NOW)
    assert words in "; ".join(breaches(found, Plan(stages=((step,),)), MODES[mode].guards))


def test_a_complete_copy_may_take_the_place_of_an_older_one_though_it_is_empty() -> None:
    """The source was flushed: its copy has nothing, and that is right."""
    flushed = seen(copy(0, keys=0), down(1, of(9)), copy(2, of(0), keys=0))
    assert who(flushed) == [("Follow", "db-1")]
    (step,) = steps(flushed)
    assert isinstance(step, Follow)
    assert step.source == PLACE


# One server


def alone(node: Seen, **fields: Any) -> Observed:
    return replace(seen(node, **fields), sentinels=(), sentinel_workload=None)


FOLLOWS = replace(ALONE, source=COPIES.source)


def test_one_server_follows_and_is_promoted() -> None:
    assert steps(alone(fresh(0), copied=""), FOLLOWS) == ()
    assert who(alone(fresh(0)), FOLLOWS) == [("FollowSource", "db-0")]
    assert steps(alone(copy(0)), FOLLOWS) == ()
    found = told(alone(copy(0)), FOLLOWS)
    assert (found.phase, found.primary, found.ready) == (Phase.FOLLOWING, "", "1/1")
    assert condition(found, "Available") == ("False", "ReadOnly")
    (promote,) = steps(alone(copy(0)), ALONE)
    assert (type(promote), promote.source) == (Promote, PLACE)


def test_one_server_whose_source_is_gone_is_promoted_when_a_person_says_so() -> None:
    lost = alone(down(0), source=SourceSilent("SourceUnreachable", "refused"))
    assert steps(lost, ALONE) == ()
    (promote,) = steps(lost, replace(ALONE, source_given_up=True))
    assert (type(promote), promote.source) == (Promote, "")


def test_one_server_in_memory_that_restarts_while_it_follows_has_lost_nothing() -> None:
    volatile = replace(FOLLOWS, persistent=False, volatile=True)
    found = plan(volatile, alone(fresh(0), recorded=((0, "another"),)), NOW)
    assert found.losses == ()
    assert Replication().follows == ""


BEGUN = {
    "no server follows yet": (replace(EMPTY, copied=PLACE), COPIES, "FollowSource"),
    "others do not follow": (seen(down(0), fresh(1), fresh(2)), COPIES, "Follow"),
    "one server": (alone(fresh(0)), FOLLOWS, "FollowSource"),
    "one server, promoted in vain": (alone(copy(0)), ALONE, "Promote"),
    "a setting of one server": (
        alone(copy(0, config=(("maxmemory", "5"),))),
        replace(FOLLOWS, config=(("maxmemory", "7"),)),
        "ConfigSet",
    ),
    "a setting of three": (
        seen(copy(0, config=(("maxmemory", "5"),)), copy(1, of(0)), copy(2, of(0))),
        replace(COPIES, config=(("maxmemory", "7"),)),
        "ConfigSet",
    ),
}


@pytest.mark.parametrize("name", BEGUN)
def test_a_copy_whose_steps_have_no_effect_gets_no_primary_from_another_rule(name: str) -> None:
    observed, wanted, kind = BEGUN[name]
    for now in (NOW - 4, NOW - 3, NOW - 2, NOW - 1, NOW):
        found = plan(wanted, observed, now)
        assert {type(step).__name__ for step in found.steps} - {"LabelRole", "Watch"} == {kind}
        observed = replace(observed, attempts=after_attempt(observed.attempts, found, now))
    assert steps(observed, wanted) == ()
    assert "no effect" in blocked(observed, wanted)


@pytest.mark.parametrize("wanted", [COPIES, PROMOTES, FOLLOWS, ALONE])
def test_no_plan_ends_a_copy_that_nobody_gave_up(wanted: Wanted) -> None:
    observed = (alone if wanted.mode is Mode.STANDALONE else seen)(copy(0))
    step = Promote(node=at(copy(0)), follows=PLACE, fence=Fence.NEVER_LED)
    for given_up, source, allowed in [(False, "", 0), (True, "", 1), (False, PLACE, 1)]:
        decided = replace(wanted, source_given_up=given_up)
        topology, guards = situation(decided, observed, NOW), MODES[wanted.mode].guards
        ending = Plan(stages=((replace(step, source=source),),))
        assert bool(breaches(topology, ending, guards)) is not bool(allowed)


RESTORED = replace(WANTED, source=ExternalSource("old.example", 7000, backup="monday"))


def test_who_has_all_of_a_backup_is_promoted_if_it_refused_nothing_of_it() -> None:
    [promotion] = [step for step in steps(SYNCED, RESTORED) if isinstance(step, Promote)]
    assert promotion.whole
    lacking = seen(copy(0, refused_commands=3), copy(1, of(0)), copy(2, of(0)))
    found = plan(RESTORED, lacking, NOW)
    assert not found.steps
    assert "refused 3 commands of backup monday" in found.blocked[0]


def test_what_a_server_elsewhere_sent_before_it_was_left_is_not_judged() -> None:
    lacking = seen(copy(0, refused_commands=3), copy(1, of(0)), copy(2, of(0)))
    [promotion] = [step for step in steps(lacking, PROMOTES) if isinstance(step, Promote)]
    assert not promotion.whole
