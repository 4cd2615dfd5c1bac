"""A primary that was made a replica of no server is still the one with the most data."""

from __future__ import annotations

from msgspec.structs import replace

from planning.test_failover import WHOLE, of, sentinel, server, steps
from redis_operator.planning.failover.actions import Promote


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
