"""What no plan may contain, whatever a rule says: a row for each way, and for what is allowed.

Each row is a moment, steps, and the words of the breaches that are found; none where the steps are
allowed in that moment.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning import moments as m
from planning.rows import breaches_of as found
from planning.rows import check_words as check
from redis_operator.planning.actions import Action
from redis_operator.planning.at import at
from redis_operator.planning.cluster.actions import (
    AssignSlots,
    Failover,
    FailoverMode,
    Forget,
    InheritSlots,
    RaiseEpoch,
    Replicate,
    ResetEmptyNode,
    UnassignSlots,
)
from redis_operator.planning.clusters import Counted, NotCounted, OpenSlot, SlotState
from redis_operator.planning.fence import Fence
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.observed import Election, Observed
from redis_operator.redis.slots import NO_SLOTS, SlotSet

FIVE = SlotSet([5])

W = m.whole()
P0, R0, P1, R1, P2 = (m.server(W, pod) for pod in ("0-0", "0-1", "1-0", "1-1", "2-0"))


def opened(observed: Observed) -> Observed:
    """A slot that moves somewhere."""
    flag = OpenSlot(slot=next(iter(P2.slots)), state=SlotState.MIGRATING, peer=P1.id)
    return m.but(observed, "2-0", open_slots=(flag,))


# Who becomes a replica drops what it has


REPLICATE = {
    "an empty primary": (m.emptied(W, "0-1"), ()),
    "a primary with keys": (m.but(m.emptied(W, "0-1"), "0-1", keys=3), ("would drop them",)),
    "a replica whose primary lives": (W, ()),
    "the last copy of a dead primary": (m.dead(W, "0-0"), ("last copy",)),
    "one that never had a copy": (
        m.replicating(m.but(m.dead(W, "0-0"), "0-1", keys=0), "0-1", offset=0, link_up=False),
        (),
    ),
    "one that does not answer": (m.silent(W, "0-1"), ("was not observed",)),
}


@pytest.mark.parametrize(("moment", "words"), REPLICATE.values(), ids=REPLICATE)
def test_who_becomes_a_replica_has_nothing_that_is_not_elsewhere(
    moment: Observed, words: tuple[str, ...]
) -> None:
    check(words, found(moment, (Replicate(node=at(R0), primary=at(P1)),)))


def test_an_owner_of_slots_never_becomes_a_replica() -> None:
    step = Replicate(node=at(P0), primary=at(P1))
    check(("owns slots",), found(W, (step,)))
    # Nor one that has not heard yet that its slots belong to another server.
    old = m.but(W, "0-0", slots=P1.slots, config_epoch=0, keys=0)
    check(("owns slots",), found(old, (step,)))


RESET = {
    "an empty one": (m.emptied(W, "0-1"), at(R0), ()),
    "one with keys": (
        m.but(m.emptied(W, "0-1"), "0-1", keys=1),
        at(R0),
        ("not known to be empty",),
    ),
    "another pod now": (
        m.emptied(W, "0-1"),
        replace(at(R0), uid="another"),
        ("not known to be empty",),
    ),
    "another server in that pod": (
        m.emptied(W, "0-1"),
        replace(at(R0), id=P1.id),
        ("not known to be empty",),
    ),
    "an owner that holds no keys": (m.but(W, "0-0", keys=0), at(P0), ("is the owner",)),
    "an empty one with the id of an owner": (
        m.but(m.emptied(W, "1-1"), "1-1", id=P0.id),
        replace(at(R1), id=P0.id),
        (),
    ),
}


@pytest.mark.parametrize(("moment", "node", "words"), RESET.values(), ids=RESET)
def test_only_an_empty_server_gets_another_identity(
    moment: Observed, node: Any, words: tuple[str, ...]
) -> None:
    check(words, found(moment, (ResetEmptyNode(node=node),)))


def test_only_the_owner_takes_the_next_epoch_and_only_when_no_slot_moves() -> None:
    step = RaiseEpoch(node=at(P0), epoch=P0.config_epoch, slots=P0.slots)
    check((), found(W, (step,)))
    check(("does not own all",), found(W, (replace(step, slots=P0.slots | P1.slots),)))
    check(("open slots",), found(opened(W), (step,)))


# Slots that nobody owns


FREE = m.but(W, "0-0", slots=P0.slots - FIVE)
STRAYS = Counted(((5, 1),))
ASSIGN = {
    "nobody has keys of it": (FREE, {}, ()),
    "somebody may": (m.silent(FREE, "1-1"), {}, ("assigned though",)),
    "somebody has, not counted": (
        m.but(FREE, "1-0", stranded=NotCounted()),
        {},
        ("were not counted",),
    ),
    "somebody empty was not counted": (m.but(FREE, "1-0", stranded=NotCounted(), keys=0), {}, ()),
    "a replica was not counted": (m.but(FREE, "1-1", stranded=NotCounted()), {}, ()),
    "the one that gets it was not counted": (m.but(FREE, "0-0", stranded=NotCounted()), {}, ()),
    "somebody has keys of it": (m.but(FREE, "1-0", stranded=STRAYS), {}, ("holds keys",)),
    "both have": (m.but(m.but(FREE, "1-0", stranded=STRAYS), "0-0", stranded=STRAYS), {}, ()),
    "the one that gets it has others": (
        m.but(m.but(FREE, "1-0", stranded=STRAYS), "0-0", stranded=Counted(((7, 1),))),
        {},
        ("holds keys",),
    ),
    "more than is free": (FREE, {"slots": SlotSet([5, 6])}, ("have an owner already",)),
}


@pytest.mark.parametrize(("moment", "fields", "words"), ASSIGN.values(), ids=ASSIGN)
def test_a_slot_is_given_to_somebody_only_when_nobody_else_can_have_its_keys(
    moment: Observed, fields: dict[str, Any], words: tuple[str, ...]
) -> None:
    step = replace(AssignSlots(node=at(P0), slots=FIVE, expect_keys=P0.keys), **fields)
    check(words, found(moment, (step,)))


def test_a_slot_is_not_given_to_two() -> None:
    steps = (
        AssignSlots(node=at(P0), slots=FIVE, expect_keys=P0.keys),
        AssignSlots(node=at(P1), slots=FIVE, expect_keys=P1.keys),
    )
    check(("two owners",), found(FREE, steps))
    check((), found(FREE, steps[:1], ()))


UNASSIGN: dict[str, tuple[Observed, dict[str, Any], tuple[str, ...]]] = {
    "nobody has it": (FREE, {}, ()),
    "another has it": (W, {}, ("have an owner",)),
    "more than is free": (FREE, {"slots": SlotSet([5, 6])}, ("slots 6 have an owner",)),
    "the one who gave it up was not observed": (
        FREE,
        {"owner": NodeId(m.STRANGER)},
        ("was not observed and may own",),
    ),
}


@pytest.mark.parametrize(("moment", "fields", "words"), UNASSIGN.values(), ids=UNASSIGN)
def test_a_server_forgets_an_owner_only_when_nobody_is_one(
    moment: Observed, fields: dict[str, Any], words: tuple[str, ...]
) -> None:
    step = replace(UnassignSlots(node=at(P1), slots=FIVE, owner=P0.id), **fields)
    check(words, found(moment, (step,)))


def inherited() -> Observed:
    """0-1 leads in the place of a dead primary, and has not heard of one of its slots."""
    observed = m.but(
        W, "0-1", role=Role.PRIMARY, replica_of=None, slots=P0.slots - FIVE, config_epoch=9
    )
    observed = m.replicating(observed, "0-1", id="a" * 40, id2="b" * 40)
    observed = m.viewed(observed, P0.id, slots=FIVE)
    observed = m.but(observed, "0-0", id=m.STRANGER, role=Role.REPLICA, replica_of=R0.id)
    observed = m.but(observed, "0-0", slots=NO_SLOTS)
    return m.knowing(observed, histories=((P0.id, "b" * 40),))


H = inherited()
ELECTED = m.knowing(replace(H, elections=(Election(R0.id, m.NOW, P0.id),)), histories=())
INHERIT = {
    "it has the history of the dead one": (H, {}, ()),
    "it was elected over it": (ELECTED, {}, ()),
    "another was": (
        replace(ELECTED, elections=(Election(R1.id, m.NOW, P0.id),)),
        {},
        ("not known to hold",),
    ),
    "it was elected over another": (
        replace(ELECTED, elections=(Election(R0.id, m.NOW, P1.id),)),
        {},
        ("not known to hold",),
    ),
    "it has another history": (m.replicating(H, "0-1", id2="c" * 40), {}, ("not known to hold",)),
    "nothing is known of histories": (
        m.replicating(m.knowing(H, histories=()), "0-1", id2=""),
        {},
        ("not known to hold",),
    ),
    "somebody does not answer": (m.silent(H, "1-1"), {}, ("passed over",)),
    "a pod is missing": (m.without(H, "1-1"), {}, ("passed over",)),
    "a replica of the dead one is there": (m.but(H, "1-1", replica_of=P0.id), {}, ("passed over",)),
    "more than the dead one had": (H, {"slots": SlotSet([5, 16000])}, ("owns some", "did not own")),
}


@pytest.mark.parametrize(("moment", "fields", "words"), INHERIT.values(), ids=INHERIT)
def test_slots_of_a_dead_owner_go_to_who_is_known_to_have_its_data(
    moment: Observed, fields: dict[str, Any], words: tuple[str, ...]
) -> None:
    step = replace(InheritSlots(node=at(R0), slots=FIVE, dead=P0.id), **fields)
    check(words, found(moment, (step,)))


# Who is forgotten


def forget(observed: Observed, node: NodeId, *pods: str, **fields: Any) -> tuple[Action, ...]:
    seen = [n for n in observed.seen if n.id != node and (not pods or n.pod.name[3:] in pods)]
    return tuple(replace(Forget(node=at(one), id=node), **fields) for one in seen)


GHOST = m.met(W)
OWNER = m.met(W, slots=FIVE)
FREED = m.met(FREE, slots=FIVE)
FORGET: dict[str, tuple[Observed, dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "a node that no pod is": (GHOST, {}, {}, ()),
    "one that owns slots": (OWNER, {}, {}, ("would be forgotten",)),
    "one whose slots others serve": (OWNER, {"expect_slots": FIVE}, {}, ()),
    "one whose slots nobody serves": (FREED, {"expect_slots": FIVE}, {}, ("was not accepted",)),
    "one whose slots were given up": (
        FREED,
        {"expect_slots": FIVE},
        {"accepted_loss": FIVE},
        (),
    ),
    "it may be a pod that does not answer": (m.silent(GHOST, "1-1", known=False), {}, {}, ("may",)),
    "somebody who goes says that it owns slots": (
        m.viewed(GHOST, m.STRANGER, "1-1", slots=FIVE),
        {},
        {"replicas": 0},
        (),
    ),
    "somebody who stays does": (
        m.viewed(GHOST, m.STRANGER, "1-1", slots=FIVE),
        {},
        {},
        ("would be forgotten",),
    ),
}


@pytest.mark.parametrize(("moment", "fields", "spec", "words"), FORGET.values(), ids=FORGET)
def test_who_may_come_back_or_owns_slots_is_not_forgotten(
    moment: Observed, fields: dict[str, Any], spec: dict[str, Any], words: tuple[str, ...]
) -> None:
    check(words, found(moment, forget(moment, m.STRANGER, **fields), **spec))


def test_a_pod_that_stays_is_not_forgotten_and_one_that_goes_by_all_who_stay() -> None:
    check(("which stays",), found(W, forget(W, R1.id)))
    goes = {"replicas": 0}
    check((), found(W, forget(W, R1.id), **goes))
    check((), found(W, forget(W, R1.id, "0-0", "1-0", "2-0"), **goes))
    check(("would still know",), found(W, forget(W, R1.id, "0-0", "1-0"), **goes))
    away = m.silent(W, "1-1")
    check(("may be a pod",), found(away, forget(away, R1.id), **goes))


# Promotions


def promote(mode: FailoverMode, fence: Fence) -> tuple[Action, ...]:
    return (Failover(node=at(R0), primary=P0.id, mode=mode, fence=fence),)


def minority(observed: Observed) -> Observed:
    return m.silent(m.silent(observed, "1-0"), "2-0")


PLANNED = {
    "all is well": (W, ()),
    "it follows another": (m.but(W, "0-1", replica_of=P1.id), ("not seen as a replica",)),
    "it does not answer": (m.silent(W, "0-1"), ("not seen as a replica",)),
    "the primary does not": (m.dead(W, "0-0"), ("does not respond",)),
    "a slot moves": (opened(W), ("open slots",)),
    "it is behind": (m.replicating(W, "0-0", offset=10**9), ("behind",)),
    "it may not lead": (m.but(W, "0-1", pod_deleting=True), ("being deleted",)),
    "too few would vote": (minority(W), ("no majority",)),
    "it has another shard's data": (
        m.replicating(W, "0-1", id=P1.replication.id),
        ("another primary's data",),
    ),
}


@pytest.mark.parametrize(("moment", "words"), PLANNED.values(), ids=PLANNED)
def test_a_planned_promotion_loses_nothing(moment: Observed, words: tuple[str, ...]) -> None:
    steps = promote(FailoverMode.PLAIN, Fence.HANDSHAKE)
    check(words, found(moment, steps))


LINKED = m.viewed(m.without(W, "0-0"), P0.id, connected=True, flags=frozenset())
CUT = m.viewed(m.without(W, "0-0"), P0.id, connected=False)
FORCED = {
    "its process is gone": (m.dead(W, "0-0"), ()),
    "it is silent": (m.silent(W, "0-0"), ("alive",)),
    "it answers": (W, ("responds and is not fenced",)),
    "its pod is gone": (CUT, ()),
    "its pod is gone, and voters see it": (LINKED, ("is linked with",)),
    "it may be a silent pod": (m.silent(CUT, "2-1", known=False), ("alive",)),
    "a dead pod may have been it": (m.dead(CUT, "2-1", known=False), ()),
    "its files may be newer": (
        m.replicating(m.dead(W, "0-0"), "0-1", unlinked=True, link_up=False),
        ("waited for",),
    ),
}


@pytest.mark.parametrize(("moment", "words"), FORCED.values(), ids=FORCED)
def test_an_unplanned_promotion_needs_a_dead_primary(
    moment: Observed, words: tuple[str, ...]
) -> None:
    check(words, found(moment, promote(FailoverMode.FORCE, Fence.PROCESS_GONE)))


def test_who_has_more_data_is_not_passed_over_when_the_primary_is_dead() -> None:
    two = m.whole(2)
    ahead = m.replicating(two, "0-2", offset=m.server(two, "0-1").replication.offset + 1)
    primary, node = m.server(two, "0-0"), m.server(two, "0-1")
    step = Failover(at(node), primary.id, FailoverMode.FORCE, Fence.PROCESS_GONE)
    check(("has more data",), found(m.dead(ahead, "0-0"), (step,), replicas=2))
    check((), found(m.dead(two, "0-0"), (step,), replicas=2))
    another = m.replicating(ahead, "0-2", id="d" * 40)
    check((), found(m.dead(another, "0-0"), (step,), replicas=2))
    planned = replace(step, mode=FailoverMode.PLAIN, fence=Fence.HANDSHAKE)
    check((), found(ahead, (planned,), replicas=2))


def test_a_primary_that_restarted_empty_is_replaced_only_while_it_is_empty() -> None:
    steps = promote(FailoverMode.FORCE, Fence.EMPTY_AND_PAUSED)
    empty = m.but(W, "0-0", keys=0)
    check((), found(empty, steps))
    check(("not known to be empty",), found(W, steps))
    check(("not known to be empty",), found(m.dead(W, "0-0"), steps))
    check((), found(m.replicating(empty, "0-1", unlinked=True, link_up=False), steps))


def test_nobody_takes_over_alone_where_others_can_vote_and_would() -> None:
    steps = promote(FailoverMode.TAKEOVER, Fence.PROCESS_GONE)
    alone = m.dead(m.dead(m.dead(W, "0-0"), "1-0"), "2-0")
    check((), found(alone, steps))
    check(("without a vote",), found(m.dead(W, "0-0"), steps))
    epoch = P0.config_epoch + 1
    refused = m.viewed(m.dead(W, "0-0"), P0.id, "1-0", "2-0", config_epoch=epoch)
    check((), found(refused, steps))
