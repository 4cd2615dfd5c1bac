"""Sentinels may promote a replica only once none of them holds anything against the primary."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.failover.test_failover import WHOLE, blocked, of, sentinel, server, steps
from redis_operator.planning.sentinels import SentinelFlag

RESTARTED = replace(
    WHOLE,
    nodes=(
        server(0, link={"priority": 0}),
        server(1, of(0), link={"priority": 0}),
        server(2, of(0), link={"priority": 0}),
    ),
)


def test_replicas_that_are_in_sync_may_be_promoted_once_all_sentinels_see_the_primary() -> None:
    assert {step.node.pod for step in steps(RESTARTED)} == {"db-0", "db-1", "db-2"}


@pytest.mark.parametrize(
    "doubt",
    [
        {"flags": frozenset({SentinelFlag.S_DOWN})},
        {"flags": frozenset({SentinelFlag.S_DOWN, SentinelFlag.O_DOWN})},
        {"role_reported": "slave"},
    ],
    ids=["down", "down for all", "said to be a replica"],
)
def test_a_sentinel_that_still_takes_the_primary_for_dead_would_promote_them_at_once(
    doubt: dict[str, Any],
) -> None:
    """Its INFO is up to ten seconds old: the primary, restarted as a replica, was just promoted."""
    watchers = (sentinel(0), sentinel(1, **doubt), sentinel(2))
    observed = replace(RESTARTED, sentinels=watchers)
    assert steps(observed) == ()
    assert "db-sentinel-1" in blocked(observed)
