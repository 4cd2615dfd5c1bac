"""What single rules do in small changes of a whole database: what they do, and what they leave.

Each row says the steps (kind and pod) or a word of the reason why there are none.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning import moments as m
from planning.rows import Row, Spec, check, sizes
from redis_operator.planning.advice import PlanPhase, Switchover
from redis_operator.planning.cluster.follow import follow
from redis_operator.planning.cluster.settle import settle
from redis_operator.planning.cluster.settled import unsettled, unsettled_shard
from redis_operator.planning.clusters import (
    Counted,
    Moving,
    NotCounted,
    OpenSlot,
    SlotMigration,
    SlotState,
)
from redis_operator.planning.common.pods import pods
from redis_operator.planning.common.saving import unsaved
from redis_operator.planning.common.shrink import shrink
from redis_operator.planning.common.switch import drain, spread, switch
from redis_operator.planning.identity import Role
from redis_operator.planning.observed import Election, Observed
from redis_operator.redis.slots import NO_SLOTS, SlotSet

W = m.whole()
P0, R0, P1, R1, P2, R2 = (m.server(W, pod) for pod in ("0-0", "0-1", "1-0", "1-1", "2-0", "2-1"))
FIVE = SlotSet([5])
OPEN = OpenSlot(slot=next(iter(P2.slots)), state=SlotState.MIGRATING, peer=P1.id)
MOVING = m.but(W, "2-0", open_slots=(OPEN,))


# Rest

RESTLESS = {
    "all is well": (W, {}, None),
    "a pod is missing": (m.without(W, "1-1"), {}, "does not exist yet"),
    "a shard is missing": (
        replace(m.without(W, "2-0", "2-1"), workloads=W.workloads[:2]),
        {},
        "shard 2 has no pod",
    ),
    "two have one id": (m.but(W, "1-1", id=P0.id), {}, "one node id"),
    "an owner is silent": (m.silent(W, "0-0"), {}, "does not respond"),
    "a slot has no owner": (m.but(W, "0-0", slots=P0.slots - FIVE), {}, "have no owner"),
    "a slot moves": (MOVING, {}, "open slots"),
    "two share an epoch": (m.but(W, "1-0", config_epoch=P2.config_epoch), {}, "share epoch"),
    "a replica is silent": (m.silent(W, "1-1"), {}, "db-1-1 does not respond"),
    "a pod goes": (m.but(W, "1-1", pod_deleting=True), {}, "is being deleted"),
    "a pod is not ready": (m.but(W, "1-1", pod_ready=False), {}, "is not ready"),
    "a server loads": (m.but(W, "1-1", loading=True), {}, "loading"),
    "an owner does not serve": (m.but(W, "1-0", state_ok=False), {}, "does not serve yet"),
    "a replica does not serve": (m.but(W, "1-1", state_ok=False), {}, None),
    "an idle server": (m.emptied(W, "1-1"), {}, "not a replica yet"),
    "a replica of another shard": (m.but(W, "1-1", replica_of=P0.id), {}, "does not follow"),
    "a replica without a link": (m.replicating(W, "1-1", link_up=False), {}, "no replication link"),
    "one has no link to an owner": (
        m.viewed(W, P1.id, "0-1", connected=False),
        {},
        "db-0-1 has no link to db-1-0",
    ),
    "one does not know an owner": (
        m.but(W, "0-1", peers=tuple(p for p in R0.peers if p.id != P1.id)),
        {},
        "no link",
    ),
    "one has old news of an owner": (
        m.viewed(W, P1.id, "0-1", slots=NO_SLOTS),
        {},
        "not heard yet",
    ),
    "one has no link to a replica": (m.viewed(W, R1.id, "0-1", connected=False), {}, None),
    "one believes another for its epoch": (
        m.viewed(
            m.viewed(
                m.but(W, "0-1", engine="redis", version="6.2.14"),
                P1.id,
                "0-1",
                slots=P1.slots - SlotSet([6000]),
            ),
            P2.id,
            "0-1",
            slots=P2.slots | SlotSet([6000]),
        ),
        {},
        "db-0-1 takes slots of db-1-0 for db-2-0's",
    ),
    "a server that leaves is unwell": (m.but(W, "1-1", pod_ready=False), {"replicas": 0}, None),
    "one that leaves and owns slots is": (m.but(W, "2-0", pod_ready=False), {"shards": 2}, None),
}


@pytest.mark.parametrize(("moment", "spec", "word"), RESTLESS.values(), ids=RESTLESS)
def test_no_planned_change_begins_before_all_is_at_rest(
    moment: Observed, spec: Spec, word: str | None
) -> None:
    reason = unsettled(m.situation(moment, **spec))
    assert (reason is None) if word is None else (reason is not None and word in reason), reason


def test_a_shard_is_not_at_rest_while_a_pod_that_leaves_it_owns_slots_and_is_unwell() -> None:
    swapped = m.but(W, "1-0", role=Role.REPLICA, replica_of=R1.id, slots=NO_SLOTS)
    swapped = m.but(swapped, "1-1", role=Role.PRIMARY, replica_of=None, slots=P1.slots)
    assert unsettled_shard(m.situation(swapped, replicas=0), 1) is None
    unwell = m.but(swapped, "1-1", pod_ready=False)
    assert unsettled_shard(m.situation(unwell, replicas=0), 1) == "db-1-1 is not ready"


def test_a_server_that_writes_its_first_file_is_not_ended() -> None:
    saving = m.situation(m.but(W, "1-1", saving=True))
    assert unsaved(saving) is not None
    assert unsaved(saving, 1) is not None
    assert unsaved(saving, 0) is None
    assert unsaved(m.situation(W)) is None


# Pods


PODS: dict[str, Row] = {
    "enough": (W, {}, ""),
    "more replicas": (W, {"replicas": 2}, ", ".join(f"ScaleWorkload {s}: 2-3" for s in range(3))),
    "fewer": (W, {"replicas": 0}, ""),
    "one shard lacks a pod": (sizes(W, 2, 1, 2), {}, "ScaleWorkload 1: 1-2"),
    "its workload goes": (sizes(W, 2, 1, 2, deleting=True), {}, ""),
    "a shard that leaves lacks one": (sizes(W, 2, 2, 1), {"shards": 2}, ""),
    "a shard that leaves sleeps": (sizes(W, 2, 2, 0), {"shards": 2}, "ScaleWorkload 2: 0-2"),
}


@pytest.mark.parametrize("row", PODS.values(), ids=PODS)
def test_shards_that_stay_or_sleep_get_the_pods_they_lack(row: Row) -> None:
    check(pods, row)


THREE = m.whole(2)
SHRINK: dict[str, Row] = {
    "nothing to take away": (THREE, {"replicas": 2}, ""),
    "a replica too many": (THREE, {"replicas": 1}, "ScaleWorkload 0: 3-2"),
    "all replicas": (THREE, {"replicas": 0}, "ScaleWorkload 0: 3-1"),
    "of a shard that leaves": (sizes(THREE, 2, 2, 3), {"replicas": 1, "shards": 2}, ""),
    "while a slot moves": (
        m.but(THREE, "2-0", open_slots=(OPEN,)),
        {"replicas": 1},
        "blocked: open slots",
    ),
    "the one that stays is not in sync": (
        m.replicating(THREE, "0-1", link_up=False),
        {"replicas": 1},
        "blocked: db-0-1 has no replication link",
    ),
    "the one that goes is not": (
        m.replicating(THREE, "0-2", link_up=False),
        {"replicas": 1},
        "ScaleWorkload 0: 3-2",
    ),
    "a file is being written": (
        m.but(THREE, "0-1", saving=True),
        {"replicas": 1},
        "blocked: append-only",
    ),
}


@pytest.mark.parametrize("row", SHRINK.values(), ids=SHRINK)
def test_surplus_replicas_leave_when_a_good_copy_stays(row: Row) -> None:
    check(shrink, row)


def test_a_primary_whose_pod_leaves_hands_over_to_one_that_stays() -> None:
    primary, last = m.server(THREE, "0-0"), m.server(THREE, "0-2")
    moment = m.but(THREE, "0-0", role=Role.REPLICA, replica_of=last.id, slots=NO_SLOTS)
    moment = m.but(moment, "0-1", replica_of=last.id)
    moment = m.but(moment, "0-2", role=Role.PRIMARY, replica_of=None, slots=primary.slots)
    moment = m.but(moment, "0-2", config_epoch=9, current_epoch=9)
    for pod in ("1-0", "2-0"):
        moment = m.but(moment, pod, current_epoch=9)
    for one in ("0-0", "0-1"):
        moment = m.viewed(moment, m.server(THREE, one).id, replica_of=last.id, slots=NO_SLOTS)
    moment = m.viewed(moment, last.id, replica_of=None, slots=primary.slots, role=Role.PRIMARY)
    moment = m.replicating(moment, "0-2", id="e" * 40)
    for pod in ("0-0", "0-1"):
        moment = m.replicating(moment, pod, id="e" * 40, offset=last.replication.offset)
    check(shrink, (moment, {"replicas": 1}, "Failover 0-0"))
    ahead = m.replicating(moment, "0-1", offset=last.replication.offset + 1)
    check(shrink, (ahead, {"replicas": 1}, "Failover 0-1"))
    check(shrink, (ahead, {"replicas": 0}, "Failover 0-0"))


# Slots left open


def flagged(observed: Observed, pod: str, state: SlotState, peer: Any, slot: int = 5) -> Observed:
    flags = (*m.server(observed, pod).open_slots, OpenSlot(slot=slot, state=state, peer=peer))
    return m.but(observed, pod, open_slots=flags)


OUT = flagged(W, "0-0", SlotState.MIGRATING, P1.id)
IN = flagged(W, "1-0", SlotState.IMPORTING, P0.id)
BOTH = flagged(OUT, "1-0", SlotState.IMPORTING, P0.id)
STRAYS = Counted(((5, 1),))
SETTLE: dict[str, Row] = {
    "nothing is open": (W, {}, ""),
    "both ends agree": (BOTH, {}, "MoveSlots 0-0>1-0"),
    "only the source's replica was told": (
        flagged(W, "0-1", SlotState.MIGRATING, P1.id),
        {},
        "CloseSlots 0-0",
    ),
    "the source's replica was told": (
        flagged(BOTH, "0-1", SlotState.MIGRATING, P1.id),
        {},
        "MoveSlots 0-0>1-0",
    ),
    "only the source's replica was told, and it moves just now": (
        m.knowing(
            flagged(W, "0-1", SlotState.MIGRATING, P1.id), moving=(Moving(P0.id, P1.id, FIVE),)
        ),
        {},
        "",
    ),
    "the target knows nothing and has nothing": (OUT, {}, "CloseSlots 0-0"),
    "the target has keys of it": (m.but(OUT, "1-0", stranded=STRAYS), {}, "MoveSlots 0-0>1-0"),
    "the target may have": (m.but(OUT, "1-0", stranded=NotCounted()), {}, "MoveSlots 0-0>1-0"),
    "the target was not counted and is empty": (
        m.but(OUT, "1-0", stranded=NotCounted(), keys=0),
        {},
        "CloseSlots 0-0",
    ),
    "the target is a replica": (
        flagged(W, "0-0", SlotState.MIGRATING, R1.id),
        {},
        "CloseSlots 0-0",
    ),
    "the target loads": (m.but(BOTH, "1-0", loading=True), {}, "CloseSlots 0-0, MoveSlots 0-0>1-0"),
    "the target is silent": (m.silent(OUT, "1-0"), {}, "blocked: waits for db-1-0"),
    "the target is gone": (
        flagged(W, "0-0", SlotState.MIGRATING, m.STRANGER),
        {},
        "CloseSlots 0-0",
    ),
    "the slot is another's now": (
        flagged(W, "0-0", SlotState.MIGRATING, P1.id, slot=16000),
        {},
        "CloseSlots 0-0",
    ),
    "the source knows nothing": (IN, {}, "CloseSlots 1-0"),
    "the source knows nothing, not counted": (
        m.but(IN, "1-0", stranded=NotCounted()),
        {},
        "blocked: not counted yet",
    ),
    "the source knows nothing, and keys are there": (
        m.but(IN, "1-0", stranded=STRAYS),
        {},
        "blocked: closed when its keys are on their owner",
    ),
    "the source knows nothing, and keys are left there": (
        m.knowing(m.but(IN, "1-0", stranded=STRAYS), duplicate_strays=((P1.id, FIVE),)),
        {},
        "CloseSlots 1-0",
    ),
    "the source is silent": (m.silent(IN, "0-0"), {}, "blocked: waits for db-0-0"),
    "it moves just now": (m.knowing(BOTH, moving=(Moving(P0.id, P1.id, FIVE),)), {}, ""),
    "another slot moves just now": (
        m.knowing(BOTH, moving=(Moving(P0.id, P1.id, SlotSet([6])),)),
        {},
        "MoveSlots 0-0>1-0",
    ),
    "it moves between others": (
        m.knowing(BOTH, moving=(Moving(P2.id, R1.id, FIVE),)),
        {},
        "MoveSlots 0-0>1-0",
    ),
    "two share an epoch": (
        m.but(BOTH, "1-0", config_epoch=P2.config_epoch),
        {},
        "blocked: stay open",
    ),
    "a third imports it too": (
        flagged(BOTH, "2-0", SlotState.IMPORTING, P0.id),
        {},
        "CloseSlots 2-0",
    ),
    "a third's replica would import it": (
        flagged(BOTH, "2-1", SlotState.IMPORTING, P0.id),
        {},
        "CloseSlots 2-0",
    ),
    "the target's replica was told": (
        flagged(BOTH, "1-1", SlotState.IMPORTING, P0.id),
        {},
        "MoveSlots 0-0>1-0",
    ),
    "only the target's replica was told": (
        flagged(W, "1-1", SlotState.IMPORTING, P0.id),
        {},
        "CloseSlots 1-0",
    ),
    "only a replica was told, and it moves just now": (
        m.knowing(
            flagged(W, "1-1", SlotState.IMPORTING, P0.id), moving=(Moving(P0.id, P1.id, FIVE),)
        ),
        {},
        "",
    ),
    "a job whose target is gone": (
        m.but(W, "0-0", jobs=(SlotMigration("j", P0.id, m.STRANGER, FIVE),)),
        {},
        "CancelJob 0-0",
    ),
    "a job whose target is silent": (
        m.but(m.silent(W, "1-0"), "0-0", jobs=(SlotMigration("j", P0.id, P1.id, FIVE),)),
        {},
        "",
    ),
    "a job of another": (
        m.but(W, "0-0", jobs=(SlotMigration("j", P1.id, m.STRANGER, FIVE),)),
        {},
        "",
    ),
    "a job that goes on": (m.but(W, "0-0", jobs=(SlotMigration("j", P0.id, P1.id, FIVE),)), {}, ""),
}


@pytest.mark.parametrize("row", SETTLE.values(), ids=SETTLE)
def test_moves_left_open_are_finished_or_closed_by_what_both_ends_say(row: Row) -> None:
    check(settle, row)


def test_two_moves_left_open_in_both_directions_are_finished_one_after_the_other() -> None:
    back = next(iter(P1.slots))
    moment = flagged(BOTH, "1-0", SlotState.MIGRATING, P0.id, slot=back)
    moment = flagged(moment, "0-0", SlotState.IMPORTING, P1.id, slot=back)
    check(settle, (moment, {}, "MoveSlots 0-0>1-0"))


# Primaries where people, drains and zones want them

SWITCH: dict[str, Row] = {
    "not asked": (W, {}, ""),
    "asked": (W, {"switchover": Switchover("db-0-1")}, "Failover 0-1"),
    "done": (W, {"switchover": Switchover("db-0-0")}, ""),
    "it is silent": (m.silent(W, "0-1"), {"switchover": Switchover("db-0-1")}, "blocked: db-0-1"),
    "its primary is": (
        m.silent(W, "0-0"),
        {"switchover": Switchover("db-0-1")},
        "blocked: does not follow a primary that responds",
    ),
}


@pytest.mark.parametrize("row", SWITCH.values(), ids=SWITCH)
def test_the_pod_that_a_person_named_becomes_primary(row: Row) -> None:
    check(switch, row)


DRAINED = m.but(W, "0-0", pod_draining=True)
DRAIN: dict[str, Row] = {
    "nobody goes": (W, {}, ""),
    "a primary's machine is emptied": (DRAINED, {}, "Failover 0-1"),
    "a replica's is": (m.but(W, "0-1", pod_draining=True), {}, ""),
    "both are": (m.but(DRAINED, "0-1", pod_draining=True), {}, ""),
    "a primary goes": (m.but(W, "0-0", pod_deleting=True), {}, "Failover 0-1"),
    "a primary goes and its replica's machine is emptied": (
        m.but(m.but(W, "0-0", pod_deleting=True), "0-1", pod_draining=True),
        {},
        "Failover 0-1",
    ),
    "both go": (
        m.but(m.but(W, "0-0", pod_deleting=True), "0-1", pod_deleting=True),
        {},
        "blocked: no replica that could take over",
    ),
    "one without replicas": (m.but(DRAINED, "0-1", replica_of=P1.id), {}, ""),
    "one can and one cannot": (
        m.but(m.but(DRAINED, "0-1", loading=True), "1-0", pod_draining=True),
        {},
        "Failover 1-1",
    ),
    "one cannot": (m.but(DRAINED, "0-1", loading=True), {}, "blocked: loading"),
    "who goes is first": (m.but(DRAINED, "1-0", pod_deleting=True), {}, "Failover 1-1"),
}


@pytest.mark.parametrize("row", DRAIN.values(), ids=DRAIN)
def test_primaries_hand_over_before_they_go_to_a_replica_that_is_better_off(row: Row) -> None:
    check(drain, row)


def crowded() -> Observed:
    moment = W
    for pod, zone in zip(("0-0", "1-0", "2-0", "0-1", "1-1", "2-1"), "aaabbb", strict=True):
        moment = m.but(moment, pod, pod_zone=zone, started_at=0.0)
    return moment


C = crowded()
EVEN = {"spread_primaries": True}
SPREAD: dict[str, Row] = {
    "all in one zone": (C, EVEN, "Failover 0-1"),
    "not asked for": (C, {}, ""),
    "one more than elsewhere": (
        m.but(m.but(C, "0-0", pod_zone="b"), "0-1", pod_zone="a"),
        EVEN,
        "",
    ),
    "somebody was elected just now": (
        replace(C, elections=(Election(P0.id, m.NOW - 59.0),)),
        EVEN,
        "",
    ),
    "a minute ago": (replace(C, elections=(Election(P0.id, m.NOW - 60.0),)), EVEN, "Failover 0-1"),
    "a server has just come up": (m.but(C, "2-1", started_at=m.NOW - 59.0), EVEN, ""),
    "something is unwell": (m.but(C, "2-1", pod_ready=False), EVEN, ""),
    "the replica's machine is emptied": (m.but(C, "0-1", pod_draining=True), EVEN, "Failover 1-1"),
    "the replica has no zone": (m.but(C, "0-1", pod_zone=""), EVEN, "Failover 1-1"),
    "all are emptied": (
        m.but(
            m.but(m.but(C, "0-1", pod_draining=True), "1-1", pod_draining=True), "2-1", pod_zone=""
        ),
        EVEN,
        "",
    ),
}


@pytest.mark.parametrize("row", SPREAD.values(), ids=SPREAD)
def test_primaries_are_spread_over_zones_once_all_is_settled(row: Row) -> None:
    check(spread, row)


# Replicas

IDLE = m.emptied(W, "0-1")
OTHER_VALUE = m.but(IDLE, "0-1", keys=1, stranded=STRAYS)
ASTRAY = m.but(W, "0-1", replica_of=P1.id)
FOLLOW: dict[str, Row] = {
    "all follow": (W, {}, ""),
    "an idle one": (IDLE, {}, "Replicate 0-1"),
    "an idle one that leaves": (IDLE, {"replicas": 0}, ""),
    "an idle one with keys": (m.but(IDLE, "0-1", keys=3), {}, "blocked: holds 3 keys"),
    "an idle one with other values of keys than their owner": (
        m.knowing(OTHER_VALUE, duplicate_strays=((m.server(IDLE, "0-1").id, FIVE),)),
        {},
        "blocked: FLUSHALL on db-0-1",
    ),
    "an idle one with stray keys that may yet come home": (
        OTHER_VALUE,
        {},
        "blocked: holds 1 keys",
    ),
    "an idle one with more keys than are known to be left": (
        m.knowing(
            m.but(OTHER_VALUE, "0-1", keys=2), duplicate_strays=((m.server(IDLE, "0-1").id, FIVE),)
        ),
        {},
        "blocked: holds 2 keys",
    ),
    "an idle one that loads": (m.but(IDLE, "0-1", loading=True), {}, "blocked: loading"),
    "an idle one that does not know its primary": (
        m.but(IDLE, "0-1", peers=()),
        {},
        "blocked: does not know",
    ),
    "one that claims slots": (
        m.but(IDLE, "0-1", slots=P0.slots, config_epoch=0),
        {},
        "blocked: must first hear",
    ),
    "a replica of another shard": (ASTRAY, {}, "Replicate 0-1"),
    "two of them, one at a time": (m.but(ASTRAY, "2-1", replica_of=P1.id), {}, "Replicate 0-1"),
    "idle ones first, all at once": (
        m.but(m.emptied(m.emptied(W, "1-1"), "2-1"), "0-1", replica_of=P1.id),
        {},
        "Replicate 1-1, Replicate 2-1",
    ),
    "a copy of a silent owner": (m.silent(ASTRAY, "1-0"), {}, "blocked: last copy"),
    "one that follows a stranger": (m.but(W, "0-1", replica_of=m.STRANGER), {}, "Replicate 0-1"),
    "its primary is silent": (m.silent(IDLE, "0-0"), {}, ""),
}


@pytest.mark.parametrize("row", FOLLOW.values(), ids=FOLLOW)
def test_servers_copy_the_primary_of_their_shard_when_nothing_is_lost_by_it(row: Row) -> None:
    check(follow, row)


def test_replicas_are_made_while_a_database_is_created_and_repaired_later() -> None:
    advice = follow(m.situation(replace(IDLE, formed=False)))
    assert advice is not None
    assert advice.phase is PlanPhase.CREATING
    advice = follow(m.situation(replace(IDLE, formed=True)))
    assert advice is not None
    assert advice.phase is PlanPhase.HEALING
