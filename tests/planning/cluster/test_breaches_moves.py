"""What no plan may do to slots, pods and files, whatever a rule says."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning import moments as m
from planning.rows import breaches_of as found
from planning.rows import check_words as check
from redis_operator.planning.actions import Action, DeletePod, DiscardData, ScaleWorkload
from redis_operator.planning.at import at
from redis_operator.planning.cluster.actions import Meet, MoveSlots, RescueKeys
from redis_operator.planning.clusters import Moving, OpenSlot, SlotState
from redis_operator.planning.identity import Role
from redis_operator.planning.observed import Evidence, Observed
from redis_operator.redis.slots import NO_SLOTS, SlotSet

FIVE = SlotSet([5])

W = m.whole()
P0, R0, P1, R1, P2 = (m.server(W, pod) for pod in ("0-0", "0-1", "1-0", "1-1", "2-0"))


def opened(observed: Observed) -> Observed:
    """A slot that moves somewhere."""
    flag = OpenSlot(slot=next(iter(P2.slots)), state=SlotState.MIGRATING, peer=P1.id)
    return m.but(observed, "2-0", open_slots=(flag,))


# Introductions and moves


@pytest.mark.parametrize("wrong", [{"ip": "10.1.1.1"}, {"uid": "another"}, {"id": m.STRANGER}])
def test_only_servers_that_are_known_are_introduced(wrong: dict[str, Any]) -> None:
    check((), found(W, (Meet(node=at(P0), peer=at(P1)),)))
    check(("not known to be node",), found(W, (Meet(replace(at(P0), **wrong), at(P1)),)))
    check(("not known to be node",), found(W, (Meet(at(P0), replace(at(P1), **wrong)),)))


SOME = SlotSet(list(P0.slots)[:3])
WANTS = OpenSlot(slot=next(iter(SOME)), state=SlotState.IMPORTING, peer=P0.id)
MOVE = {
    "between primaries": (W, {}, ()),
    "to a replica": (W, {"target": at(R1)}, ("not both seen as primaries",)),
    "from one that is silent": (m.silent(W, "0-0"), {}, ("not both seen as primaries",)),
    "of slots that are a third's": (W, {"slots": P2.slots}, ("does not own all",)),
    "that the target has already": (W, {"slots": P1.slots}, ()),
    "while two share an epoch": (m.but(W, "1-0", config_epoch=P2.config_epoch), {}, ("I14",)),
    "that a third imports": (
        m.but(W, "2-0", open_slots=(WANTS,)),
        {},
        ("I4: a third server imports slots 0",),
    ),
    "that its replica would import": (
        m.but(W, "2-1", open_slots=(WANTS,)),
        {},
        ("I4: a third server imports slots 0",),
    ),
    "that both ends have opened": (
        m.but(m.but(W, "1-0", open_slots=(WANTS,)), "1-1", open_slots=(WANTS,)),
        {},
        (),
    ),
    "to an older version": (
        m.but(m.but(W, "0-0", version="9.1.2"), "1-0", version="8.1.4"),
        {},
        ("cannot read",),
    ),
    "to a newer version": (
        m.but(m.but(W, "0-0", version="8.1.4"), "1-0", version="9.1.2"),
        {},
        (),
    ),
}


@pytest.mark.parametrize(("moment", "fields", "words"), MOVE.values(), ids=MOVE)
def test_slots_move_from_their_owner_to_a_primary_that_can_read_them(
    moment: Observed, fields: dict[str, Any], words: tuple[str, ...]
) -> None:
    step = replace(MoveSlots(source=at(P0), target=at(P1), slots=SOME), **fields)
    check(words, found(moment, (step,)))


def test_nobody_gives_and_takes_slots_at_once() -> None:
    first = MoveSlots(at(P0), at(P1), SOME)
    second = MoveSlots(at(P1), at(P2), SlotSet(list(P1.slots)[:3]))
    rescue = RescueKeys(holder=at(P1), owner=at(P2), slots=FIVE)
    check(("give and take",), found(W, (first, second)))
    check(("give and take",), found(W, (first, rescue)))
    check((), found(W, (first,), (second,)))
    check((), found(W, (MoveSlots(at(P0), at(P2), SOME), second)))


def test_keys_of_slots_that_move_are_not_fetched() -> None:
    """Their holder imports them meanwhile, and takes them when their owner gives them away."""
    step = RescueKeys(holder=at(P1), owner=at(P0), slots=SOME)
    check((), found(W, (step,)))
    moving = m.knowing(W, moving=(Moving(P0.id, P2.id, SOME),))
    check(("I4: db-1-0 would take slots",), found(moving, (step,)))
    check((), found(m.knowing(W, moving=(Moving(P0.id, P2.id, P2.slots),)), (step,)))


# Pods and data


def delete(observed: Observed, pod: str) -> tuple[Action, ...]:
    node = m.pod_of(observed, pod)
    return (DeletePod(pod=node.name, uid=node.uid, why="test"),)


DELETE = {
    "a replica": (W, "0-1", {}, ()),
    "a primary with replicas": (W, "0-0", {}, ("promote one first",)),
    "a primary without": (m.but(W, "0-1", replica_of=P1.id), "0-0", {}, ()),
    "while a slot moves": (opened(W), "0-1", {}, ("open slots",)),
    "a dead one while a slot moves": (opened(m.dead(W, "0-1")), "0-1", {}, ()),
    "one whose sibling is silent": (m.silent(W, "0-0"), "0-1", {}, ("is down already",)),
    "one whose sibling is not ready": (
        m.but(W, "0-0", pod_ready=False),
        "0-1",
        {},
        ("is down already",),
    ),
    "one that is not ready itself": (
        m.but(m.but(W, "0-0", pod_ready=False), "0-1", pod_ready=False),
        "0-1",
        {},
        (),
    ),
    "one of two that do not answer": (m.dead(m.silent(W, "0-0"), "0-1"), "0-1", {}, ()),
    "one whose sibling goes anyway": (
        m.but(m.but(W, "0-1", pod_ready=False), "0-1", replica_of=P1.id),
        "0-0",
        {"replicas": 0},
        (),
    ),
}


@pytest.mark.parametrize(("moment", "pod", "spec", "words"), DELETE.values(), ids=DELETE)
def test_a_pod_is_deleted_only_where_its_shard_can_do_without_it(
    moment: Observed, pod: str, spec: dict[str, Any], words: tuple[str, ...]
) -> None:
    check(words, found(moment, delete(moment, pod), **spec))


def test_a_pod_that_was_not_seen_is_not_deleted_and_no_two_of_a_shard() -> None:
    check(("was not observed",), found(W, (DeletePod(pod="db-0-1", uid="another", why="test"),)))
    two = m.whole(2)
    both = delete(two, "0-1") + delete(two, "0-2")
    check(("would end at once",), found(two, both, replicas=2))
    check((), found(two, delete(two, "0-1") + delete(two, "1-1"), replicas=2))


BROKEN = m.silent(W, "0-1", Evidence.TERMINATED)
DISCARD = {
    "another leads with all keys": (BROKEN, {}, ()),
    "it answers": (W, {}, ("may be alive",)),
    "it is silent": (m.silent(W, "0-1"), {}, ("may be alive",)),
    "it is another pod now": (BROKEN, {"uid": "another"}, ("may be alive",)),
    "an owner is not seen": (m.silent(BROKEN, "1-0"), {}, ("may be a slot owner",)),
    "nobody has keys": (m.but(BROKEN, "0-0", keys=0), {}, ("not known to hold",)),
    "the data holder has no slots": (
        m.but(BROKEN, "0-0", slots=NO_SLOTS),
        {},
        ("not known to hold",),
    ),
    "the data holder is another shard's": (
        BROKEN,
        {"data_holder": at(P1)},
        ("is not the primary",),
    ),
    "the data holder was not observed": (
        BROKEN,
        {"data_holder": replace(at(P0), id=m.STRANGER)},
        ("not known to hold",),
    ),
}


@pytest.mark.parametrize(("moment", "fields", "words"), DISCARD.values(), ids=DISCARD)
def test_files_are_discarded_only_where_another_has_their_data(
    moment: Observed, fields: dict[str, Any], words: tuple[str, ...]
) -> None:
    step = DiscardData(pod=R0.pod.name, uid=R0.pod.uid, data_holder=at(P0))
    check(words, found(moment, (replace(step, **fields),)))


def test_a_shard_never_shrinks_by_the_pod_of_its_primary() -> None:
    step = ScaleWorkload(shard=0, uid="u", from_pods=2, to_pods=1)
    check((), found(W, (step,)))
    swapped = m.but(W, "0-0", role=Role.REPLICA, replica_of=R0.id, slots=NO_SLOTS)
    swapped = m.but(swapped, "0-1", role=Role.PRIMARY, replica_of=None, slots=P0.slots)
    check(("pod of its primary",), found(swapped, (step,)))
    check((), found(swapped, (step,), hibernate=True))
    check((), found(swapped, (replace(step, shard=1),)))
    check((), found(swapped, (replace(step, from_pods=3, to_pods=2),)))
    check((), found(swapped, (replace(step, from_pods=1, to_pods=1),)))
    check(("pod of its primary",), found(swapped, (replace(step, to_pods=0),)))
