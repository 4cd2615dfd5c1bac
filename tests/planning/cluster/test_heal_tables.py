"""What rules do when servers do not hear each other, are dead, or lost what they had."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning import moments as m
from planning.rows import Row, Spec, check, told
from redis_operator.planning.cluster.actions import FailoverMode
from redis_operator.planning.cluster.assist import assist
from redis_operator.planning.cluster.connect import connect
from redis_operator.planning.cluster.empty_primary import empty_primary
from redis_operator.planning.cluster.inherit import inherit
from redis_operator.planning.cluster.lost import lost
from redis_operator.planning.cluster.replace_data import replace_data
from redis_operator.planning.clusters import Introduction, OpenSlot, PeerFlag, SlotState
from redis_operator.planning.identity import Role
from redis_operator.planning.observed import Evidence, Observed
from redis_operator.redis.slots import SlotSet

W = m.whole()
P0, R0, P1, R1, P2, R2 = (m.server(W, pod) for pod in ("0-0", "0-1", "1-0", "1-1", "2-0", "2-1"))
FIVE = SlotSet([5])
OPEN = OpenSlot(slot=next(iter(P2.slots)), state=SlotState.MIGRATING, peer=P1.id)
MOVING = m.but(W, "2-0", open_slots=(OPEN,))


# Introductions that had no effect


@pytest.mark.parametrize(
    ("times", "ago", "meets"),
    [
        *((0, 0.0, True), (4, 0.0, True), (5, 0.0, False), (5, 1.9, False), (5, 2.1, True)),
        *((6, 2.1, False), (6, 4.1, True), (20, 59.0, False), (20, 61.0, True)),
    ],
)
def test_servers_that_do_not_hear_each_other_are_introduced_ever_less_often(
    times: int, ago: float, *, meets: bool
) -> None:
    apart = m.but(W, "0-0", peers=tuple(p for p in P0.peers if p.id != P1.id))
    tried = Introduction(P0.id, P1.id, times=times, at=m.NOW - ago)
    advice = connect(m.situation(m.knowing(apart, introductions=(tried,))))
    assert advice is not None
    if meets:
        assert told(advice) == "Meet 0-0>1-0"
        return
    assert advice.stages == ()
    assert f"CLUSTER MEET {times} times" in advice.blocked[0]
    assert "16379" in advice.blocked[0]
    pause = min(60.0, 2.0 ** (times - 4))
    assert advice.again_after == pytest.approx(pause - ago)


def test_a_handshake_that_is_under_way_is_not_begun_again() -> None:
    peers = tuple(
        replace(p, flags=frozenset({PeerFlag.HANDSHAKE})) if p.id == P1.id else p for p in P0.peers
    )
    advice = connect(m.situation(m.but(W, "0-0", peers=peers)))
    assert advice is not None
    assert advice.stages == ()
    assert "1 pairs of servers are meeting" in advice.blocked[0]
    assert advice.again_after == 0.05


# Dead primaries


def dead_primary(observed: Observed = W) -> Observed:
    return m.viewed(m.dead(observed, "0-0"), P0.id, connected=False)


ASSIST: dict[str, Row] = {
    "nobody is dead": (W, {}, ""),
    "a primary is": (dead_primary(), {}, "Failover 0-1"),
    "a replica is": (m.dead(W, "0-1"), {}, ""),
    "a primary is silent": (m.silent(W, "0-0"), {}, "blocked: may be alive"),
    "it has no replica": (m.dead(m.dead(W, "0-0"), "0-1"), {}, "blocked: no live replica"),
    "most owners are dead": (m.dead(dead_primary(), "1-0"), {}, "blocked: only 1 of 3"),
    "most are dead, and given up": (
        m.dead(dead_primary(), "1-0"),
        {"accepted_loss": P0.slots | P1.slots},
        "Failover 0-1",
    ),
    "most are dead, one given up": (
        m.dead(dead_primary(), "1-0"),
        {"accepted_loss": P0.slots},
        "blocked: only 1 of 3",
    ),
    "most are dead, without a disk": (
        m.dead(dead_primary(), "1-0"),
        {"volatile": True},
        "Failover 0-1",
    ),
    "one is dead and one silent": (
        m.silent(dead_primary(), "1-0"),
        {"volatile": True},
        "blocked: only 1 of 3",
    ),
}


@pytest.mark.parametrize("row", ASSIST.values(), ids=ASSIST)
def test_a_dead_primary_is_replaced_where_its_replica_has_its_data(row: Row) -> None:
    check(assist, row)


def test_the_promotion_over_a_dead_primary_is_urgent_and_by_votes_where_there_are_any() -> None:
    advice = assist(m.situation(dead_primary()))
    assert advice is not None
    (step,) = advice.steps
    assert step.mode is FailoverMode.FORCE  # type: ignore[union-attr]
    assert step.min_offset == R0.replication.offset  # type: ignore[union-attr]
    assert advice.urgent
    assert "db-0-1" in advice.count_strays_on
    most = m.dead(dead_primary(), "1-0")
    advice = assist(m.situation(most, accepted_loss=P0.slots | P1.slots))
    assert advice is not None
    assert {step.mode for step in advice.steps} == {FailoverMode.TAKEOVER}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("moment", "soon"),
    [
        pytest.param(
            m.viewed(m.silent(W, "0-0"), P0.id, connected=False),
            False,
            id="silent: only timeouts help",
        ),
        pytest.param(
            m.but(dead_primary(), "0-1", loading=True), True, id="dead: its replica is soon ready"
        ),
        pytest.param(m.dead(dead_primary(), "0-1"), False, id="dead with all its replicas"),
    ],
)
def test_an_outage_is_looked_at_again_soon_where_that_can_help(
    moment: Observed, *, soon: bool
) -> None:
    advice = assist(m.situation(moment))
    assert advice is not None
    assert advice.again_after == (0.5 if soon else None)


# Losses

LOST = m.met(m.but(W, "0-0", slots=P0.slots - FIVE), slots=FIVE, connected=False)
FORGETS = ", ".join(f"Forget {pod}" for pod in ("0-0", "0-1", "1-0", "1-1", "2-0", "2-1"))


@pytest.mark.parametrize(
    ("moment", "spec", "slots", "steps"),
    [
        pytest.param(W, {}, None, "", id="nothing is lost"),
        pytest.param(LOST, {}, FIVE, "", id="an owner left no copy"),
        pytest.param(LOST, {"accepted_loss": FIVE}, FIVE, FORGETS, id="given up"),
        pytest.param(LOST, {"start_empty": True}, FIVE, FORGETS, id="started empty"),
        pytest.param(LOST, {"accepted_loss": SlotSet([6])}, FIVE, "", id="another was given up"),
        pytest.param(m.silent(LOST, "1-1"), {}, None, "", id="somebody may have it"),
        pytest.param(m.but(LOST, "1-1", replica_of=m.STRANGER), {}, None, "", id="a copy is left"),
        pytest.param(m.met(W, slots=FIVE, connected=False), {}, None, "", id="another serves it"),
        pytest.param(
            m.viewed(LOST, m.STRANGER, "1-0", connected=True), {}, None, "", id="it lives"
        ),
    ],
)
def test_slots_are_lost_when_no_copy_can_come_back_and_given_up_when_somebody_says_so(
    moment: Observed, spec: Spec, slots: SlotSet | None, steps: str
) -> None:
    advice = lost(m.situation(moment, **spec))
    if slots is None:
        assert advice is None
        return
    assert advice is not None
    assert [loss.slots for loss in advice.losses] == [slots]
    assert [loss.accepted for loss in advice.losses] == [bool(steps)]
    assert (told(advice) if steps else "") == steps
    assert not steps or f"slots {slots} lost" in advice.why


def test_a_successor_inherits_only_when_everybody_answers() -> None:
    moment = m.but(LOST, "0-1", role=Role.PRIMARY, replica_of=None, config_epoch=9)
    moment = m.replicating(moment, "0-1", id2="b" * 40)
    moment = m.knowing(moment, histories=((m.STRANGER, "b" * 40),))
    check(inherit, (moment, {}, "InheritSlots 0-1"))
    check(inherit, (m.dead(moment, "2-1"), {}, ""))
    check(inherit, (m.but(moment, "2-0", slots=P2.slots | FIVE), {}, ""))
    check(inherit, (m.replicating(moment, "0-1", id2="c" * 40), {}, ""))
    check(inherit, (W, {}, ""))


# Files that cannot be loaded


def broken(observed: Observed = W, **fields: Any) -> Observed:
    given = {"pod_unloadable": "bad file", "pod_restarts": 2} | fields
    return m.but(m.silent(observed, "0-1", Evidence.TERMINATED), "0-1", **given)


MEND: dict[str, Row] = {
    "no files are broken": (m.dead(W, "0-1"), {}, ""),
    "a replica's are": (broken(), {}, "DiscardData 0-1"),
    "it has tried once": (broken(pod_restarts=1), {}, "blocked: it retries"),
    "it may be alive": (broken(evidence=Evidence.SILENT), {}, ""),
    "its pod goes": (broken(pod_deleting=True), {}, ""),
    "its primary holds nothing": (broken(m.but(W, "0-0", keys=0)), {}, "blocked: holds no key"),
    "its primary loads": (broken(m.but(W, "0-0", loading=True)), {}, "blocked: does not serve"),
    "its primary does not serve": (
        broken(m.but(W, "0-0", state_ok=False)),
        {},
        "blocked: does not serve",
    ),
    "an owner is silent": (m.silent(broken(), "1-0"), {}, "blocked: may hold their last copy"),
    "two have one id": (broken(m.but(W, "2-1", id=R1.id)), {}, "blocked: one node id"),
}


@pytest.mark.parametrize("row", MEND.values(), ids=MEND)
def test_broken_files_are_discarded_only_when_nothing_of_them_is_needed(row: Row) -> None:
    check(replace_data, row)


# A primary that restarted empty


def restarted_empty() -> Observed:
    moment = m.replicating(m.but(W, "0-0", keys=0), "0-0", id="e" * 40, id2="")
    return m.replicating(moment, "0-1", link_up=False)


EMPTY = restarted_empty()
EMPTIED: dict[str, Row] = {
    "all is well": (W, {}, ""),
    "it restarted empty": (EMPTY, {}, "Failover 0-1"),
    "it has keys": (m.but(EMPTY, "0-0", keys=1), {}, ""),
    "it loads": (m.but(EMPTY, "0-0", loading=True), {}, ""),
    "its replica is empty too": (m.but(EMPTY, "0-1", keys=0), {}, ""),
    "its replica loads": (m.but(EMPTY, "0-1", loading=True), {}, ""),
    "its replica is linked": (m.replicating(EMPTY, "0-1", link_up=True), {}, ""),
    "its clients emptied it": (m.replicating(EMPTY, "0-0", id=R0.replication.id), {}, ""),
    "it was promoted since": (m.replicating(EMPTY, "0-0", id2=R0.replication.id), {}, ""),
    "its new replica has another shard's data": (
        m.replicating(EMPTY, "0-1", id=P1.replication.id),
        {},
        "",
    ),
    "nobody can vote": (m.silent(m.silent(EMPTY, "1-0"), "2-0"), {}, "blocked: no majority"),
}


@pytest.mark.parametrize("row", EMPTIED.values(), ids=EMPTIED)
def test_a_replica_is_promoted_before_it_copies_the_emptiness(row: Row) -> None:
    check(empty_primary, row)
