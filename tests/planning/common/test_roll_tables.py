"""Pods of an old revision, and another persistence: what is done, and what is waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from planning import moments as m
from planning.rows import Row, check, sizes, told
from redis_operator.planning.actions import ScaleWorkload
from redis_operator.planning.advice import PlanPhase
from redis_operator.planning.cluster.leave import leave
from redis_operator.planning.clusters import OpenSlot, SlotState
from redis_operator.planning.common.configure import absent, accepted, configure, unpersisted
from redis_operator.planning.common.grow import grow
from redis_operator.planning.common.hibernate import hibernate
from redis_operator.planning.common.roll import roll
from redis_operator.planning.observed import Observed, Volume
from redis_operator.planning.plan import plan
from redis_operator.redis.slots import NO_SLOTS, SlotSet

W = m.whole()
P0, R0, P1, R1, P2, R2 = (m.server(W, pod) for pod in ("0-0", "0-1", "1-0", "1-1", "2-0", "2-1"))
FIVE = SlotSet([5])
OPEN = OpenSlot(slot=next(iter(P2.slots)), state=SlotState.MIGRATING, peer=P1.id)
MOVING = m.but(W, "2-0", open_slots=(OPEN,))


# Persistence that changes


@pytest.mark.parametrize(
    ("change", "word"),
    [
        pytest.param(lambda o: o, None, id="all have the files"),
        pytest.param(lambda o: m.silent(o, "1-1"), "does not respond", id="one is silent"),
        pytest.param(
            lambda o: m.but(o, "1-1", config=(("appendonly", "no"), ("save", ""))),
            "does not have appendonly yet",
            id="one has not been told",
        ),
        pytest.param(
            lambda o: m.but(o, "1-1", config=(("appendonly", "yes"),)),
            "does not have save yet",
            id="one was not asked",
        ),
        pytest.param(lambda o: m.but(o, "1-1", aof_written=False), "first append", id="one writes"),
        pytest.param(lambda o: m.without(o, "1-1"), "db-1 has 1 pods", id="a pod is missing"),
        pytest.param(lambda o: sizes(o, 2, 2, 0), "db-2 has 2 pods", id="a shard sleeps"),
    ],
)
def test_servers_start_with_another_persistence_once_all_have_its_files(
    change: Callable[[Observed], Observed], word: str | None
) -> None:
    config = (("appendonly", "yes"), ("save", ""))
    moment = W
    for node in W.seen:
        moment = m.but(moment, node.pod.name[3:], config=config, aof_written=True)
    wanted = m.wanted(persistence="aof", config=config)
    reason = unpersisted(wanted, change(moment))
    assert (reason is None) if word is None else (reason is not None and word in reason), reason
    assert unpersisted(m.wanted(config=config), change(moment)) is None


# Pods of an old revision


def rolled(observed: Observed = W, *new: str) -> Observed:
    """Workloads have another revision; the pods `new` are of it."""
    moment = replace(
        observed, workloads=tuple(replace(w, revision="next") for w in observed.workloads)
    )
    for pod in new:
        moment = m.but(moment, pod, pod_revision="next")
    return moment


REPLICAS = ("0-1", "1-1", "2-1")
ROLL: dict[str, Row] = {
    "all are of the revision": (W, {}, ""),
    "a replica goes first": (rolled(), {}, "DeletePod 0-1"),
    "two shards at a time": (rolled(), {"rolling_shards": 2}, "DeletePod 0-1, DeletePod 1-1"),
    "then the next shard's": (rolled(W, "0-1"), {}, "DeletePod 1-1"),
    "then primaries hand over": (rolled(W, *REPLICAS), {}, "Failover 0-1"),
    "leaving ones are let be": (rolled(W, "0-0", "1-0", "2-0"), {"replicas": 0}, ""),
    "those that go are let be": (
        m.but(m.but(rolled(W, "0-0", "1-0", "2-0"), "0-1", pod_deleting=True), "1-1"),
        {},
        "blocked: is being deleted",
    ),
    "paused": (rolled(), {"update_paused": True}, "blocked: paused"),
    "while a slot moves": (rolled(MOVING), {}, "blocked: open slots"),
    "while two share an epoch": (
        rolled(m.but(W, "1-0", config_epoch=P2.config_epoch)),
        {},
        "blocked: share epoch",
    ),
    "while a file is written": (rolled(m.but(W, "0-1", saving=True)), {}, "DeletePod 1-1"),
    "a new pod is not ready": (
        m.but(rolled(W, "0-1"), "0-1", pod_ready=False),
        {},
        "blocked: is not ready",
    ),
    "a new pod does not run": (m.dead(rolled(W, "0-1"), "0-1"), {}, "blocked: does not start"),
    "an old one does not run": (m.dead(rolled(), "1-1"), {}, "DeletePod 1-1"),
    "an old one does not run, nor a new one": (
        m.dead(m.dead(rolled(W, "0-1"), "0-1"), "1-1"),
        {},
        "blocked: does not start",
    ),
    "an old replica is not ready": (m.but(rolled(), "1-1", pod_ready=False), {}, "DeletePod 1-1"),
    "an old replica is not ready, and writes its append-only file": (
        m.but(rolled(), "1-1", pod_ready=False, saving=True),
        {},
        "blocked: is not ready",
    ),
    "an old replica is not ready, and its primary is silent": (
        m.silent(m.but(rolled(), "1-1", pod_ready=False, keys=5), "1-0"),
        {},
        "blocked: has no primary that responds",
    ),
    "an old replica is not ready, and its primary is dead": (
        m.dead(m.but(rolled(W, "1-0"), "1-1", pod_ready=False, keys=5), "1-0"),
        {},
        "blocked: does not start",
    ),
    "an old replica without keys is not ready, and its primary is silent": (
        m.silent(m.but(rolled(), "1-1", pod_ready=False, keys=0), "1-0"),
        {},
        "DeletePod 1-1",
    ),
    "an old primary is not ready": (
        m.but(rolled(), "1-0", pod_ready=False),
        {"rolling_shards": 1},
        "blocked: is not ready",
    ),
    "a server has just come up": (
        m.but(rolled(W, "0-0", "1-0", "1-1", "2-0", "2-1"), "0-1", started_at=m.NOW - 0.9),
        {},
        "blocked: has just started",
    ),
    "a second ago": (
        m.but(rolled(W, "0-0", "1-0", "1-1", "2-0", "2-1"), "0-1", started_at=m.NOW - 1.0),
        {},
        "DeletePod 0-1",
    ),
    "without replicas and storage": (
        rolled(m.without(sizes(W, 1, 1, 1), *REPLICAS)),
        {"replicas": 0, "persistent": False},
        "blocked: a restart loses all data",
    ),
    "without replicas, with storage": (
        rolled(m.without(sizes(W, 1, 1, 1), *REPLICAS)),
        {"replicas": 0},
        "DeletePod 0-0",
    ),
}


@pytest.mark.parametrize("row", ROLL.values(), ids=ROLL)
def test_outdated_pods_are_replaced_one_disruption_at_a_time(row: Row) -> None:
    check(roll, row)


# Volumes and sleep


def volumes(*given: dict[str, Any]) -> Observed:
    base = Volume("data-db-0-0", "db-0-0", "u", 10, 10, expandable=True)
    return replace(W, volumes=tuple(replace(base, name=f"v{n}", **g) for n, g in enumerate(given)))


BIG = {"requested": 20, "capacity": 20}
GROW: dict[str, Row] = {
    "large enough": (volumes({}, {}), {"volume_size": 10}, ""),
    "too small": (volumes(BIG, {}), {"volume_size": 20}, "GrowVolume v1"),
    "one after the other": (volumes({}, {}), {"volume_size": 20}, "GrowVolume v0"),
    "goes": (volumes({"deleting": True}), {"volume_size": 20}, ""),
    "the last is being resized": (
        volumes({"requested": 20}, {}),
        {"volume_size": 20},
        "blocked: is being resized",
    ),
    "the last needs a restart": (
        volumes({"requested": 20, "needs_restart": True}, {}),
        {"volume_size": 20},
        "GrowVolume v1",
    ),
    "all asked for, one needs a restart": (
        volumes({"requested": 20, "needs_restart": True}, BIG),
        {"volume_size": 20},
        "blocked: recreate them",
    ),
    "has its size, and would need a restart": (
        volumes({**BIG, "needs_restart": True}),
        {"volume_size": 20},
        "",
    ),
    "its class does not allow it": (
        volumes({"expandable": False}),
        {"volume_size": 20},
        "blocked: ExpansionUnsupported",
    ),
    "nobody knows whether it does": (
        volumes({"expandable": None}),
        {"volume_size": 20},
        "GrowVolume v0",
    ),
    "no size is wanted": (volumes({}), {}, ""),
}


@pytest.mark.parametrize("row", GROW.values(), ids=GROW)
def test_volumes_grow_one_after_the_other_where_that_is_allowed(row: Row) -> None:
    check(grow, row)


SLEEP = ", ".join(f"ScaleWorkload {shard}: 2-0" for shard in range(3))
HIBERNATE: dict[str, Row] = {
    "not asked": (W, {}, ""),
    "asked": (W, {"hibernate": True}, SLEEP),
    "while a slot moves": (MOVING, {"hibernate": True}, "blocked: waits"),
    "while a file is written": (
        m.but(W, "0-1", saving=True),
        {"hibernate": True},
        "blocked: waits",
    ),
    "without storage": (W, {"hibernate": True, "persistent": False}, "blocked: would lose all"),
    "without storage, accepted": (
        W,
        {"hibernate": True, "persistent": False, "restart_may_lose": True},
        SLEEP,
    ),
    "one sleeps already": (
        sizes(W, 0, 2, 2),
        {"hibernate": True},
        "ScaleWorkload 1: 2-0, ScaleWorkload 2: 2-0",
    ),
    "all are told": (sizes(W, 0, 0, 0), {"hibernate": True}, "blocked: still ending"),
    "all sleep": (replace(sizes(W, 0, 0, 0), nodes=()), {"hibernate": True}, "nothing"),
}


@pytest.mark.parametrize("row", HIBERNATE.values(), ids=HIBERNATE)
def test_all_pods_end_at_once_when_nothing_is_lost_by_it(row: Row) -> None:
    check(hibernate, row)


def test_a_hibernation_that_waits_half_way_starts_no_pod_again() -> None:
    asleep = replace(sizes(W, 0, 2, 2), nodes=tuple(n for n in W.nodes if n.pod.shard))
    for pod in ("0-0", "0-1"):
        asleep = m.viewed(asleep, m.server(W, pod).id, connected=False)
    waiting = m.but(asleep, "1-1", saving=True)
    for volatile in (False, True):
        found = plan(m.wanted(hibernate=True, volatile=volatile), waiting, m.NOW)
        assert not any(isinstance(step, ScaleWorkload) for step in found.steps)
        assert any("hibernation waits: db-1-1" in reason for reason in found.blocked)
    assert plan(m.wanted(), asleep, m.NOW).rule == "pods"
    assert plan(m.wanted(hibernate=True), asleep, m.NOW).rule == "hibernate"


# Settings


def having(observed: Observed, *pods: str, **settings: str) -> Observed:
    """The same, but servers (all, or those of these pods) have these settings."""
    found = tuple((name.replace("_", "-"), value) for name, value in settings.items())
    for node in observed.seen:
        if not pods or node.pod.name[3:] in pods:
            observed = m.but(observed, node.pod.name[3:], config=found)
    return observed


LRU = (("maxmemory-policy", "allkeys-lru"),)
OLD = having(W, maxmemory_policy="noeviction")
NEW = having(W, maxmemory_policy="allkeys-lru")


def test_a_setting_is_tried_on_one_replica_before_all_others_get_it() -> None:
    advice = configure(m.situation(OLD, config=LRU))
    assert advice is not None
    first, rest = advice.stages
    assert [step.node.pod for step in first] == ["db-0-1"]  # type: ignore[union-attr]
    assert len(rest) == 5
    assert advice.phase is PlanPhase.UPDATING
    assert "on 6 servers" in advice.why
    assert configure(m.situation(NEW, config=LRU)) is None
    one = configure(m.situation(having(NEW, "1-0", maxmemory_policy="noeviction"), config=LRU))
    assert one is not None
    assert told(one) == "ConfigSet 1-0"
    assert len(one.stages) == 1


def test_a_new_database_keeps_its_short_timeouts_until_it_serves() -> None:
    empty = OLD
    for node in OLD.seen:
        empty = m.but(empty, node.pod.name[3:], keys=0)
    check(configure, (m.replicating(empty, "1-1", link_up=False), {"config": LRU}, "blocked: link"))
    check(configure, (m.replicating(empty, "1-1", syncing=True), {"config": LRU}, "blocked: link"))
    check(configure, (m.but(empty, "1-0", state_ok=False), {"config": LRU}, "blocked: serve"))
    advice = configure(m.situation(empty, config=LRU))
    assert advice is not None
    assert advice.phase is PlanPhase.CREATING
    full = configure(m.situation(m.replicating(OLD, "1-1", link_up=False), config=LRU))
    assert full is not None
    assert full.stages


def test_a_directive_that_a_person_wrote_and_a_server_does_not_have_is_told() -> None:
    lacking = having(NEW, "1-0", maxmemory="0")
    wanted = m.wanted(config=LRU, chosen=frozenset({"maxmemory-policy"}))
    (reason,) = absent(wanted, lacking)
    assert "db-1-0" in reason
    assert "remove spec.config.maxmemory-policy" in reason
    assert absent(replace(wanted, chosen=frozenset()), lacking) == ()
    assert absent(wanted, NEW) == ()
    assert absent(wanted, m.but(NEW, "1-0", config=())) == ()  # it was not asked


def test_so_much_is_known_to_be_taken_as_any_server_has() -> None:
    wanted = m.wanted(config=LRU)
    assert accepted(wanted, having(OLD, "1-1", maxmemory_policy="allkeys-lru")) == dict(LRU)
    assert accepted(wanted, OLD) == {}
    assert accepted(wanted, W) == {}


# Shards that leave


def leaving(**fields: Any) -> Observed:
    moment = W
    for pod in ("2-0", "2-1"):
        moment = m.but(moment, pod, slots=NO_SLOTS, keys=0, **fields)
    return moment


def test_a_shard_that_owns_nothing_is_forgotten_by_those_who_stay_and_goes() -> None:
    two = {"shards": 2}
    gone = told(leave(m.situation(leaving(), **two)))
    assert gone.endswith("DeleteWorkload 2: -")
    assert gone.count("Forget") == 8
    check(leave, (W, {}, ""))
    check(leave, (leaving(saving=True), two, "blocked: append-only"))
    check(leave, (m.silent(leaving(), "1-1", known=False), two, "blocked: may hold its data"))
    check(leave, (m.but(leaving(), "2-0", keys=3), two, "blocked"))
    check(leave, (m.but(leaving(), "2-0", slots=FIVE), two, "blocked"))
