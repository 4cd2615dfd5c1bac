from __future__ import annotations

import pytest

from redis_operator.api.redis import Mode
from redis_operator.manifests.layouts import LAYOUTS
from redis_operator.operator.requests import met
from redis_operator.operator.wanted import PRIMARY_ANNOTATION, read_acceptance
from redis_operator.planning.advice import ACCEPT_LOSS, Switchover, Wanted
from redis_operator.planning.clusters import ClusterView
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.observed import Observed, Pod, Seen, Workload
from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS, SlotSet


def _observed(role: Role, slots: SlotSet) -> Observed:
    pod = Pod(name="cache-0-1", uid="u", shard=0, ordinal=1)
    return Observed(
        nodes=(Seen(pod=pod, id=NodeId("a"), role=role, view=ClusterView(slots=slots)),)
    )


@pytest.mark.parametrize(
    ("asked", "role", "slots", "done"),
    [
        ("cache-0-1", Role.PRIMARY, ALL_SLOTS, True),
        ("cache-0-1", Role.PRIMARY, NO_SLOTS, False),  # it leads nobody
        ("cache-0-1", Role.REPLICA, NO_SLOTS, False),
        ("cache-0-0", Role.PRIMARY, ALL_SLOTS, False),  # another pod was asked for
        ("", Role.PRIMARY, ALL_SLOTS, False),
    ],
)
def test_a_switchover_is_met_when_the_pod_leads_its_shard(
    asked: str, role: Role, slots: SlotSet, done: bool
) -> None:
    wanted = Wanted("cache", 3, 1, switchover=Switchover(asked) if asked else None)
    found = met({}, wanted, _observed(role, slots))
    assert found == ((PRIMARY_ANNOTATION,) if done else ())


@pytest.mark.parametrize(
    ("text", "slots", "restart", "readable"),
    [
        ("", NO_SLOTS, False, True),
        ("0-5460", SlotSet.span(0, 5460), False, True),
        ("0-5460,10923-16383", SlotSet.parse("0-5460,10923-16383"), False, True),
        ("restart", NO_SLOTS, True, True),
        ("7, restart", SlotSet([7]), True, True),
        ("all", NO_SLOTS, False, False),
        ("0-99999", NO_SLOTS, False, False),
    ],
)
def test_an_acceptance_names_slots_or_a_restart_and_nothing_else(
    text: str, slots: SlotSet, restart: bool, readable: bool
) -> None:
    found = read_acceptance(text)
    assert (found.slots, found.restart, not found.problem) == (slots, restart, readable)
    assert readable or text in found.problem or "0-99999" in found.problem


def _with(slots: SlotSet, *, pod: str = "1", workload: str = "1") -> Observed:
    place = Pod(name="cache-0-0", uid="u", shard=0, ordinal=0, revision=pod)
    node = Seen(pod=place, id=NodeId("a"), role=Role.PRIMARY, view=ClusterView(slots=slots))
    return Observed(nodes=(node,), workloads=(Workload(0, "cache-0", "w", 1, workload),))


@pytest.mark.parametrize(
    ("text", "observed", "done"),
    [
        ("0-5460", _with(ALL_SLOTS), True),
        ("0-5460", _with(SlotSet.span(5461, 16383)), False),
        ("restart", _with(ALL_SLOTS), True),
        ("restart", _with(ALL_SLOTS, workload="2"), False),  # its pod is still outdated
        ("restart", _with(ALL_SLOTS, workload=""), False),  # unknown is not up to date
        ("nonsense", _with(ALL_SLOTS), False),
    ],
)
def test_an_accepted_loss_is_used_up_when_it_has_happened(
    text: str, observed: Observed, done: bool
) -> None:
    """CL-36: it is no standing licence."""
    found = met({ACCEPT_LOSS: text}, Wanted("cache", 1, 0), observed)
    assert found == ((ACCEPT_LOSS,) if done else ())


@pytest.mark.parametrize("up", [True, False])
def test_where_there_are_no_slots_all_data_are_named_by_a_word(*, up: bool) -> None:
    accepted = read_acceptance("all", everything=LAYOUTS[Mode.STANDALONE].everything)
    assert (accepted.slots, accepted.problem) == (ALL_SLOTS, "")
    assert read_acceptance("all", everything=LAYOUTS[Mode.CLUSTER].everything).problem
    pod = Pod(name="cache-0", uid="u", shard=0, ordinal=0)
    node = Seen(pod=pod, id=NodeId("a"), role=Role.PRIMARY, loading=not up)
    wanted = Wanted("cache", 1, 0, mode=Mode.STANDALONE)
    found = met({ACCEPT_LOSS: "all"}, wanted, Observed(nodes=(node,)))
    assert found == ((ACCEPT_LOSS,) if up else ())
