"""What is remembered from one look to the next, and for how long, as tables."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from redis_operator.api.redis import Redis
from redis_operator.api.status import RedisStatus, ShardStatus
from redis_operator.operator.execute import StepOutcome
from redis_operator.operator.memory import Memories
from redis_operator.operator.observe import LastPrimary, Memory
from redis_operator.planning.actions import LabelRole, ResizePod
from redis_operator.planning.advice import Plan
from redis_operator.planning.at import at
from redis_operator.planning.cluster.actions import Failover, FailoverMode, Meet
from redis_operator.planning.clusters import (
    ClusterFacts,
    ClusterView,
    Introduction,
    Peer,
    PeerFlag,
)
from redis_operator.planning.fence import Fence
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.observed import Election, Led, Observed, Pod, Seen
from redis_operator.planning.reporting.degradations import Degradation
from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS

KEY, OTHER = ("ns", "db"), ("ns", "other")
A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
NOTHING = RedisStatus()


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def node(name: NodeId, follows: NodeId | None = None, **fields: Any) -> Seen:
    pod = Pod(name=f"db-{name}", uid=f"u-{name}", shard=0, ordinal=0, ip="127.0.0.1")
    peers, ok = fields.pop("peers", ()), fields.pop("state_ok", True)
    slots = fields.pop("slots", NO_SLOTS if follows else ALL_SLOTS)
    role = Role.REPLICA if follows else Role.PRIMARY
    view = ClusterView(slots=slots, peers=peers, state_ok=ok)
    return Seen(pod=pod, id=name, role=role, replica_of=follows, view=view, **fields)


def peer(name: NodeId, **fields: Any) -> Peer:
    return Peer(id=name, ip="127.0.0.2", role=Role.PRIMARY, **fields)


def of(memories: Memories, status: RedisStatus = NOTHING, key: Any = KEY) -> Memory:
    return memories.of(key, status, ())


def look(memories: Memories, *nodes: Seen, outcomes: tuple[StepOutcome, ...] = ()) -> None:
    known = of(memories)
    found = Observed(nodes=nodes, elections=known.elections, cluster=known.cluster)
    memories.learn(KEY, found, outcomes)


# Promotions


def failover(error: str = "") -> StepOutcome:
    asked = Failover(node=at(node(B)), primary=A, mode=FailoverMode.PLAIN, fence=Fence.HANDSHAKE)
    return StepOutcome(asked, error)


def test_a_promotion_that_was_refused_is_none() -> None:
    memories = Memories(Clock())
    look(
        memories, node(A), outcomes=(failover("no"), StepOutcome(LabelRole("p", "u", Role.PRIMARY)))
    )
    assert of(memories).elections == ()
    look(memories, node(A), outcomes=(failover(),))
    assert of(memories).elections == (Election(node=B, at=1000.0, over=A),)


def test_a_promotion_is_remembered_for_ten_minutes() -> None:
    clock = Clock()
    memories = Memories(clock)
    look(memories, node(A), outcomes=(failover(),))
    clock.now += 599
    look(memories, node(A))
    assert len(of(memories).elections) == 1
    clock.now += 1
    look(memories, node(A))
    assert of(memories).elections == ()


@pytest.mark.parametrize(
    ("after", "count"),
    [
        (node(B), 1),
        (node(B, slots=NO_SLOTS), 0),
        (node(B, A), 0),
        (node(C), 0),
    ],
    ids=["leads", "leads without slots", "follows", "was not seen"],
)
def test_who_followed_and_leads_now_was_promoted_by_the_engine(after: Seen, count: int) -> None:
    memories = Memories(Clock())
    look(memories, node(A), node(B, A))
    look(memories, after)
    assert len(of(memories).elections) == count


@pytest.mark.parametrize(("seconds", "count"), [(29, 1), (30, 2)])
def test_a_promotion_of_the_last_half_minute_is_the_same_one(seconds: int, count: int) -> None:
    clock = Clock()
    memories = Memories(clock)
    look(memories, node(A), node(B, A), outcomes=(failover(),))
    clock.now += seconds
    look(memories, node(B))
    assert len(of(memories).elections) == count


# What a status tells


def shard(name: str, **fields: Any) -> ShardStatus:
    return ShardStatus(name=name, **fields)


def test_what_a_status_tells_of_shards_is_taken_by_their_numbers() -> None:
    status = RedisStatus(
        shards=(
            shard("shard-0", primary="db-0-0", node_id="a", replication_id="h"),
            shard("shard-1", last_primary="db-1-0", last_failover_time="1970-01-01T00:00:09Z"),
            shard("shard-12", primary="p", last_failover_time="1970-01-01T00:00:09Z"),
            shard("odd", primary="x", node_id="y"),
        )
    )
    found = of(Memories(Clock()), status)
    assert found.last_primaries == (LastPrimary(0, "db-0-0", 0.0), LastPrimary(12, "p", 9.0))
    assert found.recorded == ((0, "a"),)
    assert found.led == (Led(0, "db-0-0", "h"), Led(1, "db-1-0", ""), Led(12, "p", ""))
    assert dict(found.cluster.histories) == {"a": "h", "y": ""}
    assert (found.formed, found.copied) == (False, "")


def test_what_a_status_tells_of_its_binding_and_its_source() -> None:
    told = msgspec.convert(
        {"binding": {"name": "conn"}, "source": {"address": "10.0.0.9:6379"}}, RedisStatus
    )
    found = of(Memories(Clock()), told)
    assert (found.formed, found.copied) == (True, "10.0.0.9:6379")


def test_a_status_stands_in_until_a_look_was_had() -> None:
    memories = Memories(Clock())
    status = RedisStatus(shards=(shard("shard-0", primary="db-0-0"),))
    assert of(memories, status).last_primaries
    look(memories, node(A))
    assert of(memories, status).last_primaries == ()


# Histories


def history(name: NodeId, text: str, **fields: Any) -> Seen:
    found = node(name, **fields)
    return replace(found, replication=replace(found.replication, id=text))


def test_histories_are_those_of_primaries_with_slots_until_no_server_knows_them() -> None:
    memories = Memories(Clock())
    look(
        memories,
        history(A, "one", peers=(peer(B),)),
        history(B, "two"),
        history(C, "empty", slots=NO_SLOTS),
        history(NodeId("d"), "replica", follows=A),
    )
    assert dict(of(memories).cluster.histories) == {A: "one", B: "two"}
    look(memories, history(A, "one", peers=(peer(B),)))
    assert dict(of(memories).cluster.histories) == {A: "one", B: "two"}
    look(memories, history(A, "later"))
    assert dict(of(memories).cluster.histories) == {A: "later"}


# Introductions

MEET = Meet(node=at(node(A)), peer=at(node(B)))


def introduced(*nodes: Seen, outcomes: tuple[StepOutcome, ...] = (), times: int = 0) -> Any:
    memories = Memories(Clock())
    before = (Introduction(A, B, times, 900.0),) if times else ()
    observed = Observed(nodes=nodes, cluster=ClusterFacts(introductions=before))
    memories.learn(KEY, observed, outcomes)
    return of(memories).cluster.introductions


APART = (node(A), node(B))


@pytest.mark.parametrize(
    ("nodes", "outcomes", "times", "expected"),
    [
        (APART, (), 0, ()),
        (APART, (StepOutcome(MEET),), 0, (Introduction(A, B, 1, 1000.0),)),
        (APART, (StepOutcome(MEET, "no"),), 0, ()),
        (APART, (StepOutcome(MEET),), 3, (Introduction(A, B, 4, 1000.0),)),
        (APART, (), 3, (Introduction(A, B, 3, 900.0),)),
        ((node(A),), (), 3, ()),
        ((node(A, peers=(peer(B),)), node(B)), (), 3, ()),
        ((node(A), node(B, peers=(peer(A),))), (), 3, ()),
        (
            (node(A, peers=(peer(B, connected=False),)), node(B)),
            (),
            3,
            (Introduction(A, B, 3, 900.0),),
        ),
        (
            (node(A, peers=(peer(B, flags=frozenset({PeerFlag.HANDSHAKE})),)), node(B)),
            (),
            3,
            (Introduction(A, B, 3, 900.0),),
        ),
    ],
    ids=[
        *(
            "none",
            "first",
            "refused",
            "again",
            "kept",
            "one is gone",
            "known",
            "known to the other",
        ),
        *("not connected", "shakes hands"),
    ],
)
def test_pairs_that_were_introduced_are_remembered_until_they_know_each_other(
    nodes: tuple[Seen, ...], outcomes: tuple[StepOutcome, ...], times: int, expected: Any
) -> None:
    assert introduced(*nodes, outcomes=outcomes, times=times) == expected


# Waits, refusals, specs


def test_the_time_is_counted_since_the_same_is_waited_for() -> None:
    clock = Clock()
    memories = Memories(clock)
    assert memories.waited(KEY) == 0.0
    memories.attempted(KEY, Observed(), Plan(blocked=("one",)))
    clock.now += 5
    memories.attempted(KEY, Observed(), Plan(blocked=("one",)))
    assert memories.waited(KEY) == 5.0
    memories.attempted(KEY, Observed(), Plan(blocked=("two",)))
    assert memories.waited(KEY) == 0.0
    clock.now -= 50
    assert memories.waited(KEY) == 0.0


def test_the_time_is_counted_since_the_last_server_stopped_serving() -> None:
    clock = Clock()
    memories = Memories(clock)
    look(memories, node(A, state_ok=False), node(B))
    clock.now += 5
    look(memories, node(A, state_ok=False), node(B, state_ok=False))
    clock.now += 3
    look(memories, node(A, state_ok=False), node(B, state_ok=False))
    assert memories.down_for(KEY) == 3.0
    look(memories, node(A, state_ok=False), node(B))
    assert memories.down_for(KEY) == 8.0
    look(memories, node(A), node(B))
    look(memories, node(A, state_ok=False), node(B))
    assert memories.down_for(KEY) == 0.0


def test_attempts_count_while_nothing_that_is_observed_changes() -> None:
    clock = Clock()
    memories = Memories(clock)
    plan = Plan(rule="any", stages=((MEET,),))
    begun = clock.now
    for now in (0.0, 0.5, 1.0):
        clock.now = begun + now
        memories.attempted(KEY, Observed(nodes=(node(A),)), plan)
    (found,) = of(memories).attempts
    assert (found.times, found.at) == (2, begun + 1.0), "those within a second count once"
    memories.attempted(KEY, Observed(nodes=(node(B),)), plan)
    (found,) = of(memories).attempts
    assert found.times == 1


def test_attempts_that_keep_failing_are_remembered_with_their_error() -> None:
    clock = Clock()
    memories = Memories(clock)
    plan = Plan(rule="any", stages=((MEET,),))
    for _ in range(6):
        clock.now += 1
        memories.attempted(KEY, Observed(nodes=(node(A),)), plan, (StepOutcome(MEET, "refused"),))
    memories.attempted(KEY, Observed(nodes=(node(B),)), Plan(), ())
    (found,) = of(memories).attempts
    assert (found.times, found.error) == (5, "refused")


def test_pods_that_the_cluster_refused_to_resize_are_remembered() -> None:
    memories = Memories(Clock())
    done, refused = (
        StepOutcome(ResizePod("p", "u1", ())),
        StepOutcome(ResizePod("p", "u2", ()), "no"),
    )
    label = StepOutcome(LabelRole("p", "u3", Role.PRIMARY), "no")
    look(memories, node(A), outcomes=(done, refused, label))
    look(memories, node(A), outcomes=(StepOutcome(ResizePod("p", "u4", ()), "no"),))
    look(memories, node(A))
    assert of(memories).resize_refused == {"u2", "u4"}


def test_a_spec_that_was_followed_is_that_of_the_same_object() -> None:
    memories = Memories(Clock())
    raw = {"metadata": {"name": "db", "uid": "u"}, "spec": {"mode": "Cluster", "shards": 3}}
    redis = memories.loaded(KEY, raw)
    assert isinstance(redis, Redis)
    facts: Any = object()
    memories.follow(KEY, redis, facts)
    assert memories.last_followed(KEY, "u") == (redis, facts)
    assert memories.last_followed(KEY, "other") is None
    assert memories.last_followed(OTHER, "u") is None


def test_what_is_forgotten_is_everything_of_one_database() -> None:
    clock = Clock()
    memories = Memories(clock)
    why = Degradation("Refused", "no")
    for key in (KEY, OTHER):
        memories.hindered(key, why)
        memories.attempted(key, Observed(), Plan(blocked=("one",)))
        known = memories.of(key, NOTHING, ())
        observed = Observed(
            nodes=(history(A, "one", state_ok=False), node(B)), cluster=known.cluster
        )
        resized = StepOutcome(ResizePod("p", "u", ()), "no")
        memories.learn(key, observed, (failover(), StepOutcome(MEET), resized))
    clock.now += 5
    fresh = of(Memories(clock))
    memories.forget(KEY)
    assert of(memories) == fresh
    assert memories.hindrance(KEY) is None
    assert memories.waited(KEY) == 0.0
    assert memories.down_for(KEY) == clock.now
    memories.learn(KEY, Observed(nodes=(node(B, A),)), ())
    memories.forget(KEY)
    memories.learn(KEY, Observed(nodes=(node(B),)), ())
    assert of(memories).elections == ()
    kept = memories.of(OTHER, NOTHING, ())
    assert kept.elections
    assert kept.resize_refused
    assert kept.cluster.introductions
    assert kept.cluster.histories
    assert memories.hindrance(OTHER) == why
    assert memories.waited(OTHER) == memories.down_for(OTHER) == 5.0
    memories.hindered(OTHER, None)
    assert memories.hindrance(OTHER) is None
