"""Which version may follow which. I12"""

from __future__ import annotations

import pytest

from redis_operator.planning.advice import Wanted
from redis_operator.planning.gates import can_copy, limitation
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.observed import Observed, Pod, Seen

# Rows of the measured matrix: what a replica of the second reads from a primary of the first.
MEASURED = [
    ("redis 6.0", "redis 6.2", True),
    ("redis 6.2", "redis 7.0", True),
    ("redis 6.2", "valkey 8.1", True),
    ("redis 7.0", "redis 6.2", False),
    ("redis 7.0", "valkey 9.1", True),
    ("redis 7.4", "redis 8.0", True),
    ("redis 7.4", "valkey 8.1", False),
    ("redis 8.0", "valkey 9.1", False),
    ("redis 8.6", "redis 8.0", False),
    ("valkey 8.1", "valkey 9.1", True),
    ("valkey 8.1", "redis 7.4", True),
    ("valkey 8.1", "redis 7.0", False),
    ("valkey 9.1", "valkey 9.1", True),
]


@pytest.mark.parametrize(("old", "new", "allowed"), MEASURED)
def test_steps_follow_the_measured_matrix(old: str, new: str, allowed: bool) -> None:
    one, two = tuple(old.split()), tuple(new.split())
    assert can_copy((one[0], one[1]), (two[0], two[1])) is allowed


def test_a_refused_step_names_the_pod_and_the_way_out() -> None:
    pod = Pod(name="db-0-0", uid="u", shard=0, ordinal=0, ip="10.0.0.1")
    node = Seen(
        pod=pod,
        id=NodeId("n"),
        role=Role.PRIMARY,
        engine="redis",
        version="7.4.1",
    )
    wanted = Wanted(name="db", shards=3, replicas=1, engine="valkey", version="9.1")
    reason = limitation(wanted, Observed(nodes=(node,)))
    assert reason is not None
    assert "db-0-0 runs redis 7.4.1" in reason
    assert "key by key" in reason


def test_patch_levels_go_both_ways() -> None:
    assert can_copy(("redis", "7.0.15"), ("redis", "7.0.5"))
    assert can_copy(("valkey", "9.1.2"), ("valkey", "9.1.0"))
