"""Servers of mode Failover that cannot load their files: what is deleted, and what never. ST-07"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from redis_operator.planning.actions import DiscardData
from redis_operator.planning.failover.actions import Promote
from redis_operator.planning.observed import Evidence, Observed, Unreachable, Volume

from .test_failover import LOST, blocked, dead, fresh, made, of, sentinel, server, steps


def broken(ordinal: int, *, restarts: int = 2, evidence: Evidence = Evidence.TERMINATED) -> Any:
    node = dead(ordinal, evidence)
    return replace(
        node, pod=replace(node.pod, restarts=restarts, unloadable="Bad file format reading the AOF")
    )


def stored(*nodes: Any, **fields: Any) -> Observed:
    volumes = tuple(
        Volume(f"data-db-{n}", f"db-{n}", f"v{n}", 1, 1, expandable=False) for n in range(3)
    )
    return made(*nodes, volumes=volumes, **fields)


def discarded(observed: Observed) -> list[tuple[str, str, str]]:
    found = [step for step in steps(observed) if isinstance(step, DiscardData)]
    return [(step.pod, step.claim, step.data_holder.pod) for step in found]


REPLICAS = (server(0), server(1, of(0)))


def test_a_replica_gets_an_empty_volume_and_copies_the_primary_again() -> None:
    assert discarded(stored(*REPLICAS, broken(2))) == [("db-2", "data-db-2", "db-0")]


def test_a_primary_is_replaced_first_and_its_files_go_when_the_sentinels_know() -> None:
    found = steps(stored(broken(0), *LOST))
    assert [s.node.pod for s in found if isinstance(s, Promote)] == ["db-2"]
    assert not [s for s in found if isinstance(s, DiscardData)]
    replaced = (broken(0), server(1, of(2)), server(2))
    told = tuple(sentinel(n, 2) for n in range(3))
    assert discarded(stored(*replaced, sentinels=told)) == [("db-0", "data-db-0", "db-2")]


@pytest.mark.parametrize(
    ("node", "others", "why"),
    [
        (broken(2, restarts=1), REPLICAS, "it tries again"),
        (broken(2), (server(0, keys=0), server(1, of(0), keys=0)), "db-0 holds no key"),
        (broken(2), (server(0), server(1)), ""),
        (broken(2), (fresh(0, keys=5), fresh(1, keys=5)), ""),
    ],
    ids=["once", "the primary is empty", "two primaries", "no primary"],
)
def test_files_that_may_be_needed_are_kept(node: Unreachable, others: Any, why: str) -> None:
    found = stored(*others, node)
    assert discarded(found) == []
    assert why in blocked(found)


def test_files_of_a_server_that_may_be_alive_are_kept() -> None:
    assert discarded(stored(*REPLICAS, broken(2, evidence=Evidence.SILENT))) == []


def test_files_are_kept_until_the_sentinels_name_the_primary() -> None:
    told = tuple(sentinel(n, 1) for n in range(3))
    assert discarded(stored(*REPLICAS, broken(2), sentinels=told)) == []
