"""Preconditions as a table: the facts right before a step, and whether it may still be taken."""

from __future__ import annotations

from typing import Any

import pytest

from planning import moments as m
from redis_operator.planning.actions import Action, DeletePod, DiscardData, ScaleWorkload
from redis_operator.planning.at import At
from redis_operator.planning.cluster.actions import (
    AssignSlots,
    Failover,
    FailoverMode,
    Forget,
    InheritSlots,
    RaiseEpoch,
    Replicate,
    ResetEmptyNode,
    TuneForBootstrap,
)
from redis_operator.planning.clusters import Peer, PeerFlag
from redis_operator.planning.fence import Fence
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.preconditions import (
    ActionFacts,
    FenceFacts,
    PodFacts,
    PortState,
    ServerFacts,
    WorkloadFacts,
    facts_of,
    fence_limitation,
    precondition,
)
from redis_operator.redis.slots import NO_SLOTS, SlotSet

A, B, C = NodeId("a" * 40), NodeId("b" * 40), NodeId("c" * 40)
HERE = At("db-0-0", "uid", "10.0.0.1", A)
THERE = At("db-1-0", "uid-1", "10.0.0.2", B)
SOME = SlotSet(range(10))


def primary(**fields: Any) -> ActionFacts:
    return ActionFacts(server=ServerFacts(id=A, role=Role.PRIMARY, **fields))


def replica(of: NodeId = B, **fields: Any) -> ActionFacts:
    return ActionFacts(server=ServerFacts(id=A, role=Role.REPLICA, replica_of=of, **fields))


def peer(node: NodeId, **fields: Any) -> tuple[Peer, ...]:
    return (Peer(id=node, ip="10.0.0.9", role=Role.PRIMARY, **fields),)


TUNE = TuneForBootstrap(node=HERE, values=())
RAISE = RaiseEpoch(node=HERE, epoch=3, slots=SOME)
ASSIGN = AssignSlots(node=HERE, slots=SOME, expect_keys=5)
REPLICATE = Replicate(node=HERE, primary=THERE, expect_primary=C)
FORGET = Forget(node=HERE, id=B, expect_slots=SOME)
RESET = ResetEmptyNode(node=HERE)
INHERIT = InheritSlots(node=HERE, slots=SOME, dead=B)
FAILOVER = Failover(
    node=HERE,
    primary=B,
    mode=FailoverMode.FORCE,
    fence=Fence.PROCESS_GONE,
    min_offset=7,
    primary_pod="db-1-0",
    primary_uid="uid-1",
)
DELETE = DeletePod(pod="db-0-0", uid="uid", why="it is outdated")
SCALE = ScaleWorkload(shard=0, uid="uid", from_pods=2, to_pods=1)
DISCARD = DiscardData(pod="db-1-1", uid="uid", data_holder=HERE)

ROWS: dict[str, tuple[Action, ActionFacts, str]] = {
    "tune: empty": (TUNE, primary(), ""),
    "tune: no answer": (TUNE, ActionFacts(), "does not respond"),
    "tune: has slots": (TUNE, primary(slots=SOME), "holds data"),
    "tune: has keys": (TUNE, primary(keys=1), "holds data"),
    "raise: as it was": (RAISE, primary(slots=SOME), ""),
    "raise: no answer": (RAISE, ActionFacts(), "does not respond"),
    "raise: lost a slot": (RAISE, primary(slots=SOME - SlotSet([1])), "owns other slots"),
    "raise: a replica": (RAISE, replica(slots=SOME), "owns other slots"),
    "assign: nobody's": (ASSIGN, primary(), ""),
    "assign: no answer": (ASSIGN, ActionFacts(), "does not respond"),
    "assign: as many keys as expected": (ASSIGN, primary(keys=5), ""),
    "assign: a key more": (ASSIGN, primary(keys=6), "holds 6 keys"),
    "assign: a key more in its own slots": (ASSIGN, primary(keys=6, slots=SOME), ""),
    "assign: another's": (ASSIGN, primary(peers=peer(B, slots=SOME)), "belong to node bbbbbbbb"),
    "inherit: the dead one is dead": (
        INHERIT,
        primary(peers=peer(B, flags=frozenset({PeerFlag.FAIL}))),
        "",
    ),
    "inherit: the dead one is alive": (INHERIT, primary(peers=peer(B)), "is alive"),
    "inherit: another one is alive": (INHERIT, primary(peers=peer(C)), ""),
    "inherit: no answer": (INHERIT, ActionFacts(), "does not respond"),
    "inherit: a replica": (INHERIT, replica(), "is no longer a primary"),
    "replicate: an empty primary": (REPLICATE, primary(), ""),
    "replicate: no answer": (REPLICATE, ActionFacts(), "does not respond"),
    "replicate: it does already": (REPLICATE, replica(B, keys=5), ""),
    "replicate: follows whom it is expected to": (REPLICATE, replica(C, keys=5), ""),
    "replicate: follows another": (REPLICATE, replica(A, keys=5), "follows another primary"),
    "replicate: has slots": (REPLICATE, primary(slots=SOME), "owns slots"),
    "replicate: has keys": (REPLICATE, primary(keys=1), "holds 1 keys"),
    "forget: not known": (FORGET, primary(), ""),
    "forget: no answer": (FORGET, ActionFacts(), "does not respond"),
    "forget: without slots": (FORGET, primary(peers=peer(B)), ""),
    "forget: with slots given up": (FORGET, primary(peers=peer(B, slots=SOME)), ""),
    "forget: with a slot more": (
        FORGET,
        primary(peers=peer(B, slots=SOME | SlotSet([10]))),
        "owns slots 10",
    ),
    "forget: whom it follows": (FORGET, replica(B, peers=peer(B)), "follows node"),
    "forget: it follows another": (FORGET, replica(C, peers=peer(B)), ""),
    "reset: empty": (RESET, primary(), ""),
    "reset: no answer": (RESET, ActionFacts(), "does not respond"),
    "reset: has keys": (RESET, primary(keys=1), "holds 1 keys"),
    "failover: as it was": (FAILOVER, replica(B, offset=7), ""),
    "failover: no answer": (FAILOVER, ActionFacts(), "does not respond"),
    "failover: promoted meanwhile": (FAILOVER, primary(offset=0), ""),
    "failover: follows another": (FAILOVER, replica(C, offset=9), "follows another primary"),
    "failover: behind": (FAILOVER, replica(B, offset=6), "at offset 6, before 7"),
    "delete: nothing was expected": (DELETE, ActionFacts(), ""),
    "delete: recreated": (DELETE, ActionFacts(pod=PodFacts("other")), "recreated"),
    "delete: the same pod": (DELETE, ActionFacts(pod=PodFacts("uid")), ""),
    "scale: as it was": (SCALE, ActionFacts(workload=WorkloadFacts("uid", 2)), ""),
    "scale: gone": (SCALE, ActionFacts(), "is gone"),
    "scale: recreated": (SCALE, ActionFacts(workload=WorkloadFacts("other", 2)), "changed"),
    "scale: scaled": (SCALE, ActionFacts(workload=WorkloadFacts("uid", 3)), "changed"),
    "discard: the data holder leads": (DISCARD, primary(keys=1), ""),
    "discard: the data holder is silent": (DISCARD, ActionFacts(), "does not respond"),
    "discard: the data holder is empty": (DISCARD, primary(), "not a primary with keys"),
    "discard: the data holder follows": (DISCARD, replica(keys=1), "not a primary with keys"),
    "discard: another node holds the data": (
        DISCARD,
        ActionFacts(server=ServerFacts(id=B, role=Role.PRIMARY, keys=1)),
        "not a primary with keys",
    ),
}
for number, (expected, facts, words) in enumerate(
    [
        ({"expect_id": A}, ActionFacts(), "does not now"),
        ({"expect_role": Role.REPLICA}, ActionFacts(), "does not now"),
        ({"expect_id": A}, replica(), ""),
        ({"expect_id": B}, replica(), "another node"),
        ({"expect_id": A, "expect_role": Role.REPLICA}, replica(), ""),
        ({"expect_id": A, "expect_role": Role.REPLICA}, primary(), "became a primary"),
        ({"expect_id": A, "expect_role": Role.PRIMARY}, primary(), ""),
    ]
):
    action = DeletePod(pod="db-0-0", uid="uid", why="it is outdated", **expected)
    ROWS[f"delete: what was expected, {number}"] = (action, facts, words)


@pytest.mark.parametrize("name", ROWS)
def test_a_step_is_taken_or_refused_by_the_facts_right_before_it(name: str) -> None:
    action, facts, words = ROWS[name]
    found = precondition(action, facts)
    assert (found is None) == (not words), found
    assert words in (found or "")


def test_facts_that_are_not_given_are_those_of_an_empty_server() -> None:
    facts = ServerFacts(id=A, role=Role.PRIMARY)
    assert (facts.replica_of, facts.slots, facts.keys, facts.offset) == (None, NO_SLOTS, 0, 0)


def by(fence: Fence) -> Failover:
    return Failover(
        node=HERE,
        primary=B,
        mode=FailoverMode.FORCE,
        fence=fence,
        primary_pod="db-1-0",
        primary_uid="uid-1",
    )


def led(node: NodeId = B, role: Role = Role.PRIMARY, keys: int = 0) -> ServerFacts:
    return ServerFacts(id=node, role=role, keys=keys)


FENCES: dict[str, tuple[Fence, FenceFacts, str]] = {
    "handshake": (Fence.HANDSHAKE, FenceFacts(port=PortState.ANSWERED), ""),
    "never led": (Fence.NEVER_LED, FenceFacts(port=PortState.ANSWERED), ""),
    "process refused": (Fence.PROCESS_GONE, FenceFacts(port=PortState.REFUSED), ""),
    "process answers": (Fence.PROCESS_GONE, FenceFacts(port=PortState.ANSWERED), "responds again"),
    "process unknown": (Fence.PROCESS_GONE, FenceFacts(error="timeout"), "may be alive: timeout"),
    "container's pod deleted": (Fence.CONTAINER_ENDED, FenceFacts(), ""),
    "container's pod recreated": (
        Fence.CONTAINER_ENDED,
        FenceFacts(pod=PodFacts("other"), port=PortState.REFUSED),
        "recreated",
    ),
    "container refused": (
        Fence.CONTAINER_ENDED,
        FenceFacts(pod=PodFacts("uid-1"), port=PortState.REFUSED),
        "",
    ),
    "container answers": (
        Fence.CONTAINER_ENDED,
        FenceFacts(pod=PodFacts("uid-1"), port=PortState.ANSWERED),
        "responds again",
    ),
    "pod gone": (Fence.POD_GONE, FenceFacts(), ""),
    "pod exists": (Fence.POD_GONE, FenceFacts(existing=("db-1-0",)), "exists"),
    "empty": (Fence.EMPTY_AND_PAUSED, FenceFacts(server=led()), ""),
    "empty and silent": (Fence.EMPTY_AND_PAUSED, FenceFacts(), "cannot be paused"),
    "empty and another": (Fence.EMPTY_AND_PAUSED, FenceFacts(server=led(C)), "another node"),
    "not empty": (Fence.EMPTY_AND_PAUSED, FenceFacts(server=led(keys=1)), "holds 1 keys"),
    "a replica": (Fence.IS_REPLICA, FenceFacts(server=led(role=Role.REPLICA)), ""),
    "a replica that leads again": (Fence.IS_REPLICA, FenceFacts(server=led()), "is a primary"),
    "a replica that is silent": (Fence.IS_REPLICA, FenceFacts(), "does not respond"),
}


@pytest.mark.parametrize("name", FENCES)
def test_a_promotion_needs_its_fence_to_hold_right_before(name: str) -> None:
    fence, facts, words = FENCES[name]
    found = fence_limitation(by(fence), facts)
    assert (found is None) == (not words), found
    assert words in (found or "")


def test_facts_come_from_the_server_that_a_step_names_and_no_other() -> None:
    seen = m.whole()
    situation = m.situation(seen)
    node, other = m.server(seen, "0-0"), m.server(seen, "1-0")

    def facts(uid: str, name: NodeId) -> ServerFacts | None:
        place = At(node.pod.name, uid, node.pod.ip, name)
        return facts_of(situation, ResetEmptyNode(node=place)).server

    found = facts(node.pod.uid, node.id)
    assert found is not None
    assert (found.id, found.slots, found.role) == (node.id, node.slots, Role.PRIMARY)
    assert facts(node.pod.uid, other.id) is None
    assert facts(other.pod.uid, node.id) is None


def test_facts_of_pods_and_workloads_are_those_that_were_observed() -> None:
    seen = m.whole()
    situation = m.situation(seen)
    node = m.server(seen, "0-1")
    delete = DeletePod(pod=node.pod.name, uid=node.pod.uid, why="it is outdated")
    found = facts_of(situation, delete)
    assert found.pod == PodFacts(node.pod.uid, ready=node.pod.ready)
    assert found.server is not None
    assert found.server.id == node.id
    gone = DeletePod(pod=node.pod.name, uid="another", why="it is outdated")
    assert facts_of(situation, gone) == ActionFacts()
    workload = seen.workload(0)
    assert workload is not None
    scale = ScaleWorkload(shard=0, uid=workload.uid, from_pods=2, to_pods=1)
    assert facts_of(situation, scale).workload == WorkloadFacts(workload.uid, workload.pods)
    nowhere = ScaleWorkload(shard=9, uid=workload.uid, from_pods=2, to_pods=1)
    assert facts_of(situation, nowhere) == ActionFacts()
