"""What follows from one look: who owns what, who leads which shard, who may come back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning import moments as m
from redis_operator.planning.cluster.situation import Situation
from redis_operator.planning.clusters import (
    Counted,
    Moving,
    NotCounted,
    OpenSlot,
    SlotMigration,
    SlotState,
)
from redis_operator.planning.identity import Role
from redis_operator.planning.observed import Evidence, Observed
from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS, SlotSet

W = m.whole()
P0, R0, P1, R1, P2, R2 = (m.server(W, pod) for pod in ("0-0", "0-1", "1-0", "1-1", "2-0", "2-1"))
FIVE = SlotSet([5])


def names(nodes: Any) -> list[str]:
    return [node.pod.name for node in nodes]


# Who is who


def test_two_pods_with_one_id_are_not_counted_until_they_are_parted() -> None:
    found = m.situation(m.but(W, "1-1", id=P0.id))
    assert found.duplicate_ids == {P0.id}
    assert P0.id not in found.by_id
    assert R0.id in found.by_id
    assert m.situation(W).duplicate_ids == frozenset()


def test_a_silent_pod_is_who_it_last_was_or_who_is_known_at_its_address() -> None:
    assert set(m.situation(m.silent(W, "0-1")).identities) == {R0.id}
    by_address = replace(
        W,
        nodes=tuple(
            replace(n, last_id=None) if n.pod.name == "db-0-1" else n
            for n in m.silent(W, "0-1").nodes
        ),
    )
    found = m.situation(by_address)
    assert set(found.identities) == {R0.id}
    assert found.unidentified == ()
    assert found.name_of(R0.id) == "db-0-1"


def test_a_silent_pod_at_an_address_of_two_nodes_or_of_a_seen_one_may_be_anybody() -> None:
    away = m.silent(W, "0-1", known=False)
    two = m.viewed(m.met(away, ip="10.8.8.8"), R0.id, ip="10.8.8.8")
    assert names(m.situation(two).unidentified) == ["db-0-1"]
    assert m.situation(two).identities == {}
    one = m.situation(m.met(away, ip="10.8.8.8"))
    assert set(one.identities) == {m.STRANGER}
    seen = m.situation(m.viewed(away, P1.id, ip="10.8.8.8"))
    assert seen.identities == {}
    assert names(seen.unidentified) == ["db-0-1"]
    # A pod without an address is not the node whose address was forgotten.
    homeless = m.viewed(m.but(away, "0-1", pod_ip=""), R0.id, ip="")
    assert names(m.situation(homeless).unidentified) == ["db-0-1"]


def test_pods_and_shards_that_are_missing_are_named() -> None:
    gone = m.without(W, "1-1", "2-0", "2-1")
    found = m.situation(gone)
    assert found.missing_pods == ("db-1-1", "db-2-0", "db-2-1")
    assert found.missing_shards == (2,)
    assert m.situation(W).missing_pods == ()
    assert m.situation(W).missing_shards == ()


def test_nodes_that_no_pod_of_ours_is_are_others() -> None:
    found = m.situation(m.met(W))
    assert set(found.others) == {m.STRANGER}
    assert {view.ip for view in found.others[m.STRANGER]} == {"10.9.9.9"}
    assert m.situation(m.silent(W, "0-1")).others == {}
    assert m.situation(m.but(W, "1-1", id=P0.id)).others.keys() == {R1.id}
    assert found.pod_of(m.STRANGER) is None
    assert found.name_of(m.STRANGER) == "node ffffffff"


# Who owns what


def test_of_two_who_claim_a_slot_the_higher_epoch_has_it() -> None:
    high = m.but(W, "1-0", slots=P1.slots | FIVE, config_epoch=9)
    assert m.situation(high).owner_of(5) == P1.id
    assert 5 not in m.situation(high).owned[P0.id]
    low = m.but(W, "1-0", slots=P1.slots | FIVE, config_epoch=0)
    assert m.situation(low).owner_of(5) == P0.id
    assert m.situation(low).owned[P1.id] == P1.slots
    assert [claim.epoch for claim in m.situation(W).claims] == [3, 2, 1]


def test_a_primary_that_lost_all_its_slots_to_others_owns_nothing() -> None:
    old = m.but(W, "1-1", role=Role.PRIMARY, replica_of=None, slots=P1.slots, config_epoch=0)
    found = m.situation(old)
    assert R1.id not in found.owned
    assert names(found.voters) == ["db-0-0", "db-1-0", "db-2-0"]


@pytest.mark.parametrize(
    ("by", "owns"),
    [
        pytest.param(("1-0", "2-0"), True, id="two of the three owners say so"),
        pytest.param(("1-0",), False, id="one of them says so"),
        pytest.param(("1-1", "2-1", "0-1"), False, id="replicas alone say so"),
    ],
)
def test_of_a_node_that_does_not_answer_counts_what_most_owners_say(
    by: tuple[str, ...], *, owns: bool
) -> None:
    free = m.met(m.but(W, "0-0", slots=P0.slots - FIVE))
    found = m.situation(m.viewed(free, m.STRANGER, *by, slots=FIVE, config_epoch=7))
    assert found.owned.get(m.STRANGER, NO_SLOTS) == (FIVE if owns else NO_SLOTS)
    # Whoever said so: the slot is not free for others.
    assert found.unclaimed == NO_SLOTS


def test_what_owners_disagree_about_is_owned_where_most_of_them_say_so() -> None:
    free = m.met(m.but(W, "0-0", slots=P0.slots - SlotSet([5, 6, 7])))
    moment = m.viewed(free, m.STRANGER, "0-0", slots=SlotSet([5, 6]))
    moment = m.viewed(moment, m.STRANGER, "1-0", slots=SlotSet([5, 7]))
    assert m.situation(moment).owned[m.STRANGER] == FIVE
    moment = m.viewed(moment, m.STRANGER, "2-0", slots=SlotSet([6]))
    assert m.situation(moment).owned[m.STRANGER] == SlotSet([5, 6])


def test_half_of_the_owners_are_no_majority_and_idle_primaries_are_no_witnesses() -> None:
    free = m.met(m.but(W, "0-0", slots=P0.slots - FIVE), slots=FIVE)
    half = m.but(m.silent(free, "2-0"), "1-0", peers=P1.peers)
    assert m.STRANGER not in m.situation(half).owned
    idle = m.emptied(m.emptied(m.emptied(free, "0-1"), "1-1"), "2-1")
    idle = m.viewed(idle, m.STRANGER, "0-0", "0-1", "1-1", "2-1", slots=NO_SLOTS)
    assert m.situation(idle).owned[m.STRANGER] == FIVE
    assert m.situation(idle).quorum == 3


def test_without_any_owner_replicas_say_who_owned_what() -> None:
    gone = m.silent(m.silent(m.silent(W, "0-0"), "1-0"), "2-0")
    assert m.situation(gone).owned == {P0.id: P0.slots, P1.id: P1.slots, P2.id: P2.slots}


def test_a_replica_that_tells_of_slots_owns_none() -> None:
    found = m.situation(m.but(W, "0-1", slots=FIVE, config_epoch=9))
    assert found.owner_of(5) == P0.id
    assert R0.id not in found.owned


def test_slots_that_nobody_claims_are_free_and_those_of_a_silent_owner_are_not() -> None:
    free = m.but(W, "0-0", slots=P0.slots - FIVE)
    assert m.situation(free).unclaimed == FIVE
    assert m.situation(W).unclaimed == NO_SLOTS
    assert m.situation(m.silent(W, "0-0")).unclaimed == NO_SLOTS
    # A replica that tells of slots as its own owns none.
    assert m.situation(m.but(free, "0-1", slots=FIVE)).unclaimed == FIVE


def test_all_slots_are_owned_when_every_owner_answers() -> None:
    assert m.situation(W).all_owned
    assert not m.situation(m.silent(W, "0-0")).all_owned
    assert not m.situation(m.but(W, "0-0", slots=P0.slots - FIVE)).all_owned
    assert m.situation(m.silent(W, "0-1")).all_owned


@pytest.mark.parametrize(
    ("silent", "votes"), [((), True), (("0-0",), True), (("0-0", "1-0"), False)]
)
def test_more_than_half_of_the_owners_must_answer_to_vote(
    silent: tuple[str, ...], *, votes: bool
) -> None:
    moment = W
    for pod in silent:
        moment = m.silent(moment, pod)
    found = m.situation(moment)
    assert found.quorum == 2
    assert found.has_majority is votes
    assert len(found.voters) == 3 - len(silent)


# Who leads


def test_the_owner_leads_its_shard_whatever_its_ordinal() -> None:
    assert m.situation(W).leaders == {0: P0.id, 1: P1.id, 2: P2.id}
    swapped = m.but(W, "0-0", role=Role.REPLICA, replica_of=R0.id, slots=NO_SLOTS)
    swapped = m.but(swapped, "0-1", role=Role.PRIMARY, replica_of=None, slots=P0.slots)
    assert m.situation(swapped).leaders[0] == R0.id


def two_in_shard_0() -> Observed:
    """Shard 2 was taken over by a pod of shard 0; its own pods own nothing."""
    moment = m.but(W, "0-1", role=Role.PRIMARY, replica_of=None, slots=P2.slots, config_epoch=9)
    moment = m.but(moment, "2-0", role=Role.REPLICA, replica_of=R0.id, slots=NO_SLOTS)
    return m.but(moment, "2-1", replica_of=R0.id)


def test_a_shard_without_an_owner_is_led_by_the_one_too_many_whom_its_pods_follow() -> None:
    moment = two_in_shard_0()
    found = m.situation(moment)
    assert found.owners_by_shard[0] == (P0.id, R0.id)
    assert found.leaders == {0: P0.id, 1: P1.id, 2: R0.id}


def test_of_two_owners_in_a_shard_the_one_with_followers_there_leads_it() -> None:
    moment = m.but(two_in_shard_0(), "1-1", pod_shard=0, pod_ordinal=5, replica_of=R0.id)
    assert m.situation(moment).owners_by_shard[0] == (R0.id, P0.id)


def test_a_shard_that_nobody_follows_for_gets_an_owner_that_is_one_too_many() -> None:
    moment = m.but(m.but(two_in_shard_0(), "2-0", replica_of=P1.id), "2-1", replica_of=P1.id)
    assert m.situation(moment).leaders == {0: P0.id, 1: P1.id, 2: R0.id}


def test_each_home_is_given_to_one_owner_only() -> None:
    """Two owners are one too many in shard 0, both followed from shard 2, and two shards vacant."""
    moment = two_in_shard_0()
    moment = m.but(moment, "1-0", pod_shard=0, pod_ordinal=3, role=Role.PRIMARY, slots=P1.slots)
    moment = m.but(moment, "2-1", replica_of=P1.id)
    leaders = m.situation(moment).leaders
    assert leaders == {0: P0.id, 1: P1.id, 2: R0.id}
    assert len(set(leaders.values())) == 3


@pytest.mark.parametrize(
    ("changes", "leader"),
    [
        pytest.param({}, "2-0", id="the first by ordinal"),
        pytest.param({"2-0": {"pod_deleting": True}}, "2-1", id="not one that goes"),
        pytest.param({"2-0": {"role": Role.REPLICA}}, "2-1", id="not a replica"),
        pytest.param({"1-1": {"replica_of": R2.id}}, "2-1", id="the one that others follow"),
    ],
)
def test_an_empty_shard_is_led_by_one_of_its_own_empty_primaries(
    changes: dict[str, dict[str, Any]], leader: str
) -> None:
    moment = m.emptied(m.emptied(W, "2-0"), "2-1")
    for pod, fields in changes.items():
        moment = m.but(moment, pod, **fields)
    assert m.situation(moment).leaders[2] == m.server(moment, leader).id


def test_a_replica_that_never_synced_is_no_copy() -> None:
    assert names(m.situation(W).copies_of(P0.id)) == ["db-0-1"]
    fresh = m.replicating(m.but(W, "0-1", keys=0), "0-1", offset=0, link_up=False)
    assert m.situation(fresh).copies_of(P0.id) == ()
    assert names(m.situation(fresh).replicas_of(P0.id)) == ["db-0-1"]


def test_an_empty_replica_linked_to_the_server_where_its_primary_was_is_no_copy() -> None:
    """CL-32"""
    empty = m.but(W, "0-1", keys=0)
    assert m.situation(empty).is_copy(m.server(empty, "0-1"))
    astray = m.replicating(empty, "0-1", id=P1.replication.id)
    assert not m.situation(astray).is_copy(m.server(astray, "0-1"))
    with_keys = m.but(astray, "0-1", keys=4)
    assert m.situation(with_keys).is_copy(m.server(with_keys, "0-1"))


# Who may come back


@pytest.mark.parametrize("volatile", [False, True])
@pytest.mark.parametrize("evidence", [Evidence.SILENT, Evidence.REFUSED])
def test_a_dead_server_without_a_disk_does_not_come_back_as_an_owner(
    evidence: Evidence, *, volatile: bool
) -> None:
    moment = m.silent(W, "0-1", evidence, known=False)
    found = m.situation(moment, volatile=volatile)
    back = not (volatile and evidence is Evidence.REFUSED)
    assert found.possible_owners == (("db-0-1",) if back else ())
    assert bool(found.possible_holders) == back


def test_whoever_may_hold_data_is_named_with_its_reason() -> None:
    assert m.situation(W).possible_holders == ()
    assert "does not respond: no answer" in m.situation(m.silent(W, "0-1")).possible_holders[0]
    waiting = m.but(m.silent(W, "0-1"), "0-1", pod_waiting="Unschedulable: full")
    assert "Unschedulable: full" in m.situation(waiting).possible_holders[0]
    assert m.situation(m.without(W, "0-1")).possible_holders == ("db-0-1 does not exist yet",)
    loading = m.situation(m.but(W, "0-1", loading=True)).possible_holders
    assert loading == ("db-0-1 is still loading its data",)
    duplicates = m.situation(m.but(W, "1-1", id=P0.id)).possible_holders
    assert duplicates == ("two pods have one node id",)
    assert m.situation(m.without(W, "0-1")).possible_owners == ("db-0-1",)
    assert m.situation(m.silent(W, "0-1")).possible_owners == ()


@pytest.mark.parametrize(
    ("pod", "spec", "leaves"),
    [("2-0", {}, False), ("2-0", {"shards": 2}, True), ("0-1", {"replicas": 0}, True)],
)
def test_pods_that_the_spec_has_no_place_for_leave(
    pod: str, spec: dict[str, int], *, leaves: bool
) -> None:
    assert m.situation(W, **spec).leaving(m.pod_of(W, pod)) is leaves
    assert not m.situation(W, **spec).leaving(m.pod_of(W, "0-0"))


# What is unfinished


def test_open_slots_jobs_and_moves_are_reasons_to_wait() -> None:
    assert m.situation(W).unfinished_moves == ()
    flag = OpenSlot(slot=5, state=SlotState.MIGRATING, peer=P1.id)
    assert m.situation(m.but(W, "0-0", open_slots=(flag,))).unfinished_moves
    assert not m.situation(m.but(W, "0-1", open_slots=(flag,))).unfinished_moves
    job = SlotMigration("j", P0.id, P1.id, FIVE)
    assert m.situation(m.but(W, "0-1", jobs=(job,))).unfinished_moves
    moving = m.knowing(W, moving=(Moving(P0.id, P1.id, FIVE),))
    assert m.situation(moving).unfinished_moves == ("slots move from db-0-0 to db-1-0",)


EPOCHS = {
    "each has its own, and has heard of all": (W, None),
    "two share one": (m.but(W, "1-0", config_epoch=P2.config_epoch), "share epoch"),
    "a replica shares its primary's": (m.but(W, "0-1", config_epoch=P0.config_epoch), None),
    "an owner has not heard of the highest": (m.but(W, "0-0", current_epoch=2), "not heard of"),
    "a replica has not": (m.but(W, "0-1", current_epoch=0), None),
    "an owner knows of a higher one": (m.but(W, "0-0", current_epoch=9), None),
    "an old primary has not heard of its successor": (
        m.but(W, "1-1", role=Role.PRIMARY, replica_of=None, slots=FIVE, config_epoch=0),
        "has not heard yet",
    ),
    "a replica tells of slots": (m.but(W, "1-1", slots=FIVE, config_epoch=0), None),
}


@pytest.mark.parametrize(("moment", "word"), EPOCHS.values(), ids=EPOCHS)
def test_no_slot_changes_hands_before_all_owners_have_epochs_of_their_own(
    moment: Observed, word: str | None
) -> None:
    reason = m.situation(moment).unsettled_epochs
    assert (reason is None) if word is None else (reason is not None and word in reason)


def test_stray_keys_are_counted_on_every_primary_with_keys_or_on_none() -> None:
    assert m.situation(W).to_count == ()
    one = m.but(W, "1-0", stranded=NotCounted())
    assert m.situation(one).to_count == ("db-0-0", "db-1-0", "db-2-0")
    assert names(m.situation(one).uncounted) == ["db-1-0"]
    assert m.situation(m.but(one, "1-0", keys=0)).to_count == ()
    assert m.situation(m.but(W, "1-1", stranded=NotCounted())).to_count == ()
    assert m.situation(m.but(one, "0-0", keys=0)).key_holders == ("db-1-0", "db-2-0")
    assert m.situation(m.but(W, "1-0", stranded=Counted(((5, 1),)))).to_count == ()


def test_what_a_server_thinks_of_another_is_found_by_its_id() -> None:
    found: Situation = m.situation(W)
    view = found.view(P0, P1.id)
    assert view is not None
    assert view.id == P1.id
    assert found.view(P0, m.STRANGER) is None
    assert P0.slots | P1.slots | P2.slots == ALL_SLOTS
