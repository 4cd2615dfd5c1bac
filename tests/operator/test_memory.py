from __future__ import annotations

import pytest
from msgspec.structs import replace

from redis_operator.api.redis import Redis
from redis_operator.api.status import RedisStatus, ShardStatus
from redis_operator.operator.execute import StepOutcome
from redis_operator.operator.memory import Memories
from redis_operator.operator.observe import elections
from redis_operator.planning.at import at
from redis_operator.planning.cluster.actions import Failover, FailoverMode
from redis_operator.planning.clusters import ClusterView, Peer
from redis_operator.planning.fence import Fence
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.observed import Election, Observed, Pod, Seen
from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS

KEY = ("default", "cache")
ONE, TWO = NodeId("one"), NodeId("two")


def _node(name: str, node: NodeId, follows: NodeId | None) -> Seen:
    pod = Pod(name=name, uid=name, shard=0, ordinal=int(name[-1]), ip="127.0.0.1")
    role, slots = (Role.REPLICA, NO_SLOTS) if follows else (Role.PRIMARY, ALL_SLOTS)
    return Seen(pod=pod, id=node, role=role, replica_of=follows, view=ClusterView(slots=slots))


def _look(
    memories: Memories, nodes: tuple[Seen, ...], outcomes: tuple[StepOutcome, ...] = ()
) -> None:
    memory = memories.of(KEY, RedisStatus(), ())
    memories.learn(KEY, Observed(nodes=nodes, elections=memory.elections), outcomes)


def _elections(memories: Memories) -> tuple[Election, ...]:
    return memories.of(KEY, RedisStatus(), ()).elections


def test_a_promotion_by_the_engine_itself_is_remembered_like_one_of_ours() -> None:
    memories = Memories(lambda: 100.0)
    _look(memories, (_node("cache-0-0", ONE, None), _node("cache-0-1", TWO, ONE)))
    assert _elections(memories) == ()
    _look(memories, (_node("cache-0-1", TWO, None),))
    _look(memories, (_node("cache-0-1", TWO, None),))
    assert _elections(memories) == (Election(node=TWO, at=100.0, over=ONE),)


def test_a_promotion_of_ours_is_remembered_once() -> None:
    memories = Memories(lambda: 100.0)
    replica = _node("cache-0-1", TWO, ONE)
    asked = Failover(node=at(replica), primary=ONE, mode=FailoverMode.PLAIN, fence=Fence.HANDSHAKE)
    _look(memories, (_node("cache-0-0", ONE, None), replica), (StepOutcome(asked),))
    _look(memories, (_node("cache-0-1", TWO, None), _node("cache-0-0", ONE, TWO)))
    assert _elections(memories) == (Election(node=TWO, at=100.0, over=ONE),)


@pytest.mark.parametrize(
    ("primary", "changed", "remembered"),
    [
        ("cache-0-0", "", ()),
        ("cache-0-0", "1970-01-01T00:01:10Z", (Election(node=ONE, at=70.0),)),
        ("cache-0-1", "1970-01-01T00:01:10Z", (Election(node=ONE, at=100.0),)),
        ("", "", ()),
    ],
    ids=["never changed", "changed before", "changed while nobody looked", "nobody led"],
)
def test_a_new_process_learns_of_promotions_from_the_status(
    primary: str, changed: str, remembered: tuple[Election, ...]
) -> None:
    shard = ShardStatus(name="shard-0", primary=primary, last_failover_time=changed)
    memories = Memories(lambda: 100.0)
    nodes = (_node("cache-0-0", ONE, None), _node("cache-0-1", TWO, ONE))
    first = memories.of(KEY, RedisStatus(shards=(shard,)), ())
    found = elections(first, nodes, 100.0)
    assert found == remembered
    memories.learn(KEY, Observed(nodes=nodes, elections=found), ())
    second = memories.of(KEY, RedisStatus(shards=(shard,)), ())
    assert elections(second, nodes, 101.0) == remembered


def test_a_new_process_learns_whose_data_are_whose_from_the_status_once() -> None:
    """The status tells of the successor as soon as that leads; the dead one must not be unknown."""
    memories = Memories(lambda: 100.0)
    shard = ShardStatus(name="shard-0", primary="cache-0-0", node_id=ONE, replication_id="history")
    first = memories.of(KEY, RedisStatus(shards=(shard,)), ())
    assert first.cluster.histories == ((ONE, "history"),)
    dead = Peer(id=ONE, ip="127.0.0.9", role=Role.PRIMARY)
    view = ClusterView(slots=ALL_SLOTS, peers=(dead,))
    successor = replace(_node("cache-0-1", TWO, None), view=view)
    memories.learn(KEY, Observed(nodes=(successor,), cluster=first.cluster), ())
    after = ShardStatus(name="shard-0", primary="cache-0-1", node_id=TWO, replication_id="next")
    assert (ONE, "history") in memories.of(KEY, RedisStatus(shards=(after,)), ()).cluster.histories


def test_a_spec_is_read_once_and_again_when_the_cache_has_another() -> None:
    memories = Memories()
    raw = {"metadata": {"name": "cache"}, "spec": {"mode": "Cluster", "shards": 3}}
    first = memories.loaded(KEY, raw)
    assert isinstance(first, Redis)
    assert memories.loaded(KEY, raw) is first
    changed = memories.loaded(KEY, {**raw, "spec": {"mode": "Cluster", "shards": 4}})
    assert isinstance(changed, Redis)
    assert changed.spec.shards == 4
    assert not isinstance(memories.loaded(KEY, {**raw, "spec": {"mode": "Cluster"}}), Redis)
    assert memories.loaded(KEY, raw) == first
    memories.forget(KEY)
    assert memories.loaded(KEY, raw) is not first
