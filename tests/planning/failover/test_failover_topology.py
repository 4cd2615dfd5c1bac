"""One moment of a database in mode Failover, as tables: who leads, who is in sync, what waits."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.failover.test_failover import (
    BARE,
    LED,
    LOST,
    NOW,
    SENTINELS,
    WANTED,
    WHOLE,
    WORKLOAD,
    dead,
    made,
    of,
    sentinel,
    server,
)
from redis_operator.planning.advice import Wanted
from redis_operator.planning.failover.topology import FailoverTopology
from redis_operator.planning.identity import Role
from redis_operator.planning.observed import (
    Evidence,
    Led,
    Observed,
    Seen,
    SentinelSeen,
    Unreachable,
)
from redis_operator.planning.sentinels import SentinelFlag

ALONE = replace(WANTED, replicas=0)
FAILOVER = frozenset({SentinelFlag.FAILOVER})
S_DOWN = frozenset({SentinelFlag.S_DOWN})
SILENT = dead(0, Evidence.SILENT)


def of_moment(observed: Observed, wanted: Wanted = WANTED) -> FailoverTopology:
    return FailoverTopology(wanted, observed, NOW)


def watched(*names: int | None) -> tuple[SentinelSeen, ...]:
    return tuple(sentinel(ordinal, name) for ordinal, name in enumerate(names))


def away(ordinal: int, evidence: Evidence = Evidence.SILENT) -> Unreachable:
    return Unreachable(pod=sentinel(ordinal).pod, error="timed out", since=NOW, evidence=evidence)


# Sentinels


def test_sentinels_that_do_not_respond_may_be_alive_unless_it_is_known_that_they_ended() -> None:
    found = of_moment(replace(WHOLE, sentinels=(sentinel(0), away(1), away(2, Evidence.REFUSED))))
    assert [node.pod.name for node in found.watchers] == ["db-sentinel-0"]
    assert [node.pod.name for node in found.silent_watchers] == ["db-sentinel-1"]


@pytest.mark.parametrize(
    ("names", "sentinels", "named"),
    [
        ((0, 0, 0), 3, of(0)),
        ((0, 0, 1), 3, of(0)),
        ((1, 1), 3, of(1)),
        ((0, 1, 2), 3, ""),
        ((0, None, None), 3, ""),
        ((0, 0), 4, ""),
        ((None, None, None), 3, ""),
    ],
)
def test_a_primary_is_named_by_more_than_half_of_the_wanted_sentinels(
    names: tuple[int | None, ...], sentinels: int, named: str
) -> None:
    wanted = replace(WANTED, sentinels=sentinels)
    assert of_moment(replace(WHOLE, sentinels=watched(*names)), wanted).named == named


def test_the_sentinels_have_a_statefulset_of_their_own() -> None:
    assert of_moment(WHOLE).workloads == (WORKLOAD, SENTINELS)
    assert of_moment(replace(WHOLE, sentinel_workload=None)).workloads == (WORKLOAD,)


# Pods


def test_data_are_there_once_only_where_one_server_is_wanted_and_left() -> None:
    assert of_moment(made(server(0))).has_copies
    assert not of_moment(made(server(0)), ALONE).has_copies
    assert of_moment(made(server(0), server(1, of(0))), ALONE).has_copies


@pytest.mark.parametrize(
    ("workloads", "ordinal", "going"),
    [
        ((replace(WORKLOAD, pods=2),), 1, False),
        ((replace(WORKLOAD, pods=2),), 2, True),
        ((WORKLOAD,), 2, False),
        ((), 0, False),
        ((), 1, True),
    ],
)
def test_a_pod_goes_when_its_statefulset_has_no_place_for_it(
    workloads: Any, ordinal: int, *, going: bool
) -> None:
    """Before there is a StatefulSet it is the spec that says so."""
    found = of_moment(replace(WHOLE, workloads=workloads), ALONE)
    assert found.going(server(ordinal).pod) is going


def test_the_record_of_another_group_is_not_about_the_servers() -> None:
    assert of_moment(replace(WHOLE, led=(Led(1, "db-2"), *LED))).led == LED[0]
    assert of_moment(replace(WHOLE, led=(Led(1, "db-2"),))).led is None


# Roles

DEMOTED = server(0, "127.0.0.1:1", link={"link_up": False, "offset": 100})
HISTORY = {"id": "new", "id2": "history", "id2_offset": 50, "offset": 60}
PROMOTED = server(1, link=HISTORY)
RECORDED = ((0, "run-0"),)


def wrongly_demoted(first: Seen = DEMOTED, second: Any = PROMOTED, **fields: Any) -> Observed:
    return made(first, second, server(2, of(0)), **{"recorded": RECORDED, **fields})


def promoted(**link: Any) -> Seen:
    return server(1, link=HISTORY | link)


USURPED: dict[str, tuple[Observed, bool]] = {
    "demoted while another one has less": (wrongly_demoted(), True),
    "not the process that was recorded": (wrongly_demoted(recorded=((0, "run-9"),)), False),
    "recorded for another group": (wrongly_demoted(recorded=((1, "run-0"),)), False),
    "not named by the sentinels": (wrongly_demoted(sentinels=watched(1, 1, 1)), False),
    "leads": (wrongly_demoted(server(0)), False),
    "no other one leads": (wrongly_demoted(second=server(1, of(0))), False),
    "of another history": (wrongly_demoted(second=promoted(id2="other")), False),
    "has no more than the other one": (wrongly_demoted(second=promoted(id2_offset=100)), False),
    "has one byte more": (wrongly_demoted(second=promoted(id2_offset=99)), True),
    "follows the other one": (
        wrongly_demoted(replace(DEMOTED, replication=replace(DEMOTED.replication, follows=of(1)))),
        False,
    ),
    "loads": (wrongly_demoted(replace(DEMOTED, loading=True)), False),
}


@pytest.mark.parametrize("row", USURPED)
def test_a_server_that_was_demoted_by_hand_still_has_the_data(row: str) -> None:
    observed, expected = USURPED[row]
    found = of_moment(observed).wrongly_demoted
    assert (found is not None and found.pod.name == "db-0") is expected
    assert expected is (found is not None)


TWO = (server(0), server(1))
PRIMARIES: dict[str, tuple[Observed, str]] = {
    "named": (WHOLE, "db-0"),
    "named of two": (made(*TWO, sentinels=watched(1, 1, 1)), "db-1"),
    "named, and replica": (made(server(0, of(1)), server(1)), "db-1"),
    "named, and dead": (made(dead(0), server(1)), "db-1"),
    "named, and silent": (made(SILENT, server(1)), ""),
    "named, and loading": (made(server(0, loading=True), server(1)), "db-1"),
    "named, and demoted by hand": (wrongly_demoted(), ""),
    "none": (made(*LOST), ""),
    "none named, one": (made(server(1), sentinels=BARE), "db-1"),
    "none named, the only one is loading": (made(server(1, loading=True), sentinels=BARE), ""),
    "none named of two": (made(*TWO, sentinels=BARE), ""),
    "none named, one is followed": (made(*TWO, server(2, of(1)), sentinels=BARE), "db-1"),
    "none named, both are followed": (
        made(*TWO, server(2, of(1)), server(3, of(0)), sentinels=BARE),
        "",
    ),
}


@pytest.mark.parametrize("row", PRIMARIES)
def test_the_primary_is_known_or_it_is_not(row: str) -> None:
    observed, name = PRIMARIES[row]
    found = of_moment(observed)
    assert (found.primary.pod.name if found.primary else "") == name
    assert found.leader(0) == found.primary
    assert found.leader(1) is None
    assert found.leaders_answer is bool(name)


@pytest.mark.parametrize(
    ("observed", "node", "role"),
    [
        (WHOLE, server(0), Role.PRIMARY),
        (WHOLE, server(1, of(0)), Role.REPLICA),
        (made(*TWO, sentinels=watched(1, 1, 1)), server(0), Role.REPLICA),
        (made(*TWO, sentinels=BARE), server(0), None),
        (made(*LOST), LOST[0], Role.REPLICA),
        (made(*LOST, formed=False), LOST[0], None),
        (replace(WHOLE, formed=False), server(1, of(0)), Role.REPLICA),
    ],
    ids=[
        *("primary", "replica", "second primary", "unknown", "no primary"),
        *("new, no primary", "new, replica"),
    ],
)
def test_a_server_is_labelled_with_the_role_that_it_has(
    observed: Observed, node: Seen, role: Role | None
) -> None:
    assert of_moment(observed).role_of(node) is role


def test_a_primary_that_does_not_respond_loses_its_label_once_another_one_leads() -> None:
    replaced = of_moment(made(SILENT, server(1), sentinels=watched(1, 1, 1)))
    assert replaced.role_of_unreachable(SILENT) is Role.REPLICA
    assert replaced.role_of_unreachable(dead(1)) is None
    assert of_moment(made(SILENT, *LOST)).role_of_unreachable(SILENT) is None
    assert replaced.is_missed(SILENT)
    assert not replaced.is_missed(dead(1))


def test_while_no_server_leads_each_that_has_keys_holds_data() -> None:
    whole, headless = of_moment(WHOLE), of_moment(made(*LOST))
    assert whole.holds_data(server(0, keys=0))
    assert not whole.holds_data(server(1, of(0)))
    assert headless.holds_data(server(1, of(0), keys=1))
    assert not headless.holds_data(server(1, of(0), keys=0))
    assert whole.claims_data(server(0))
    assert not whole.claims_data(server(1, of(0)))


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (server(1, of(0)), None),
        (server(1), "db-1 is not a replica yet"),
        (server(1, of(2)), "db-1 does not follow db-0 yet"),
        (server(1, of(0), link={"link_up": False}), "db-1 is not in sync with db-0 yet"),
        (server(1, of(0), link={"syncing": True}), "db-1 is not in sync with db-0 yet"),
    ],
    ids=["in sync", "primary", "elsewhere", "link down", "copies"],
)
def test_a_replica_has_what_the_primary_has_while_its_link_is_up(
    node: Seen, reason: str | None
) -> None:
    found = of_moment(WHOLE)
    assert found.out_of_sync(node) == reason
    assert found.does_its_part(node) is (reason is None)
    assert found.unsynced(node, server(0)) == reason
    assert of_moment(made(*LOST)).out_of_sync(node) == "no server is the primary"


def test_the_primary_does_its_part_and_so_does_a_linked_server_that_loads() -> None:
    assert of_moment(WHOLE).does_its_part(server(0))
    assert not of_moment(WHOLE).does_its_part(server(0, loading=True))
    assert not of_moment(made(*LOST)).does_its_part(LOST[0])


MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"loading": True}, "db-1 is loading or being deleted"),
        ({"pod": {"deleting": True}}, "db-1 is loading or being deleted"),
        ({"link": {"offset": 100}}, ""),
        ({"link": {"offset": 99}}, f"db-1 is {MIB + 1} bytes behind db-0"),
    ],
    ids=["in sync", "loads", "goes", "a mebibyte behind", "one byte more"],
)
def test_a_replica_takes_over_only_when_it_is_not_far_behind(fields: Any, words: str) -> None:
    primary = server(0, link={"offset": MIB + 100})
    replica = server(1, of(0), **{"link": {"offset": MIB + 100}, **fields})
    found = of_moment(made(primary, replica)).unsynced(replica, primary)
    assert (words in (found or "")) if words else found is None


# State

FEWER = replace(WANTED, replicas=1)
GROUP: dict[str, tuple[Observed, Wanted, str]] = {
    "whole": (WHOLE, WANTED, ""),
    "a pod is missing": (made(server(0), server(1, of(0))), WANTED, "db-2 does not exist yet"),
    "silent": (
        made(server(0), server(1, of(0)), dead(2)),
        WANTED,
        "db-2 does not respond: refused",
    ),
    "waiting": (
        made(
            server(0),
            server(1, of(0)),
            replace(dead(2), pod=replace(dead(2).pod, waiting="ImagePullBackOff")),
        ),
        WANTED,
        "db-2 does not respond: ImagePullBackOff",
    ),
    "silent, and not wanted": (made(server(0), server(1, of(0)), dead(2)), FEWER, ""),
    "the primary is not wanted, and goes": (
        made(
            server(0, of(2)),
            server(1, of(2)),
            server(2, pod={"deleting": True}),
            sentinels=watched(2, 2, 2),
        ),
        FEWER,
        "db-2 is being deleted",
    ),
    "goes": (
        made(server(0), server(1, of(0)), server(2, of(0), pod={"deleting": True})),
        WANTED,
        "db-2 is being deleted",
    ),
    "loads": (
        made(server(0), server(1, of(0)), server(2, of(0), loading=True)),
        WANTED,
        "db-2 is still loading",
    ),
    "no primary": (made(*LOST, server(0, of(1))), WANTED, "no server is the primary"),
    "out of sync": (
        made(server(0), server(1, of(0)), server(2, of(1))),
        WANTED,
        "db-2 does not follow db-0 yet",
    ),
    "a replica is not ready": (
        made(server(0), server(1, of(0)), server(2, of(0), pod={"ready": False})),
        WANTED,
        "db-2 is not ready",
    ),
    "the primary is not ready": (
        made(server(0, pod={"ready": False}), server(1, of(0)), server(2, of(0))),
        WANTED,
        "db-0 is not ready",
    ),
}


@pytest.mark.parametrize("row", GROUP)
def test_servers_are_settled_or_the_reason_is_named(row: str) -> None:
    observed, wanted, words = GROUP[row]
    topology = of_moment(observed, wanted)
    found = topology.group_unsettled(0)
    assert (words in (found or "")) if words else found is None
    assert topology.unsettled() == (found or topology.unfinished)


def third(**fields: Any) -> tuple[Any, ...]:
    return (sentinel(0), sentinel(1), sentinel(2, **fields))


def tilted() -> SentinelSeen:
    found = sentinel(2)
    return replace(found, view=replace(found.view, tilt=True))


def going(ordinal: int) -> SentinelSeen:
    found = sentinel(ordinal)
    return replace(found, pod=replace(found.pod, deleting=True))


KNOWN = sentinel(2).view.monitored[0].sentinels
STUCK = sentinel(0, in_the_past=True)
WATCHING: dict[str, tuple[tuple[Any, ...], str]] = {
    "whole": (third(), ""),
    "silent": ((*third()[:2], away(2)), "db-sentinel-2 does not respond: timed out"),
    "goes": ((*third()[:2], going(2)), "db-sentinel-2 is being deleted"),
    "one is missing": (third()[:2], "2 of 3 sentinels exist"),
    "in TILT mode": ((*third()[:2], tilted()), "db-sentinel-2 is in TILT mode"),
    "monitors nothing": ((*third()[:2], sentinel(2, None)), "db-sentinel-2 monitors no primary"),
    "its clock was set back": (third(in_the_past=True), "db-sentinel-2 is inactive"),
    "names another server": (
        (*third()[:2], sentinel(2, 1)),
        "db-sentinel-2 does not name db-0 as the primary",
    ),
    "fails over": (third(flags=FAILOVER), "db-sentinel-2 is failing over"),
    "not connected": (third(flags=S_DOWN), "db-sentinel-2 has no connection to db-0"),
    "knows one of two": (third(sentinels=KNOWN[:1]), "db-sentinel-2 has not heard of all"),
    "knows one of two, and the other says nothing": (
        (STUCK, sentinel(1), sentinel(2, sentinels=KNOWN[:1])),
        "db-sentinel-0 is inactive",
    ),
}


@pytest.mark.parametrize("row", WATCHING)
def test_sentinels_are_settled_or_the_reason_is_named(row: str) -> None:
    sentinels, words = WATCHING[row]
    found = of_moment(replace(WHOLE, sentinels=sentinels)).sentinels_unsettled()
    assert (words in (found or "")) if words else found is None


def test_sentinels_that_are_left_out_hold_nothing_up() -> None:
    topology = of_moment(replace(WHOLE, sentinels=(*third()[:2], away(2))))
    assert topology.others_unsettled((away(2),)) == "2 of 3 sentinels exist"
    stuck = of_moment(replace(WHOLE, sentinels=(STUCK, sentinel(1), sentinel(2))))
    assert stuck.others_unsettled((STUCK,)) is None


def test_a_sentinel_that_says_nothing_is_not_waited_for_by_the_others() -> None:
    silent = of_moment(
        replace(WHOLE, sentinels=(STUCK, sentinel(1), third(sentinels=KNOWN[1:])[2]))
    )
    assert silent.watcher_unsettled(silent.watchers[2]) is None
    itself = replace(STUCK.view.monitored[0], sentinels=KNOWN[1:], in_the_past=False)
    alone = replace(STUCK, view=replace(STUCK.view, monitored=(itself,)))
    heard = of_moment(replace(WHOLE, sentinels=(alone, sentinel(1), sentinel(2))))
    assert "has not heard of all" in (heard.watcher_unsettled(alone) or "")


def test_replicas_that_a_sentinel_has_not_heard_of_are_those_in_sync() -> None:
    behind = server(2, of(0), link={"link_up": False})
    found = of_moment(made(server(0), server(1, of(0)), behind))
    assert [n.pod.name for n in found.unheard_by(sentinel(0, replicas=()))] == ["db-1"]
    assert [n.pod.name for n in found.unheard_by(sentinel(0, None))] == ["db-1"]
    assert found.unheard_by(sentinel(0)) == []


def test_what_is_not_served_is_told() -> None:
    assert of_moment(WHOLE).unserved == ""
    assert of_moment(made(*LOST)).unserved == "no primary accepts writes"
    both = of_moment(made(*TWO, sentinels=BARE)).unserved
    assert both.startswith("db-0, db-1 are all primaries")
    silent = made(SILENT, server(1))
    assert of_moment(silent).unserved == "no primary accepts writes"
