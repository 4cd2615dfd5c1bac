"""A primary that was made a replica of no server is still the one with the most data."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.failover.test_failover import (
    NOW,
    WANTED,
    WHOLE,
    blocked,
    dead,
    of,
    sentinel,
    server,
    steps,
)
from redis_operator.planning.advice import Plan
from redis_operator.planning.at import at
from redis_operator.planning.failover.actions import Promote
from redis_operator.planning.failover.guards import GUARDS
from redis_operator.planning.fence import Fence
from redis_operator.planning.guards import breaches
from redis_operator.planning.modes import situation
from redis_operator.planning.observed import Evidence, Seen


def test_a_primary_that_was_demoted_by_hand_leads_again_when_it_is_ahead() -> None:
    """Sentinels that disagree do not put it right; its replicas have less than it has."""
    behind = {"offset": 90, "link_up": False, "down_seconds": 3.0}
    lost = {"offset": 100, "link_up": False}
    observed = replace(
        WHOLE,
        nodes=(
            server(0, "127.0.0.1:9", link=lost, pod={"role_label": "primary"}),
            server(1, of(0), link=behind),
            server(2, of(0), link=behind),
        ),
        sentinels=(sentinel(0), sentinel(1, 2), sentinel(2, None)),
    )
    promoted = [step for step in steps(observed) if isinstance(step, Promote)]
    assert [step.node.pod for step in promoted] == ["db-0"]


BEHIND: dict[str, Any] = {"offset": 90, "link_up": False, "down_seconds": 3.0}


@pytest.mark.parametrize("names", [0, 1], ids=["sentinels name the old one", "sentinels name it"])
def test_after_a_switchover_a_primary_that_does_not_respond_is_not_replaced_by_its_replica(
    names: int,
) -> None:
    """The one that led before follows it, and has a replica of its own that did not follow yet."""
    observed = replace(
        WHOLE,
        nodes=(server(0, of(1)), dead(1, Evidence.SILENT), server(2, of(0), link=BEHIND)),
        sentinels=tuple(sentinel(n, names) for n in range(3)),
    )
    assert [step for step in steps(observed) if isinstance(step, Promote)] == []
    assert "db-1 does not respond" in blocked(observed)


def test_a_primary_that_ended_right_after_a_switchover_is_replaced_by_its_replica() -> None:
    observed = replace(
        WHOLE,
        nodes=(server(0, of(1)), dead(1), server(2, of(0), link=BEHIND)),
        sentinels=tuple(sentinel(n) for n in range(3)),
    )
    (promote,) = (step for step in steps(observed) if isinstance(step, Promote))
    assert (promote.node.pod, promote.primary_pod) == ("db-0", "db-1")
    assert promote.fence is Fence.PROCESS_GONE


def test_no_rule_may_promote_the_replica_of_a_server_that_may_lead() -> None:
    observed = replace(
        WHOLE, nodes=(server(0, of(1)), dead(1, Evidence.SILENT), server(2, of(0), link=BEHIND))
    )
    node = observed.nodes[0]
    assert isinstance(node, Seen)
    step = Promote(at(node), of(1), Fence.NEVER_LED, "history", 100)
    found = breaches(situation(WANTED, observed, NOW), Plan(rule="any", stages=((step,),)), GUARDS)
    assert any("db-1" in line for line in found), found
