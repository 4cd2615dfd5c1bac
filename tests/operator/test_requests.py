from __future__ import annotations

import pytest

from redis_operator.operator.requests import is_met
from redis_operator.planning.advice import Switchover, Wanted
from redis_operator.planning.observed import NodeId, Observed, Pod, Role, Seen
from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS, SlotSet


def _observed(role: Role, slots: SlotSet) -> Observed:
    pod = Pod(name="cache-0-1", uid="u", shard=0, ordinal=1)
    return Observed(nodes=(Seen(pod=pod, id=NodeId("a"), role=role, ip="", slots=slots),))


@pytest.mark.parametrize(
    ("asked", "role", "slots", "met"),
    [
        ("cache-0-1", Role.PRIMARY, ALL_SLOTS, True),
        ("cache-0-1", Role.PRIMARY, NO_SLOTS, False),  # it leads nobody
        ("cache-0-1", Role.REPLICA, NO_SLOTS, False),
        ("cache-0-0", Role.PRIMARY, ALL_SLOTS, False),  # another pod was asked for
        ("", Role.PRIMARY, ALL_SLOTS, False),
    ],
)
def test_a_switchover_is_met_when_the_pod_leads_its_shard(
    asked: str, role: Role, slots: SlotSet, met: bool
) -> None:
    wanted = Wanted("cache", 3, 1, switchover=Switchover(asked) if asked else None)
    assert is_met(wanted, _observed(role, slots)) is met
