"""What a status says of pods, shards, versions, operations and wishes."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from redis_operator.api import status as api
from redis_operator.api.status import Operation, RedisStatus
from redis_operator.planning.actions import ScaleWorkload
from redis_operator.planning.advice import Plan, PlanPhase, Wanted
from redis_operator.planning.observed import Evidence, Node, Observed, Seen, Unreachable, Volume
from redis_operator.planning.reporting.announcements import announcements
from redis_operator.planning.reporting.context import Context
from redis_operator.planning.reporting.degradations import Degradation
from redis_operator.planning.reporting.status import status
from redis_testing.cluster.database import SimulatedDatabase
from support.situations import WANTED, new_database, whole_database

from .test_status_at_rest import WANTED as AT_REST
from .test_status_at_rest import whole

_NOW = datetime(2030, 1, 1, tzinfo=UTC).timestamp()


def told(
    wanted: Wanted,
    observed: Observed,
    advice: Plan | None = None,
    previous: RedisStatus | None = None,
    *,
    now: str = "2030-01-01T00:00:00Z",
    protected: bool = False,
    auth: Degradation | None = None,
) -> RedisStatus:
    context = Context(
        previous=previous or RedisStatus(), generation=1, now=now, protected=protected, auth=auth
    )
    return status(wanted, observed, advice or Plan(), context)


def reported(database: SimulatedDatabase, previous: RedisStatus | None = None) -> RedisStatus:
    return told(database.wanted, database.observe(), database.plan(), previous)


def condition(found: RedisStatus, kind: str) -> tuple[str, str, str]:
    return next((c.status, c.reason, c.message) for c in found.conditions if c.type == kind)


def test_each_pod_is_listed_with_its_role_place_and_load() -> None:
    database = whole_database()
    found = {pod.name: pod for pod in reported(database).pods}
    assert sorted(found) == [f"db-{shard}-{ordinal}" for shard in range(3) for ordinal in (0, 1)]
    primary, replica = found["db-0-0"], found["db-0-1"]
    assert (primary.role, replica.role) == ("primary", "replica")
    assert primary.ready
    assert replica.ready
    assert primary.address
    assert primary.engine == "valkey"
    assert primary.version == "8.1.4"
    assert (primary.node, primary.zone, primary.restarts) == ("node-0", "zone-0", 0)


def test_a_pod_that_does_not_answer_is_listed_with_the_reason() -> None:
    database = whole_database()
    database.world.kill("db-1-1")
    [lost] = [pod for pod in reported(database).pods if pod.name == "db-1-1"]
    assert (lost.role, lost.ready) == ("", False)
    assert lost.reason


def test_pods_and_shards_are_counted() -> None:
    database = whole_database()
    found = reported(database)
    assert (found.ready_pods, found.pod_count) == (6, 6)
    assert (found.ready_shards, found.shard_count) == (3, 3)
    database.world.kill("db-1-1")
    found = reported(database)
    assert (found.ready_pods, found.pod_count, found.ready_shards) == (5, 6, 2)


def test_engine_and_versions_say_what_runs_and_where_it_goes() -> None:
    database = whole_database(replace(WANTED, version="9.1"))
    for server in database.servers:
        server.version = "9.1.2"
    database.server(0, 1).version = "9.0.4"
    found = reported(database)
    assert (found.engine, found.version, found.target_version) == ("valkey", "9.0.4", "9.1")


def test_a_thousand_pods_are_counted_and_not_listed() -> None:
    nodes = [
        replace(node, pod=replace(node.pod, name=f"{node.pod.name}{n}"))
        for n in range(70)
        for node in whole().nodes
    ]
    assert len(nodes) > 400
    assert told(AT_REST, Observed(nodes=tuple(nodes), formed=True)).pods == ()


@pytest.mark.parametrize("keys", [960, 1000, 1040])
def test_keys_that_come_and_go_are_not_written_each_time(keys: int) -> None:
    def counted(number: int) -> Observed:
        seen = tuple(replace(node, keys=number) for node in whole().seen)
        return replace(whole(), nodes=seen)

    first = told(AT_REST, counted(1000))
    assert [pod.keys for pod in first.pods] == [1000] * 6
    assert told(AT_REST, counted(keys), previous=first) == first
    assert told(AT_REST, counted(1200), previous=first).pods[0].keys == 1200


@pytest.mark.parametrize("keys", range(11))
def test_a_few_keys_that_come_and_go_are_not_written_each_time_either(keys: int) -> None:
    def counted(number: int) -> Observed:
        seen = tuple(replace(node, keys=number) for node in whole().seen)
        return replace(whole(), nodes=seen)

    first = told(AT_REST, counted(0))
    assert told(AT_REST, counted(keys), previous=first) == first
    assert told(AT_REST, counted(25), previous=first).pods[0].keys == 25


def test_the_keys_of_a_server_that_restarted_are_told_as_they_are() -> None:
    """Also when it lost, or got back, no more than a few."""

    def counted(number: int, restarts: int) -> Observed:
        first, *others = whole().seen
        pod = replace(first.pod, restarts=restarts)
        return replace(whole(), nodes=(replace(first, pod=pod, keys=number), *others))

    before = told(AT_REST, counted(8, 0))
    assert before.pods[0].keys == 8
    assert told(AT_REST, counted(0, 1), previous=before).pods[0].keys == 0
    assert told(AT_REST, counted(7, 1), previous=before).pods[0].keys == 7
    first, *others = counted(8, 0).nodes
    away = Unreachable(first.pod, "no answer", _NOW)
    gone = told(AT_REST, replace(whole(), nodes=(away, *others)), previous=before)
    back = told(AT_REST, counted(8, 0), previous=gone)
    assert back.pods[0].keys == 8


def test_an_operation_is_recorded_from_its_beginning_to_its_end() -> None:
    database = new_database()
    begun = reported(database)
    assert begun.last_operation is not None
    assert begun.last_operation.type == "Creating"
    assert begun.last_operation.message
    assert not begun.last_operation.end_time
    ended = told(AT_REST, whole(), previous=begun, now="2030-01-01T00:05:00Z")
    assert ended.last_operation == Operation(
        type="Creating",
        start_time="2030-01-01T00:00:00Z",
        end_time="2030-01-01T00:05:00Z",
        result="Succeeded",
        message=begun.last_operation.message,
    )
    later = told(AT_REST, whole(), previous=ended, now="2030-01-01T01:00:00Z")
    assert later.last_operation == ended.last_operation


def test_another_operation_takes_the_place_of_the_one_before() -> None:
    scaling = Plan(rule="grow", phase=PlanPhase.SCALING, why="a shard more", blocked=("waiting",))
    first = told(AT_REST, whole(), scaling)
    healing = Plan(rule="follow", phase=PlanPhase.HEALING, why="a replica is lost", blocked=("so",))
    second = told(AT_REST, whole(), healing, first)
    assert second.last_operation is not None
    assert (second.last_operation.type, second.last_operation.message) == (
        "Healing",
        "a replica is lost",
    )


def test_a_pause_is_a_condition_of_its_own_and_no_warning() -> None:
    at_work = told(AT_REST, whole())
    assert condition(at_work, "Paused")[:2] == ("False", "NotPaused")
    paused = told(replace(AT_REST, paused=True), whole(), previous=at_work)
    assert condition(paused, "Paused")[:2] == ("True", "Paused")
    news = announcements(at_work, paused)
    assert [(n.reason, n.warning) for n in news] == [("Paused", False)]
    held = told(replace(AT_REST, update_paused=True), whole(), previous=at_work)
    assert condition(held, "Paused")[:2] == ("True", "UpdatePaused")


def test_passwords_that_a_person_changes_are_no_warning_and_a_secret_that_is_wrong_is() -> None:
    at_work = told(AT_REST, whole())
    for reason, warning in (("Rotating", False), ("AuthSecret", True)):
        after = told(AT_REST, whole(), previous=at_work, auth=Degradation(reason, "so"))
        news = {n.reason: n.warning for n in announcements(at_work, after)}
        assert news[reason] is warning


def test_a_database_that_sleeps_says_so_and_one_that_wakes_too() -> None:
    awake = told(AT_REST, whole())
    assert condition(awake, "Hibernated")[:2] == ("False", "Running")
    wanted = replace(AT_REST, hibernate=True)
    falling = told(wanted, whole(), previous=awake)
    assert condition(falling, "Hibernated")[:2] == ("False", "Hibernating")
    asleep = told(wanted, Observed(formed=True), Plan(phase=PlanPhase.HIBERNATED), previous=falling)
    assert condition(asleep, "Hibernated")[:2] == ("True", "Hibernated")
    assert not [n for n in announcements(falling, asleep) if n.warning and n.reason == "Hibernated"]
    woken = announcements(asleep, told(AT_REST, whole(), previous=asleep))
    assert ("Running", False) in [(n.reason, n.warning) for n in woken]


_SCALE = ScaleWorkload(shard=0, uid="w", from_pods=2, to_pods=0)


def test_nothing_is_wrong_with_a_database_that_goes_to_sleep() -> None:
    """It takes as long as its last pod, and each look tells what it waits for."""
    awake = told(AT_REST, whole())
    wanted = replace(AT_REST, hibernate=True)
    ending = Plan(phase=PlanPhase.HIBERNATED, why="pods end", stages=((_SCALE,),))
    begun = told(wanted, whole(), ending, awake)
    nodes = tuple(
        Unreachable(replace(node.pod, deleting=True), "connection refused", _NOW - 300)
        for node in whole().nodes
    )
    waits = Plan(rule="hibernate", blocked=("6 pods are still ending",), phase=PlanPhase.HIBERNATED)
    falling = told(wanted, replace(whole(), nodes=nodes), waits, begun)
    asleep = told(wanted, Observed(formed=True), Plan(phase=PlanPhase.HIBERNATED), falling)
    for found in (begun, falling, asleep):
        assert condition(found, "Degraded")[0] == "False"
        assert all(c.message for c in found.conditions)
    assert condition(falling, "Progressing")[0] == "True"
    assert condition(falling, "Available")[:2] == ("False", "Hibernated")
    assert falling.last_operation is not None
    assert not falling.last_operation.end_time
    assert asleep.last_operation is not None
    assert asleep.last_operation.result == "Succeeded"
    steps = [awake, begun, falling, asleep]
    news = [n for pair in itertools.pairwise(steps) for n in announcements(*pair)]
    assert not [n for n in news if n.warning]
    assert [n.reason for n in news].count("Hibernated") == 1, news


def test_volumes_are_resized_when_they_have_the_size() -> None:
    def volume(name: str, capacity: int) -> Volume:
        return Volume(name, name, name, requested=2**30, capacity=capacity, expandable=True)

    assert "StorageResized" not in {c.type for c in told(AT_REST, whole()).conditions}
    wanted = replace(AT_REST, volume_size=2**30)
    small = replace(whole(), volumes=(volume("a", 2**29), volume("b", 2**30)))
    found = told(wanted, small)
    assert condition(found, "StorageResized")[:2] == ("False", "Resizing")
    assert "1 of 2 volumes" in condition(found, "StorageResized")[2]
    new = replace(whole(), volumes=(volume("a", 0),))
    assert condition(told(wanted, new), "StorageResized")[:2] == ("True", "Resized")
    grown = replace(whole(), volumes=(volume("a", 2**30), volume("b", 2**30)))
    assert condition(told(wanted, grown), "StorageResized")[:2] == ("True", "Resized")


def test_a_deletion_that_is_held_is_told_with_the_way_out() -> None:
    before = told(AT_REST, whole())
    held = told(AT_REST, whole(), previous=before, protected=True)
    state, reason, message = condition(held, "Deleting")
    assert (state, reason) == ("False", "DeletionProtected")
    assert "set it to false" in message
    assert [n.reason for n in announcements(before, held)] == ["DeletionProtected"]


def test_a_patch_level_with_known_faults_is_named_and_stops_nothing() -> None:
    def running(version: str) -> Observed:
        seen = tuple(replace(node, version=version) for node in whole().seen)
        return replace(whole(), nodes=seen)

    wanted = replace(AT_REST, version="8.1", minimum_patch="8.1.1")
    before = told(wanted, running("8.1.1"))
    assert condition(before, "VersionSupported")[:2] == ("True", "Supported")
    found = told(wanted, running("8.1.0"), previous=before)
    state, reason, message = condition(found, "VersionSupported")
    assert (state, reason) == ("False", "BelowMinimumPatch")
    assert "cache-0-0" in message
    assert "8.1.1" in message
    assert condition(found, "Ready")[0] == "True"
    news = announcements(before, found)
    assert [(n.reason, n.warning) for n in news] == [("BelowMinimumPatch", True)]
    assert condition(told(wanted, running("8.0.9")), "VersionSupported")[0] == "True"


def test_a_version_that_is_given_up_is_reported() -> None:
    found = told(replace(AT_REST, version="7.2", deprecated=True), whole())
    assert condition(found, "VersionSupported")[:2] == ("False", "Deprecated")


@pytest.mark.parametrize("phase", [api.Phase.CREATING, api.Phase.UPDATING, api.Phase.SCALING])
def test_a_change_is_not_over_and_nothing_is_wrong_while_its_last_pod_becomes_ready(
    phase: api.Phase,
) -> None:
    """Readiness is asked for every few seconds: until then a warning would be a false alarm."""
    nodes = list(whole().seen)
    nodes[1] = replace(nodes[1], pod=replace(nodes[1].pod, ready=False), started_at=_NOW - 3)
    observed = replace(whole(), nodes=tuple(nodes))
    before = replace(told(AT_REST, whole()), phase=phase)
    waiting = Plan(rule="wait", blocked=("cache-0-1 is not ready",), phase=PlanPhase.HEALING)
    found = told(AT_REST, observed, waiting, before)
    assert found.phase is phase
    assert condition(found, "Degraded")[0] == "False"
    assert not [news for news in announcements(before, found) if news.warning]
    nodes[1] = replace(nodes[1], started_at=_NOW - 300)
    late = replace(whole(), nodes=tuple(nodes))
    found = told(AT_REST, late, waiting, before)
    assert condition(found, "Degraded")[0] == "True"


def _replaced(**changes: object) -> Observed:
    """Return a whole database one of whose replicas is being replaced."""
    nodes: list[Node] = list(whole().nodes)
    pod = replace(nodes[1].pod, since=_NOW - 3, ready=False)
    gone = Unreachable(pod, "connection refused", since=_NOW - 2, evidence=Evidence.TERMINATED)
    nodes[1] = replace(gone, **changes)
    return replace(whole(), nodes=tuple(nodes))


_ROLLING = Plan(rule="roll", blocked=("3 pods are of an old revision",), phase=PlanPhase.UPDATING)
_LAST = Plan(rule="wait", blocked=("cache-0-1 does not respond",), phase=PlanPhase.HEALING)


@pytest.mark.parametrize("advice", [_ROLLING, _LAST], ids=["in the middle", "the last pod"])
@pytest.mark.parametrize("deleting", [True, False])
def test_a_pod_that_is_replaced_by_a_change_is_no_alarm(advice: Plan, deleting: bool) -> None:
    before = told(AT_REST, whole(), _ROLLING, told(AT_REST, whole()))
    pod = _replaced().nodes[1].pod
    pod = replace(pod, deleting=True, since=_NOW - 9000) if deleting else pod
    found = told(AT_REST, _replaced(pod=pod), advice, before)
    assert condition(found, "Degraded")[0] == "False"
    assert condition(found, "Ready")[0] == "False"
    assert found.last_operation == before.last_operation
    assert found.phase is api.Phase.UPDATING
    assert not announcements(before, found)


@pytest.mark.parametrize(
    "changes",
    [
        {"since": _NOW - 300},
        {"pod": replace(_replaced().nodes[1].pod, since=_NOW - 300)},
        {"pod": replace(_replaced().nodes[1].pod, waiting="ErrImagePull: no such image")},
        {
            "pod": replace(
                _replaced().nodes[1].pod, since=_NOW - 15, waiting="Unschedulable: no node fits"
            )
        },
    ],
    ids=["for long", "by itself", "without an image", "without a node"],
)
@pytest.mark.parametrize("advice", [_ROLLING, _LAST], ids=["in the middle", "the last pod"])
def test_a_pod_that_does_not_come_back_from_a_change_is_told_of(
    advice: Plan, changes: dict[str, object]
) -> None:
    before = told(AT_REST, whole(), _ROLLING, told(AT_REST, whole()))
    found = told(AT_REST, _replaced(**changes), advice, before)
    assert condition(found, "Degraded")[:2] == ("True", "Unreachable")


def test_an_owner_of_slots_that_goes_during_a_change_is_an_outage() -> None:
    before = told(AT_REST, whole(), _ROLLING, told(AT_REST, whole()))
    owner, *others = whole().nodes
    assert isinstance(owner, Seen)
    pod = replace(owner.pod, since=_NOW - 3)
    gone = Unreachable(pod, "connection refused", _NOW - 2, Evidence.TERMINATED, last_id=owner.id)
    found = told(AT_REST, replace(whole(), nodes=(gone, *others)), _LAST, before)
    assert condition(found, "Degraded")[0] == "True"
    assert condition(found, "Available")[0] == "False"
