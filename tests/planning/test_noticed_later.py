"""Changes of the rules that no test noticed for a while; each of these does now."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from planning import moments as m
from planning.rows import told
from redis_operator.planning.advice import PlanPhase
from redis_operator.planning.cluster.assist import _uncertain, fence_of
from redis_operator.planning.cluster.connect import _belongs, connect
from redis_operator.planning.cluster.lost import gone_owners, lost
from redis_operator.planning.cluster.rebalance import _weights
from redis_operator.planning.clusters import NotWeighed, Weighed
from redis_operator.planning.common.roll import _refused_writes
from redis_operator.planning.fence import Fence
from redis_operator.planning.observed import Observed
from redis_operator.redis.slots import SlotSet

W = m.whole()
P0, P1, P2, R1, R2 = (m.server(W, pod) for pod in ("0-0", "1-0", "2-0", "1-1", "2-1"))
FIVE = SlotSet([5])
LOST = m.met(m.but(W, "0-0", slots=P0.slots - FIVE), slots=FIVE, connected=False)


def unlinked(observed: Observed) -> Observed:
    return m.viewed(observed, P0.id, connected=False)


FENCES = {
    "a pod that is silent may be it": (unlinked(m.silent(W, "0-0", known=False)), None),
    "all pods whose servers are not known are dead": (
        unlinked(m.dead(W, "0-0", known=False)),
        Fence.POD_GONE,
    ),
    "the others are linked with it": (m.dead(W, "0-0", known=False), None),
    "its process is gone": (m.dead(W, "0-0"), Fence.PROCESS_GONE),
    "it is silent": (m.silent(W, "0-0"), None),
}


@pytest.mark.parametrize("name", FENCES)
def test_an_owner_is_fenced_only_when_no_pod_may_be_it(name: str) -> None:
    moment, fence = FENCES[name]
    assert fence_of(m.situation(moment), P0.id) is fence


def test_it_is_told_why_an_owner_may_be_alive() -> None:
    silent = m.situation(m.silent(W, "0-0"))
    assert "db-0-0 does not respond and may be alive" in _uncertain(silent, P0.id)
    linked = m.situation(m.silent(W, "0-0", known=False))
    assert "is linked with it, so it is not failed over" in _uncertain(linked, P0.id)
    unseen = m.situation(unlinked(m.silent(W, "0-0", known=False)))
    assert "may be db-0-0, which does not respond" in _uncertain(unseen, P0.id)
    both = m.dead(unlinked(m.silent(W, "0-0", known=False)), "2-1", known=False)
    assert "may be db-0-0, which does not respond" in _uncertain(m.situation(both), P0.id)


def test_an_owner_is_gone_only_when_every_pod_says_who_it_is() -> None:
    assert [claim.id for claim in gone_owners(m.situation(LOST))] == [m.STRANGER]
    assert gone_owners(m.situation(m.silent(LOST, "2-1", known=False))) == []
    duplicates = m.but(LOST, "2-1", id=R1.id)
    assert gone_owners(m.situation(duplicates)) == []


def test_a_loss_that_is_accepted_is_looked_at_again_soon() -> None:
    advice = lost(m.situation(LOST, accepted_loss=FIVE))
    assert advice is not None
    assert advice.again_after == 0.05


def test_an_owner_that_is_given_up_is_forgotten_by_those_who_know_it() -> None:
    known = tuple(p for p in m.server(LOST, "2-1").peers if p.id != m.STRANGER)
    advice = lost(m.situation(m.but(LOST, "2-1", peers=known), accepted_loss=FIVE))
    assert advice is not None
    assert told(advice) == ", ".join(f"Forget {pod}" for pod in ("0-0", "0-1", "1-0", "1-1", "2-0"))


@pytest.mark.parametrize(
    ("formed", "phase"), [(True, PlanPhase.HEALING), (False, PlanPhase.CREATING)]
)
def test_servers_that_meet_are_healed_or_created_and_looked_at_again_soon(
    formed: bool, phase: PlanPhase
) -> None:
    apart = m.but(W, "0-0", peers=tuple(p for p in P0.peers if p.id != P1.id))
    advice = connect(m.situation(replace(apart, formed=formed)))
    assert advice is not None
    assert advice.stages
    assert (advice.phase, advice.again_after) == (phase, 0.1)


BELONGING = {
    "a pod that stays": (W, "1-1", True),
    "a leaving owner of slots": (W, "2-0", True),
    "a leaving replica": (W, "2-1", False),
    "a leaving primary that holds nothing and leads whom leaves too": (
        m.emptied(W, "2-0"),
        "2-0",
        False,
    ),
    "a leaving primary with keys": (m.but(m.emptied(W, "2-0"), "2-0", keys=1), "2-0", True),
    "a leaving primary whose replica stays": (
        m.but(m.emptied(W, "2-0"), "1-1", replica_of=P2.id),
        "2-0",
        True,
    ),
}


@pytest.mark.parametrize("name", BELONGING)
def test_leaving_servers_are_introduced_while_they_hold_something(name: str) -> None:
    moment, pod, belongs = BELONGING[name]
    assert _belongs(m.situation(moment, shards=2), m.server(moment, pod)) is belongs


@pytest.mark.parametrize(
    ("least", "replicas", "is_told"), [(0, 1, False), (1, 1, True), (1, 2, False), (2, 1, True)]
)
def test_a_roll_tells_that_it_interrupts_writes_where_it_does(
    least: int, replicas: int, is_told: bool
) -> None:
    found = _refused_writes(m.situation(W, min_replicas_to_write=least, replicas=replicas))
    assert bool(found) is is_told
    assert not is_told or f"minReplicasToWrite is {least}" in found


def test_slots_are_weighed_although_a_server_without_keys_cannot() -> None:
    moment = W
    for pod, node in (("0-0", P0), ("1-0", P1)):
        weighed = Weighed(unit="bytes", by_slot=((min(node.slots), 10),))
        moment = m.but(moment, pod, keys=1, weighed=weighed)
    empty = m.but(moment, "2-0", keys=0, weighed=NotWeighed())
    assert _weights(m.situation(empty)) is not None
    held = m.but(moment, "2-0", keys=1, weighed=NotWeighed())
    assert _weights(m.situation(held)) is None
