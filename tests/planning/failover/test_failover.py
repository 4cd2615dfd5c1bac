"""Servers and sentinels of mode Failover: who is named, who follows, and what is never done."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from redis_operator.api.redis import Mode
from redis_operator.api.status import Binding, Phase, RedisStatus
from redis_operator.planning.actions import ConfigSet, LabelRole
from redis_operator.planning.advice import Plan, Switchover, Wanted
from redis_operator.planning.failover.actions import (
    Follow,
    Promote,
    ResetSentinel,
    Unwatch,
    Watch,
)
from redis_operator.planning.failover.election import FRESH
from redis_operator.planning.fence import Fence
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.observed import (
    Evidence,
    Led,
    Observed,
    Pod,
    Replication,
    Seen,
    SentinelSeen,
    Unreachable,
    Workload,
)
from redis_operator.planning.plan import plan
from redis_operator.planning.reporting.context import Context
from redis_operator.planning.reporting.status import status
from redis_operator.planning.sentinels import (
    Monitored,
    OtherSentinel,
    SentinelFlag,
    SentinelView,
    WatchedReplica,
)

NOW = 1_000_000.0
NAME = "ns.db"
SETTINGS = (("down-after-milliseconds", "5000"),)
WANTED = Wanted(
    name="db",
    shards=1,
    replicas=2,
    mode=Mode.FAILOVER,
    sentinels=3,
    quorum=2,
    primary_name=NAME,
    sentinel_settings=SETTINGS,
)
IN_MEMORY = replace(WANTED, persistent=False, volatile=True, start_empty=True)
WORKLOAD = Workload(shard=0, name="db", uid="w0", pods=3, revision="r1")
SENTINELS = Workload(shard=1, name="db-sentinel", uid="w1", pods=3, revision="s1")
LED = (Led(0, "db-0", "history"),)


def ip(ordinal: int) -> str:
    return f"10.0.0.{ordinal}"


def server(ordinal: int, follows: str = "", **fields: Any) -> Seen:
    """A server in sync; `follows` is empty for a primary."""
    link = {"id": "history", "offset": 100, "follows": follows, **fields.pop("link", {})}
    pod = Pod(
        name=f"db-{ordinal}",
        uid=f"u{ordinal}",
        shard=0,
        ordinal=ordinal,
        ip=ip(ordinal),
        revision="r1",
        role_label="replica" if follows else "primary",
    )
    return Seen(
        pod=replace(pod, **fields.pop("pod", {})),
        id=NodeId(f"run-{ordinal}"),
        role=Role.REPLICA if follows else Role.PRIMARY,
        replication=Replication(**link),
        keys=fields.pop("keys", 5),
        version="9.1.2",
        started_at=NOW - 100,
        **fields,
    )


def of(ordinal: int) -> str:
    return f"{ip(ordinal)}:6379"


def sentinel(ordinal: int, names: int | None = 0, **fields: Any) -> SentinelSeen:
    """A sentinel that names the server of this ordinal, and knows the two others."""
    pod = Pod(
        name=f"db-sentinel-{ordinal}",
        uid=f"s{ordinal}",
        shard=1,
        ordinal=ordinal,
        ip=f"10.0.1.{ordinal}",
        revision="s1",
    )
    others = tuple(OtherSentinel(f"id-{n}", f"10.0.1.{n}", 26379) for n in range(3) if n != ordinal)
    replicas = tuple(WatchedReplica(ip(n), 6379) for n in range(3) if n != (names or 0))
    found = Monitored(
        name=NAME,
        ip=ip(names or 0),
        port=6379,
        quorum=2,
        down_after_ms=5000,
        replicas=replicas,
        sentinels=others,
    )
    monitored = () if names is None else (replace(found, **fields),)
    return SentinelSeen(
        pod=pod,
        id=NodeId(f"id-{ordinal}"),
        view=SentinelView(id=f"id-{ordinal}", monitored=monitored),
    )


def dead(ordinal: int, evidence: Evidence = Evidence.REFUSED) -> Unreachable:
    pod = replace(server(ordinal).pod, role_label="primary" if ordinal == 0 else "replica")
    return Unreachable(
        pod=pod, error="refused", since=NOW, evidence=evidence, last_id=NodeId(f"run-{ordinal}")
    )


WHOLE = Observed(
    nodes=(server(0), server(1, of(0)), server(2, of(0))),
    workloads=(WORKLOAD,),
    sentinels=tuple(sentinel(n) for n in range(3)),
    sentinel_workload=SENTINELS,
    led=LED,
    formed=True,
)


def made(*nodes: Any, **fields: Any) -> Observed:
    return replace(WHOLE, nodes=nodes, **fields)


def steps(observed: Observed, wanted: Wanted = WANTED) -> tuple[Any, ...]:
    found = plan(wanted, observed, NOW)
    return tuple(step for step in found.steps if not isinstance(step, LabelRole))


def blocked(observed: Observed, wanted: Wanted = WANTED) -> str:
    return "; ".join(plan(wanted, observed, NOW).blocked)


def told(
    observed: Observed, wanted: Wanted = WANTED, *, at: str = "2026-01-01T00:00:00Z"
) -> RedisStatus:
    context = Context(previous=RedisStatus(), generation=1, now=at, binding="conn")
    return status(wanted, observed, plan(wanted, observed, NOW), context)


def condition(found: RedisStatus, kind: str) -> tuple[str, str]:
    return next((c.status, c.reason) for c in found.conditions if c.type == kind)


def test_a_database_that_is_whole_needs_nothing() -> None:
    assert plan(WANTED, WHOLE, NOW) == Plan()
    found = told(WHOLE)
    assert (found.phase, found.ready, found.primary) == (Phase.READY, "3/3", "db-0")
    assert condition(found, "Available") == ("True", "Serving")


# Bootstrap


def fresh(ordinal: int, keys: int = 0, **fields: Any) -> Seen:
    """A server that just started and follows no server."""
    link = {"id": f"own-{ordinal}", "offset": 0, "link_up": False, "unlinked": True, "priority": 0}
    link |= fields.pop("link", {})
    follows = FRESH if not keys else "127.0.0.1:1"
    return server(ordinal, follows, keys=keys, link=link, pod={"role_label": ""}, **fields)


BARE = tuple(sentinel(n, None) for n in range(3))
NEW = replace(WHOLE, nodes=tuple(fresh(n) for n in range(3)), sentinels=BARE, led=(), formed=False)


def test_a_new_database_gets_a_primary_followers_and_watchers_in_one_plan() -> None:
    promote, *rest = steps(NEW)
    assert isinstance(promote, Promote)
    assert (promote.node.pod, promote.fence) == ("db-0", Fence.NEVER_LED)
    assert {step.node.pod for step in rest if isinstance(step, Watch)} == {
        f"db-sentinel-{n}" for n in range(3)
    }
    assert {step.node.pod for step in rest if isinstance(step, Follow)} == {"db-1", "db-2"}


@pytest.mark.parametrize("late", [dead(2, Evidence.NOT_STARTED), dead(2, Evidence.SILENT), None])
def test_no_primary_is_named_before_all_servers_are_seen(late: Any) -> None:
    nodes = NEW.nodes[:2] if late is None else (*NEW.nodes[:2], late)
    assert steps(replace(NEW, nodes=nodes)) == ()
    assert "before all servers are observed" in blocked(replace(NEW, nodes=nodes))


def test_the_first_primary_is_who_has_the_data_and_not_the_first_pod() -> None:
    found = replace(NEW, nodes=(fresh(0), fresh(1), fresh(2, keys=7)))
    assert steps(found)[0].node.pod == "db-2"


def test_of_one_history_who_came_furthest_is_named() -> None:
    nodes = tuple(
        fresh(n, keys=7, link={"id": "old", "offset": offset})
        for n, offset in enumerate((10, 30, 20))
    )
    assert steps(replace(NEW, nodes=nodes))[0].node.pod == "db-1"


TWO = (fresh(0), fresh(1, keys=7), fresh(2, keys=8))


def test_data_of_different_histories_stop_everything_and_are_told() -> None:
    found = replace(NEW, nodes=TWO)
    assert steps(found) == ()
    assert "db-1, db-2 hold data of different histories" in blocked(found)
    written = msgspec.json.encode(told(found))  # a status that cannot be written tells nobody
    assert b"db-1, db-2 hold data of different histories" in written


def test_of_different_histories_a_person_may_choose() -> None:
    asked = replace(WANTED, switchover=Switchover("db-1"))
    assert steps(replace(NEW, nodes=TWO), asked)[0].node.pod == "db-1"


def test_of_different_histories_the_last_primary_has_the_data() -> None:
    woken = replace(NEW, nodes=TWO, led=(Led(0, "db-2", "gone"),), formed=True)
    assert steps(woken)[0].node.pod == "db-2"


def test_a_database_that_wakes_says_at_once_that_a_person_has_to_decide() -> None:
    """No pod that starts and no time that passes would change it."""
    nodes = tuple(fresh(n, keys=n + 1) for n in range(2))
    observed = replace(NEW, nodes=(*nodes, fresh(2)), led=(), formed=True)
    before = RedisStatus(phase=Phase.WAKING, binding=Binding("conn"))
    context = Context(previous=before, generation=1, now="2026-01-01T00:00:00Z", binding="conn")
    found = status(WANTED, observed, plan(WANTED, observed, NOW), context)
    degraded = next(c for c in found.conditions if c.type == "Degraded")
    assert (degraded.status, degraded.reason) == ("True", "Blocked")
    assert "redisoperator.dev/switch-primary-to" in degraded.message


@pytest.mark.parametrize(
    ("waiting", "age", "degraded"),
    [
        ("ImagePullBackOff: no such image (container server)", 5.0, True),
        ("", 5.0, False),
        ("", 500.0, True),
    ],
    ids=["an image that does not exist", "just created", "does not respond for minutes"],
)
def test_a_roll_of_sentinels_that_cannot_go_on_is_a_problem(
    waiting: str, age: float, degraded: bool
) -> None:
    """IN-07"""
    started = sentinel(2).pod
    pod = replace(started, revision="s2", ready=False, waiting=waiting, since=NOW - age)
    stuck = Unreachable(pod, "connection refused", NOW - age, Evidence.NOT_STARTED)
    observed = replace(
        WHOLE,
        sentinels=(sentinel(0), sentinel(1), stuck),
        sentinel_workload=replace(SENTINELS, revision="s2"),
    )
    reason = "Unreachable" if degraded else "Healthy"
    found = told(observed, at="1970-01-12T13:46:40Z")  # which is NOW
    assert condition(found, "Degraded") == (str(degraded), reason)


def test_servers_wait_until_it_is_known_whether_sentinels_are_outdated() -> None:
    """One edit changes both, and the controller has acted on the servers first. SE-14"""
    observed = replace(
        WHOLE,
        workloads=(replace(WORKLOAD, revision="r2"),),
        sentinel_workload=replace(SENTINELS, current=False),
    )
    found = plan(WANTED, observed, NOW)
    assert found.steps == ()
    assert "StatefulSet db-sentinel was changed" in "; ".join(found.blocked)
    told_of = replace(observed, sentinel_workload=SENTINELS)
    assert [step.pod for step in plan(WANTED, told_of, NOW).steps] == ["db-2"]


def test_a_database_is_not_ready_while_a_change_of_its_sentinels_is_not_observed() -> None:
    observed = replace(WHOLE, sentinel_workload=replace(SENTINELS, current=False))
    assert condition(told(observed), "Ready") == ("False", "Updating")


def test_sentinels_whose_pods_are_refused_are_a_problem() -> None:
    """K-14"""
    refused = replace(SENTINELS, trouble="exceeded quota")
    observed = replace(WHOLE, sentinels=(sentinel(0), sentinel(1)), sentinel_workload=refused)
    assert condition(told(observed), "Degraded") == ("True", "PodsRefused")


def test_a_sentinel_whose_exporter_fails_is_named_and_blocks_nothing() -> None:
    """IN-25"""
    failing = sentinel(1)
    why = "ImagePullBackOff (container exporter)"
    failing = replace(failing, pod=replace(failing.pod, waiting=why))
    found = told(replace(WHOLE, sentinels=(sentinel(0), failing, sentinel(2))))
    ready = next(c for c in found.conditions if c.type == "Ready")
    assert (ready.status, ready.reason) == ("True", "SidecarBroken")
    assert (
        f"db-sentinel-1 serves, but its pod is not ready while a container beside it fails: {why}"
        in (ready.message)
    )


def test_the_recorded_history_beats_the_recorded_name() -> None:
    nodes = (fresh(0, keys=9), fresh(1, keys=7, link={"id": "history", "offset": 50}), fresh(2))
    assert steps(replace(NEW, nodes=nodes, led=LED, formed=True))[0].node.pod == "db-1"


# All data lost


def test_what_was_in_memory_only_is_told_to_be_lost_and_started_empty() -> None:
    found = plan(IN_MEMORY, replace(NEW, led=LED, formed=True), NOW)
    assert [loss.accepted for loss in found.losses] == [True]
    assert isinstance(found.steps[0], Promote)


@pytest.mark.parametrize("ended", [1, 2])
def test_it_is_told_also_where_a_server_was_to_follow_one_that_ended_before_it_copied_it(
    ended: int,
) -> None:
    """All ended one after the other: each was replaced, and the first is back, empty. ST-03"""
    told_to_follow = fresh(0, link={"follows": of(ended)})
    nodes = (told_to_follow, fresh(1), fresh(2))
    found = plan(IN_MEMORY, replace(NEW, nodes=nodes, led=LED, formed=True), NOW)
    assert [loss.accepted for loss in found.losses] == [True]
    assert isinstance(found.steps[0], Promote)


def test_an_empty_database_of_which_a_replica_is_left_lost_nothing() -> None:
    left = server(1, of(0), keys=0, link={"link_up": False, "down_seconds": 0.5, "offset": 90})
    found = plan(IN_MEMORY, made(dead(0), left, fresh(2)), NOW)
    assert found.losses == ()


def test_lost_files_are_held_until_the_loss_is_accepted() -> None:
    found = plan(WANTED, replace(NEW, led=LED, formed=True), NOW)
    assert [loss.accepted for loss in found.losses] == [False]
    assert steps(replace(NEW, led=LED, formed=True)) == ()


def test_an_empty_database_that_was_woken_lost_nothing() -> None:
    nodes = tuple(
        replace(n, replication=replace(n.replication, follows="127.0.0.1:1")) for n in NEW.nodes
    )
    found = plan(WANTED, replace(NEW, nodes=nodes, led=LED, formed=True), NOW)
    assert found.losses == ()
    assert isinstance(found.steps[0], Promote)


# A dead primary

LOST = tuple(
    server(n, of(0), link={"link_up": False, "down_seconds": 0.5, "offset": offset})
    for n, offset in ((1, 90), (2, 100))
)


def test_the_replica_that_has_most_replaces_a_dead_primary() -> None:
    promote, *rest = steps(made(dead(0), *LOST))
    assert isinstance(promote, Promote)
    assert (promote.node.pod, promote.fence) == ("db-2", Fence.PROCESS_GONE)
    assert (promote.min_offset, promote.primary_pod) == (100, "db-0")
    assert len(promote.sentinels) == 3
    assert [step.node.pod for step in rest if isinstance(step, Follow)] == ["db-1"]
    assert len([step for step in rest if isinstance(step, Watch)]) == 3


def test_a_silent_primary_is_left_to_the_sentinels() -> None:
    found = made(dead(0, Evidence.SILENT), *LOST)
    assert steps(found) == ()
    assert "may be alive" in blocked(found)


@pytest.mark.parametrize("flag", [SentinelFlag.O_DOWN, SentinelFlag.FAILOVER])
def test_an_election_that_has_begun_is_awaited(flag: SentinelFlag) -> None:
    sentinels = (sentinel(0, flags=frozenset({flag})), sentinel(1), sentinel(2))
    assert steps(made(dead(0), *LOST, sentinels=sentinels)) == ()


@pytest.mark.parametrize(
    "known",
    [(), (WatchedReplica("10.9.9.1", 6379, flags=frozenset({SentinelFlag.S_DOWN})),)],
    ids=["nobody", "replicas that are gone"],
)
def test_sentinels_that_know_no_replica_to_promote_are_told_who_leads(
    known: tuple[WatchedReplica, ...],
) -> None:
    """A switchover was torn off before they heard of it, and the old primary's pod is new."""
    down = frozenset({SentinelFlag.O_DOWN, SentinelFlag.S_DOWN})
    views = tuple(sentinel(n, ip="10.9.9.9", flags=down, replicas=known) for n in range(3))
    found = steps(made(fresh(0), server(1), server(2, of(1)), sentinels=views))
    assert found
    assert {step.primary.pod for step in found if isinstance(step, Watch | Follow)} == {"db-1"}


def test_a_silent_sentinel_may_be_electing() -> None:
    silent = Unreachable(pod=sentinel(2).pod, error="time out", since=NOW)
    sentinels = (sentinel(0), sentinel(1), silent)
    assert steps(made(dead(0), *LOST, sentinels=sentinels)) == ()


def test_an_election_that_nobody_can_win_is_not_awaited() -> None:
    begun = frozenset({SentinelFlag.O_DOWN})
    sentinels = tuple(sentinel(n, flags=begun) for n in range(3))
    restarted = tuple(fresh(n, keys=5) for n in range(3))
    found = steps(made(*restarted, sentinels=sentinels))
    assert [s.node.pod for s in found if isinstance(s, Promote)] == ["db-0"]


def test_a_primary_that_came_back_empty_is_replaced_by_a_replica_with_the_data() -> None:
    restarted = fresh(0)
    promote, *rest = steps(made(restarted, *LOST))
    assert (promote.node.pod, promote.fence) == ("db-2", Fence.IS_REPLICA)
    assert {s.node.pod for s in rest if isinstance(s, Follow)} == {"db-0", "db-1"}


def test_a_primary_that_waits_for_sentinels_which_can_promote_nobody_is_released() -> None:
    others = (fresh(1, keys=5), fresh(2, keys=5))
    found = steps(made(dead(0), *others))
    assert [type(step) for step in found] == [Unwatch] * 3
    vouched = fresh(2, keys=5, link={"priority": 100, "unlinked": False})
    assert not [s for s in steps(made(dead(0), fresh(1), vouched)) if isinstance(s, Unwatch)]
    assert steps(made(dead(0, Evidence.SILENT), *others)) == ()


# Repair


def test_a_restarted_server_follows_the_primary() -> None:
    (step,) = steps(made(server(0), server(1, of(0)), fresh(2)))
    assert isinstance(step, Follow)
    assert (step.node.pod, step.primary.pod) == ("db-2", "db-0")


def test_a_replica_of_a_replica_follows_the_primary() -> None:
    (step,) = steps(made(server(0), server(1, of(0)), server(2, of(1))))
    assert (step.node.pod, step.primary.pod) == ("db-2", "db-0")


def test_no_server_with_data_follows_an_empty_primary() -> None:
    empty = server(0, keys=0, link={"id": "other"})
    found = made(empty, server(1, "10.9.9.9:6379"), server(2, of(0), keys=0, link={"id": "other"}))
    assert not [step for step in steps(found) if isinstance(step, Follow)]
    assert "does not follow an empty primary" in blocked(found)


def test_of_two_primaries_the_one_that_the_sentinels_name_stays() -> None:
    sentinels = tuple(sentinel(n, 1) for n in range(3))
    found = made(server(0), server(1), server(2, of(1)), sentinels=sentinels)
    (step,) = steps(found)
    assert (step.node.pod, step.primary.pod, step.follows) == ("db-0", "db-1", "")
    labels = {s.pod: s.role for s in plan(WANTED, found, NOW).steps if isinstance(s, LabelRole)}
    assert labels == {"db-0": Role.REPLICA}


def test_a_server_promoted_by_hand_over_less_data_does_not_lead() -> None:
    """db-0 led, db-1 was promoted by hand at offset 50, and db-0 was made to follow no server."""
    first = server(0, "127.0.0.1:1", link={"link_up": False})
    second = server(1, link={"id": "new", "id2": "history", "id2_offset": 50, "offset": 60})
    recorded = ((0, "run-0"),)
    found = made(first, second, server(2, of(0), link={"link_up": False}), recorded=recorded)
    promote, *rest = steps(found)
    assert (type(promote), promote.node.pod) == (Promote, "db-0")
    assert {s.node.pod for s in rest if isinstance(s, Follow)} == {"db-1", "db-2"}
    restarted = replace(found, recorded=((0, "another run"),))
    assert not [s for s in steps(restarted) if isinstance(s, Promote)]
    followed = server(0, of(1))
    assert not [
        s
        for s in steps(made(followed, second, server(2, of(1)), recorded=recorded))
        if isinstance(s, Promote)
    ]


def test_a_primary_beside_one_that_may_be_alive_is_not_trusted() -> None:
    silent = dead(0, Evidence.SILENT)
    found = made(silent, server(1, pod={"role_label": "replica"}), server(2, of(0)))
    assert plan(WANTED, found, NOW).steps == ()
    assert told(found).primary == ""


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (sentinel(1, None), "monitors no primary"),
        (sentinel(1, 2), "names 10.0.0.2:6379 as the primary"),
        (sentinel(1, quorum=1), "has other settings"),
        (sentinel(1, down_after_ms=30000), "has other settings"),
    ],
    ids=["lost its file", "another address", "quorum", "settings"],
)
def test_a_sentinel_that_has_it_wrong_is_told_and_no_other(one: SentinelSeen, why: str) -> None:
    found = replace(WHOLE, sentinels=(sentinel(0), one, sentinel(2)))
    (step,) = steps(found)
    assert isinstance(step, Watch)
    assert (step.node.pod, step.primary.pod, step.quorum) == ("db-sentinel-1", "db-0", 2)
    assert why in plan(WANTED, found, NOW).why


def test_sentinels_may_promote_replicas_that_were_seen_in_sync_and_no_others() -> None:
    nodes = (
        server(0),
        server(1, of(0), link={"priority": 0}),
        server(2, of(0), link={"priority": 0, "link_up": False}),
    )
    (step,) = steps(made(*nodes))
    assert isinstance(step, ConfigSet)
    assert (step.node.pod, step.values) == ("db-1", (("replica-priority", "100"),))


GHOST = OtherSentinel("gone", "10.0.1.9", 26379)


@pytest.mark.parametrize(
    "fields",
    [
        {"sentinels": (*sentinel(0).view.monitored[0].sentinels, GHOST)},
        {"replicas": (*sentinel(0).view.monitored[0].replicas, WatchedReplica("10.0.9.9", 6379))},
    ],
    ids=["sentinel", "replica"],
)
def test_ghosts_are_forgotten_by_one_sentinel_at_a_time(fields: Any) -> None:
    counts = (sentinel(0, **fields), sentinel(1), sentinel(2))
    (step,) = steps(replace(WHOLE, sentinels=counts))
    assert isinstance(step, ResetSentinel)
    assert step.node.pod == "db-sentinel-0"
    away = replace(WHOLE, sentinels=(counts[0], sentinel(1, replicas=()), sentinel(2)))
    (step,) = steps(away)  # the one that was reset before has not found the replicas yet
    assert (type(step), step.node.pod) == (Watch, "db-sentinel-1")
    unwell = made(server(0), server(1, of(0)), dead(2), sentinels=counts)
    assert not [s for s in steps(unwell) if isinstance(s, ResetSentinel)]
