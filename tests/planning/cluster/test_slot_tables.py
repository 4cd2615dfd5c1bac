"""Slots, stray keys, epochs and nodes that are not ours: what rules do, and what they leave."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning import moments as m
from planning.rows import Row, Spec, check, told
from redis_operator.planning.actions import LabelPod
from redis_operator.planning.cluster.actions import AssignSlots, MoveSlots
from redis_operator.planning.cluster.audit import audit
from redis_operator.planning.cluster.bootstrap import bootstrap
from redis_operator.planning.cluster.connect import merge_limitation
from redis_operator.planning.cluster.cover import cover
from redis_operator.planning.cluster.foreign import foreign
from redis_operator.planning.cluster.forget import forget
from redis_operator.planning.cluster.raise_epoch import raise_epoch
from redis_operator.planning.cluster.rebalance import rebalance
from redis_operator.planning.cluster.relocate_primary import relocate_primary
from redis_operator.planning.cluster.rescue import rescue
from redis_operator.planning.clusters import (
    Counted,
    Moving,
    NotCounted,
    NotWeighed,
    PeerFlag,
    SlotMigration,
    Weighed,
)
from redis_operator.planning.common.label import label
from redis_operator.planning.identity import Role
from redis_operator.planning.observed import Observed, Unlabelled
from redis_operator.redis.slots import NO_SLOTS, SlotSet

W = m.whole()
P0, R0, P1, R1, P2, R2 = (m.server(W, pod) for pod in ("0-0", "0-1", "1-0", "1-1", "2-0", "2-1"))
FIVE = SlotSet([5])
ALL = ("0-0", "0-1", "1-0", "1-1", "2-0", "2-1")
FORGETS = ", ".join(f"Forget {pod}" for pod in ALL)
FAILED = frozenset({PeerFlag.FAIL})


# Nodes that no pod of ours is

FOREIGN: dict[str, Row] = {
    "there is none": (W, {}, ""),
    "one that is linked": (m.met(W), {}, FORGETS),
    "one that is dead": (m.met(W, connected=False), {}, ""),
    "one without an address": (m.met(W, ip=""), {}, ""),
    "one at the address of a pod of ours": (m.met(W, ip=P1.pod.ip), {}, ""),
    "one that owns slots": (m.met(W, slots=FIVE), {}, "blocked: owns slots 5"),
    "one that a server of ours follows": (
        m.but(m.met(W), "1-1", replica_of=m.STRANGER),
        {},
        "",
    ),
    "a pod may be it": (m.silent(m.met(W), "1-1", known=False), {}, ""),
    "a missing pod may be it": (m.without(m.met(W), "1-1"), {}, ""),
    "one that not all know": (
        m.but(m.met(W), "1-1", peers=R1.peers),
        {},
        FORGETS.replace("Forget 1-1, ", ""),
    ),
}


@pytest.mark.parametrize("row", FOREIGN.values(), ids=FOREIGN)
def test_a_healthy_node_of_another_database_is_forgotten_by_all_who_know_it(row: Row) -> None:
    check(foreign, row)


GHOST = m.met(W, connected=False, flags=FAILED)
GHOSTS: dict[str, Row] = {
    "there is none": (W, {}, ""),
    "a dead one that owns nothing": (GHOST, {}, FORGETS),
    "one that a server sees well": (
        m.viewed(GHOST, m.STRANGER, "1-1", connected=True, flags=frozenset()),
        {},
        "",
    ),
    "one that owns in one's eyes what another serves": (
        m.viewed(GHOST, m.STRANGER, "1-1", slots=FIVE),
        {},
        FORGETS,
    ),
    "one that owns in one's eyes what no server serves": (
        m.viewed(m.but(GHOST, "0-0", slots=P0.slots - FIVE), m.STRANGER, "1-1", slots=FIVE),
        {},
        "",
    ),
    "one that a replica follows": (m.but(GHOST, "1-1", replica_of=m.STRANGER), {}, ""),
    "one that shakes hands": (
        m.viewed(GHOST, m.STRANGER, "1-1", flags=frozenset({PeerFlag.HANDSHAKE})),
        {},
        "",
    ),
    "a silent pod may be it": (m.silent(GHOST, "1-1", known=False), {}, ""),
    "a missing pod may be it": (m.without(GHOST, "1-1"), {}, ""),
    "a missing shard may have it": (
        replace(m.without(GHOST, "2-0", "2-1"), workloads=W.workloads[:2]),
        {},
        "",
    ),
    "one that not all know": (
        m.but(GHOST, "1-1", peers=R1.peers),
        {},
        FORGETS.replace("Forget 1-1, ", ""),
    ),
}


@pytest.mark.parametrize("row", GHOSTS.values(), ids=GHOSTS)
def test_a_dead_node_is_forgotten_once_it_cannot_come_back(row: Row) -> None:
    check(forget, row)


# Slots without an owner

FREE = m.but(W, "0-0", slots=P0.slots - FIVE)
TOLD = FREE  # and the others know it
for pod, server in (("1-0", P1), ("2-0", P2)):
    peers = tuple(replace(peer, slots=peer.slots - FIVE) for peer in server.peers)
    TOLD = m.but(TOLD, pod, peers=peers)
STRAYS = Counted(((5, 3),))
COVER: dict[str, Row] = {
    "all have one": (W, {}, ""),
    "nobody has keys of it": (FREE, {}, "nothing"),
    "nobody has, and it was given up": (FREE, {"accepted_loss": FIVE}, "AssignSlots 0-0"),
    "another was given up": (FREE, {"accepted_loss": SlotSet([6])}, "nothing"),
    "all are started empty": (FREE, {"start_empty": True}, "AssignSlots 0-0"),
    "one has keys of it": (m.but(TOLD, "1-0", stranded=STRAYS), {}, "AssignSlots 1-0"),
    "two have": (
        m.but(m.but(TOLD, "1-0", stranded=STRAYS), "2-0", stranded=Counted(((5, 4),))),
        {},
        "AssignSlots 2-0",
    ),
    "it still believes in the owner": (
        m.but(FREE, "1-0", stranded=STRAYS),
        {},
        "UnassignSlots 1-0",
    ),
    "one has keys of others": (m.but(FREE, "1-0", stranded=Counted(((6, 3),))), {}, "nothing"),
    "one was not counted": (
        m.but(FREE, "1-0", stranded=NotCounted()),
        {},
        "blocked: are not counted yet",
    ),
    "somebody is silent": (m.silent(FREE, "1-1"), {}, "blocked: slots 5 have no owner"),
    "it moves just now": (m.knowing(FREE, moving=(Moving(P0.id, P1.id, FIVE),)), {}, ""),
    "the database is new": (replace(FREE, formed=False), {}, ""),
}


@pytest.mark.parametrize("row", COVER.values(), ids=COVER)
def test_slots_without_an_owner_go_to_who_has_their_keys_or_are_told_as_lost(row: Row) -> None:
    check(cover, row)


def test_what_nobody_has_keys_of_is_lost_until_it_is_given_up() -> None:
    two = m.but(W, "0-0", slots=P0.slots - SlotSet([5, 6]))
    advice = cover(m.situation(two))
    assert advice is not None
    assert [(loss.slots, loss.accepted) for loss in advice.losses] == [(SlotSet([5, 6]), False)]
    advice = cover(m.situation(two, accepted_loss=FIVE))
    assert advice is not None
    assert [(loss.slots, loss.accepted) for loss in advice.losses] == [
        (FIVE, True),
        (SlotSet([6]), False),
    ]
    (step,) = advice.steps
    assert isinstance(step, AssignSlots)
    assert step.slots == FIVE
    unsure = cover(m.situation(m.silent(two, "1-1")))
    assert unsure is not None
    assert unsure.final


# Keys on servers that do not own their slots

ASTRAY = m.but(W, "1-0", stranded=STRAYS)
RESCUE: dict[str, Row] = {
    "there are none": (W, {}, ""),
    "a primary has some": (ASTRAY, {}, "RescueKeys"),
    "a replica has": (m.but(W, "1-1", stranded=STRAYS), {}, ""),
    "nobody counted": (m.but(W, "1-0", stranded=NotCounted()), {}, ""),
    "the owner is silent": (m.silent(ASTRAY, "0-0"), {}, "blocked: no owner that responds"),
    "nobody owns the slot": (
        m.but(ASTRAY, "0-0", slots=P0.slots - FIVE),
        {},
        "blocked: no owner that responds",
    ),
    "a job carries them": (
        m.but(ASTRAY, "1-0", jobs=(SlotMigration("j", P0.id, P1.id, FIVE),)),
        {},
        "",
    ),
    "two give to one": (m.but(ASTRAY, "2-0", stranded=STRAYS), {}, "RescueKeys, RescueKeys"),
    "two would give to each other": (
        m.but(ASTRAY, "0-0", stranded=Counted(((next(iter(P1.slots)), 1),))),
        {},
        "RescueKeys",
    ),
    "one would take and give": (
        m.but(ASTRAY, "2-0", stranded=Counted(((next(iter(P1.slots)), 1),))),
        {},
        "RescueKeys",
    ),
}


@pytest.mark.parametrize("row", RESCUE.values(), ids=RESCUE)
def test_stray_keys_are_brought_to_the_owner_of_their_slot(row: Row) -> None:
    check(rescue, row)


@pytest.mark.parametrize(
    ("moment", "counts"),
    [
        pytest.param(W, False, id="counted just now"),
        pytest.param(m.but(W, "0-0", stranded=NotCounted()), True, id="not counted, five minutes"),
    ],
)
def test_stray_keys_are_looked_for_now_and_then(moment: Observed, *, counts: bool) -> None:
    late = m.knowing(moment, counted_at=m.NOW - 300.0)
    advice = audit(m.situation(late))
    assert (advice is not None) is counts
    assert advice is None or advice.count_strays_on == ("db-0-0", "db-1-0", "db-2-0")
    assert audit(m.situation(m.knowing(moment, counted_at=m.NOW - 299.0))) is None
    assert audit(m.situation(m.knowing(moment, counted_at=None))) is None


# Epochs

SHARED = m.met(
    m.but(W, "0-0", current_epoch=9), config_epoch=P0.config_epoch, connected=False, flags=FAILED
)
PART: dict[str, Row] = {
    "nobody shares one": (W, {}, ""),
    "with a primary that is gone": (SHARED, {}, "RaiseEpoch 0-0"),
    "with one that is well": (
        m.viewed(SHARED, m.STRANGER, connected=True, flags=frozenset()),
        {},
        "",
    ),
    "with a replica": (m.viewed(SHARED, m.STRANGER, role=Role.REPLICA), {}, ""),
    "with one that shakes hands": (
        m.viewed(SHARED, m.STRANGER, flags=frozenset({PeerFlag.HANDSHAKE})),
        {},
        "",
    ),
    "with one that is seen": (m.viewed(W, P1.id, connected=False, config_epoch=1), {}, ""),
    "with one of epoch 0": (
        m.viewed(m.but(SHARED, "0-0", config_epoch=0), m.STRANGER, config_epoch=0),
        {},
        "",
    ),
    "while a slot moves": (m.knowing(SHARED, moving=(Moving(P1.id, P2.id, FIVE),)), {}, ""),
    "and it is the highest there is": (
        m.viewed(m.but(SHARED, "0-0", config_epoch=9, current_epoch=9), m.STRANGER, config_epoch=9),
        {},
        "",
    ),
    "and it lost a slot meanwhile": (m.but(SHARED, "1-0", slots=P1.slots | FIVE), {}, ""),
}


@pytest.mark.parametrize("row", PART.values(), ids=PART)
def test_an_owner_gets_another_epoch_than_one_that_may_come_back(row: Row) -> None:
    check(raise_epoch, row)


@pytest.mark.parametrize(
    ("one", "two", "refused"),
    [
        pytest.param({}, {}, False, id="they claim different slots"),
        pytest.param({"slots": P1.slots}, {}, False, id="both have keys"),
        pytest.param({"slots": P1.slots, "keys": 0}, {}, False, id="the winner has keys"),
        pytest.param({"slots": P1.slots}, {"keys": 0}, True, id="the winner has none"),
        pytest.param(
            {"slots": P1.slots, "config_epoch": 2}, {"keys": 0}, False, id="equal epochs: the first"
        ),
        pytest.param(
            {"slots": P1.slots, "role": Role.REPLICA}, {"keys": 0}, False, id="one is a replica"
        ),
    ],
)
def test_servers_are_not_introduced_when_one_would_delete_the_only_keys(
    one: Spec, two: Spec, *, refused: bool
) -> None:
    moment = m.but(m.but(W, "0-0", **one), "1-0", **two)
    for pair in (("0-0", "1-0"), ("1-0", "0-0")):
        first, second = (m.server(moment, pod) for pod in pair)
        if first.config_epoch == second.config_epoch and pair[0] == "1-0":
            continue  # of two equal ones the first is taken for the winner
        assert (merge_limitation(first, second) is not None) is refused


# Even shares


def filled(observed: Observed = W, **memory: int) -> Observed:
    moment = observed
    for node in observed.seen:
        moment = m.but(moment, node.pod.name[3:], weighed=Weighed(), **memory)
    return moment


def moved(advice: Any) -> dict[tuple[str, str], int]:
    steps = [step for step in advice.steps if isinstance(step, MoveSlots)]
    return {(s.source.pod, s.target.pod): len(s.slots) for s in steps}


def uneven() -> Observed:
    """Shard 0 has a thousand slots of shard 1."""
    some = SlotSet(list(P1.slots)[:1000])
    moment = m.but(W, "0-0", slots=P0.slots | some)
    moment = m.but(moment, "1-0", slots=P1.slots - some)
    moment = m.viewed(m.viewed(moment, P0.id, slots=P0.slots | some), P1.id, slots=P1.slots - some)
    return filled(moment)


U = uneven()
REBALANCE: dict[str, Row] = {
    "shares are even": (W, {}, ""),
    "they are not": (U, {}, "MoveSlots 0-0>1-0"),
    "something is unwell": (m.but(U, "2-1", pod_ready=False), {}, "blocked: is not ready"),
    "the receiver is older": (
        m.but(m.but(U, "0-0", version="9.1.2"), "1-0", version="8.1.4"),
        {},
        "blocked: cannot read",
    ),
    "the receiver has no room": (
        m.but(m.but(U, "0-0", used_memory=10**9), "1-0", used_memory=10**6, max_memory=10**7),
        {},
        "blocked: maxmemory is 10000000",
    ),
    "the receiver has room": (
        m.but(m.but(U, "0-0", used_memory=10**9), "1-0", used_memory=10**6, max_memory=10**9),
        {},
        "MoveSlots 0-0>1-0",
    ),
    "the receiver has no limit": (m.but(U, "0-0", used_memory=10**12), {}, "MoveSlots 0-0>1-0"),
    "keys were not weighed": (
        m.but(U, "0-0", weighed=NotWeighed(), stranded=NotCounted()),
        {},
        "blocked: keys are being counted",
    ),
    "one cannot be weighed": (m.but(U, "0-0", weighed=NotWeighed()), {}, "MoveSlots 0-0>1-0"),
    "a backup is being read": (
        U,
        {"backup": "monday"},
        "blocked: RedisBackup monday is being read",
    ),
    "a backup is being read and slots are in progress": (
        m.knowing(U, moving=(Moving(P0.id, P1.id, SlotSet(list(P1.slots)[:1000])),)),
        {"backup": "monday"},
        "blocked: 1000 slots are being migrated from db-0-0 to db-1-0",
    ),
    "it is in progress": (
        m.knowing(U, moving=(Moving(P0.id, P1.id, SlotSet(list(P1.slots)[:1000])),)),
        {},
        "blocked: 1000 slots are being migrated from db-0-0 to db-1-0",
    ),
    "the other way is in progress": (
        m.knowing(U, moving=(Moving(P1.id, P0.id, SlotSet(list(P1.slots)[2000:2010])),)),
        {},
        "StopMoving",
    ),
    "one between others is in progress": (
        m.knowing(U, moving=(Moving(P2.id, R1.id, SlotSet(list(P2.slots)[:9])),)),
        {},
        "blocked: 9 slots are being migrated",
    ),
    "the other way has arrived": (
        m.knowing(U, moving=(Moving(P1.id, P0.id, SlotSet(list(P1.slots)[:10])),)),
        {},
        "blocked: 10 slots are being migrated",
    ),
}


@pytest.mark.parametrize("row", REBALANCE.values(), ids=REBALANCE)
def test_slots_move_to_even_shares_when_all_is_at_rest_and_fits(row: Row) -> None:
    check(rebalance, row)


def test_shares_follow_the_weights_of_the_spec_and_leaving_shards_end_with_none() -> None:
    assert moved(rebalance(m.situation(U))) == {("db-0-0", "db-1-0"): 1000}
    weighted = rebalance(m.situation(filled(), weights=((0, 2.0),)))
    assert sum(moved(weighted).values()) == 8192 - len(P0.slots)
    assert {target for _, target in moved(weighted)} == {"db-0-0"}
    fewer = moved(rebalance(m.situation(filled(), shards=2)))
    assert {source for source, _ in fewer} == {"db-2-0"}
    assert sum(fewer.values()) == len(P2.slots)


def test_heavy_slots_are_chosen_so_that_both_ends_get_their_share() -> None:
    """All weight of shard 0 is in the slots that it has too many: most of it goes with them."""
    heavy = list(P1.slots)[:1000]
    moment = m.but(U, "0-0", weighed=Weighed(tuple((slot, 100) for slot in heavy)), keys=1000)
    moment = m.but(m.but(moment, "1-0", keys=0), "2-0", keys=0)
    advice = rebalance(m.situation(moment))
    assert advice is not None
    (step,) = advice.steps
    assert isinstance(step, MoveSlots)
    carried = len(step.slots & SlotSet(heavy))
    assert 300 <= carried <= 700  # a third stays, and shard 2 has none to give


# Labels, houses, new databases


def test_nothing_is_labelled_while_the_database_is_paused() -> None:
    lost = replace(W, unlabelled=(Unlabelled("db-0-0", "u", (("a", "b"),)),))
    assert any(isinstance(step, LabelPod) for step in label(m.situation(lost)))
    assert label(m.situation(lost, paused=True)) == ()


def guest() -> Observed:
    """The primary of shard 2 is in a pod of shard 0, and a pod of shard 2 follows it."""
    moment = m.but(W, "0-1", role=Role.PRIMARY, replica_of=None, slots=P2.slots, config_epoch=9)
    moment = m.but(moment, "2-0", role=Role.REPLICA, replica_of=R0.id, slots=NO_SLOTS)
    return m.but(moment, "2-1", replica_of=R0.id)


def test_a_primary_in_anothers_pod_is_told_and_waits_for_rest() -> None:
    check(relocate_primary, (W, {}, ""))
    check(relocate_primary, (guest(), {}, "blocked: the primary of shard 2 is in db-0-1"))


NEW = replace(m.but(W, "0-0", slots=NO_SLOTS), formed=False)
FOUND: dict[str, Row] = {
    "it is whole": (W, {}, ""),
    "it was formed once": (replace(NEW, formed=True), {}, ""),
    "a pod is silent": (m.silent(NEW, "1-1"), {}, "blocked: db-1-1 does not respond"),
    "a pod is missing": (m.without(NEW, "1-1"), {}, "blocked: does not exist yet"),
    "two have one id": (m.but(NEW, "1-1", id=R2.id), {}, "blocked: one node id"),
    "a replica loads": (m.but(NEW, "1-1", loading=True), {}, "blocked: db-1-1 is still loading"),
    "keys are not counted": (m.but(NEW, "1-0", stranded=NotCounted()), {}, "blocked: not counted"),
    "a server without slots has keys": (NEW, {}, "blocked: keys and owns no slots"),
    "keys of a free slot are somewhere": (
        m.but(m.but(NEW, "0-0", keys=0), "1-0", stranded=STRAYS),
        {},
        "blocked: holds keys for slots 5",
    ),
}


@pytest.mark.parametrize("row", FOUND.values(), ids=FOUND)
def test_a_new_database_gets_its_slots_only_when_all_is_known_to_be_empty(row: Row) -> None:
    check(bootstrap, row)


def test_the_free_share_of_a_new_database_goes_to_its_empty_leader() -> None:
    advice = bootstrap(m.situation(m.but(NEW, "0-0", keys=0)))
    assert advice is not None
    steps = [step for step in advice.steps if isinstance(step, AssignSlots)]
    assert [(step.node.pod, step.slots) for step in steps] == [("db-0-0", P0.slots)]
    assert told(advice).count("AssignSlots") == 1
    assert "SetConfigEpoch" not in told(advice)  # it knows others already
