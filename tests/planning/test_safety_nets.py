"""No plan starves the rules after it, goes on without effect, or undoes what another one did."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from redis_operator.api.redis import Mode
from redis_operator.api.status import RedisStatus
from redis_operator.planning.actions import DeletePod, LabelRole
from redis_operator.planning.advice import Plan, PlanPhase
from redis_operator.planning.at import at
from redis_operator.planning.cluster.actions import Failover, ResetEmptyNode
from redis_operator.planning.observed import Observed, PodPhase
from redis_operator.planning.plan import plan
from redis_operator.planning.repeats import Attempt, after_attempt, essence, still_failing
from redis_operator.planning.reporting.announcements import announcements
from redis_operator.planning.reporting.context import Context
from redis_operator.planning.reporting.status import status
from redis_testing.cluster.database import SimulatedDatabase
from support.histories import draw_some
from support.situations import WANTED, assert_serves_all, whole_database

rows = import_module("redis_operator.planning.plan")
LATER = 1e6
SPREAD = replace(WANTED, spread_primaries=True)


def _flagged(observed: Observed, name: str, flags: dict[str, Any]) -> Observed:
    nodes = tuple(
        replace(n, pod=replace(n.pod, **flags)) if n.pod.name == name else n for n in observed.nodes
    )
    return replace(observed, nodes=nodes)


FLAGS: dict[str, dict[str, Any]] = {
    "cordoned": {"draining": True},
    "unlabelled": {"role_label": ""},
    "not ready": {"ready": False},
    "pending": {"phase": PodPhase.PENDING, "waiting": "Unschedulable: no node fits"},
    "being deleted": {"deleting": True},
    "killed for memory": {"killed_for_memory_at": 1.0, "restarts": 9},
    "without a zone": {"zone": ""},
}


FLAGGED = [*((flag, "db-0-0") for flag in FLAGS), ("cordoned", "db-0-1")]


@pytest.mark.slow
@pytest.mark.parametrize(("flag", "pod"), draw_some(FLAGGED, 3, name="flags"))
def test_ten_minutes_at_rest_see_one_planned_failover_a_shard_at_most(flag: str, pod: str) -> None:
    """CL-34: a cordoned node must not send primaries there and back."""
    database = whole_database(SPREAD)
    failovers: Counter[str] = Counter()
    for _ in range(120):
        observed = _flagged(database.observe(), pod, FLAGS[flag])
        advice = plan(SPREAD, observed, database.world.now)
        for step in advice.steps:
            if isinstance(step, Failover):
                failovers[step.node.pod.rsplit("-", 1)[0]] += 1
            if isinstance(step, Failover | LabelRole):
                database.execute(step)
        assert not any("this is a bug" in reason for reason in advice.blocked), advice
        database.advance(5.0)
    assert all(times <= 1 for times in failovers.values()), failovers


def test_one_node_cordoned_for_ten_minutes_sees_no_primary_go_and_come_back() -> None:
    """CL-34"""
    database = whole_database(SPREAD)
    failovers: Counter[str] = Counter()
    for _ in range(120):
        observed = database.observe()
        for name in [n.pod.name for n in observed.nodes if n.pod.node == "node-0"]:
            observed = _flagged(observed, name, {"draining": True})
        advice = plan(SPREAD, observed, database.world.now)
        for step in advice.steps:
            if isinstance(step, Failover):
                failovers[step.node.pod.rsplit("-", 1)[0]] += 1
                database.execute(step)
        database.advance(5.0)
    assert sum(failovers.values()) > 0
    assert all(times == 1 for times in failovers.values()), failovers


def test_no_replicas_and_a_new_template_in_one_edit_converge() -> None:
    """CL-35"""
    database = whole_database()
    database.apply_spec(replace(WANTED, replicas=0), revision="2")
    for _ in range(120):
        advice = database.plan()
        assert not any("this is a bug" in reason for reason in advice.blocked), advice
        for stage in advice.stages:
            for step in stage:
                database.execute(step)
        database.advance(0.5)
    assert database.plan().settled
    assert {pod.revision for pod in database.pods} == {"2"}
    assert sorted(pod.name for pod in database.pods) == ["db-0-0", "db-1-0", "db-2-0"]
    assert_serves_all(database)


def test_a_refused_plan_leaves_the_turn_to_the_rules_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What one rule gets wrong must not keep the others from their work."""
    database = whole_database()
    node = database.observe().seen[0]
    wrong = Plan(
        rule="duplicate_ids",
        why="wrong",
        stages=((ResetEmptyNode(node=at(node)),),),
        phase=PlanPhase.HEALING,
    )
    mode = rows.MODES[Mode.CLUSTER]
    changed = [
        replace(r, rule=lambda _: wrong) if r.name == "duplicate_ids" else r for r in mode.rules
    ]
    modes = {**rows.MODES, Mode.CLUSTER: replace(mode, rules=tuple(changed))}
    monkeypatch.setattr(rows, "MODES", modes)
    database.apply_spec(WANTED, revision="2")
    advice = database.plan()
    assert [type(step) for step in advice.steps] == [DeletePod]
    assert any("this is a bug" in reason and "duplicate_ids" in reason for reason in advice.blocked)


def _outdated() -> SimulatedDatabase:
    database = whole_database()
    database.apply_spec(WANTED, revision="2")
    return database


def test_steps_without_effect_are_blocked_after_five_times_and_tried_ever_more_rarely() -> None:
    database = _outdated()
    observed = database.observe()
    attempts: tuple[Attempt, ...] = ()
    tried: list[float] = []
    for now in range(600):
        advice = plan(WANTED, replace(observed, attempts=attempts), LATER + now)
        assert advice.phase is PlanPhase.UPDATING
        if advice.stages:
            tried.append(now)
            attempts = after_attempt(attempts, advice, LATER + now)
        else:
            assert "no effect" in advice.stalled
            assert advice.stalled in advice.blocked
            assert advice.again_after is not None
    gaps = [b - a for a, b in pairwise(tried)]
    assert gaps[:4] == [1, 1, 1, 1]
    assert gaps[4:] == sorted(gaps[4:])
    assert gaps[-1] > 60
    assert len(tried) < 15


def test_what_needs_a_moment_may_be_repeated_within_it() -> None:
    """As CLUSTER REPLICATE, which is refused until a handshake is over."""
    observed = _outdated().observe()
    attempts: tuple[Attempt, ...] = ()
    for tick in range(200):
        now = LATER + tick / 50
        advice = plan(WANTED, replace(observed, attempts=attempts), now)
        assert advice.stages
        attempts = after_attempt(attempts, advice, now, ("ERR Unknown node",))
    now = LATER + 4
    advice = plan(WANTED, replace(observed, attempts=attempts), now)
    attempts = after_attempt(attempts, advice, now, ("ERR Unknown node",))
    advice = plan(WANTED, replace(observed, attempts=attempts), now + 0.02)
    assert not advice.stages
    assert "no effect (ERR Unknown node)" in advice.stalled


def test_steps_that_keep_failing_are_tried_once_after_each_change() -> None:
    observed = _outdated().observe()
    attempts: tuple[Attempt, ...] = ()
    for now in range(7):
        advice = plan(WANTED, observed, LATER)
        attempts = after_attempt(attempts, advice, LATER + now, ("ERR",))
    kept = still_failing(attempts, LATER + 7)
    advice = plan(WANTED, replace(observed, attempts=kept), LATER + 8)
    assert advice.stages, "what changed may be what they need"
    assert advice.stalled
    kept = after_attempt(kept, advice, LATER + 8, ("ERR",))
    assert not plan(WANTED, replace(observed, attempts=kept), LATER + 8.5).stages
    assert still_failing(after_attempt(attempts, advice, LATER + 8), LATER + 9) == ()
    assert still_failing(attempts, LATER + 1000) == ()


def test_a_database_at_rest_is_the_same_in_every_observation() -> None:
    """Else no attempt would ever count as one without effect."""
    database = whole_database()
    database.count_strays_on = tuple(node.pod.name for node in database.observe().seen)
    counted = database.observe()
    database.count_strays_on = ()
    database.advance(0.7)
    later = database.observe()
    assert [n.started_at for n in later.seen] != [n.started_at for n in counted.seen]
    assert [n.stranded for n in later.seen] != [n.stranded for n in counted.seen]
    first = essence(counted)
    assert essence(later, first) == first


def test_a_problem_is_named_though_steps_have_no_effect() -> None:
    database = _outdated()
    observed = database.observe()
    attempts: tuple[Attempt, ...] = ()
    for now in range(5):
        advice = plan(WANTED, replace(observed, attempts=attempts), LATER + now)
        attempts = after_attempt(attempts, advice, LATER + now)
    refused = replace(observed.workloads[0], trouble="exceeded quota")
    observed = replace(observed, workloads=(refused, *observed.workloads[1:]), attempts=attempts)
    advice = plan(WANTED, observed, LATER + 4.2)
    context = Context(previous=RedisStatus(), generation=1, now="2030-01-01T00:00:00Z", binding="c")
    found = status(WANTED, observed, advice, context)
    degraded = next(c for c in found.conditions if c.type == "Degraded")
    assert degraded.reason == "PodsRefused"
    assert "exceeded quota" in degraded.message
    assert "no effect" in degraded.message


def test_other_steps_than_those_without_effect_are_not_held_back() -> None:
    database = _outdated()
    observed = database.observe()
    attempts: tuple[Attempt, ...] = ()
    for now in range(5):
        advice = plan(WANTED, replace(observed, attempts=attempts), LATER + now)
        attempts = after_attempt(attempts, advice, LATER + now)
    wanted = replace(WANTED, replicas=2)
    advice = plan(wanted, replace(observed, attempts=attempts), LATER + 5)
    assert advice.rule == "pods"
    assert advice.stages
    assert not advice.stalled


def test_a_plan_without_effect_is_announced_once() -> None:
    database = _outdated()
    observed = database.observe()
    attempts: tuple[Attempt, ...] = ()
    for now in range(5):
        advice = plan(WANTED, replace(observed, attempts=attempts), LATER + now)
        attempts = after_attempt(attempts, advice, LATER + now)
    before, reasons = RedisStatus(), []
    for now in (4.2, 4.5, 4.8):
        advice = plan(WANTED, replace(observed, attempts=attempts), LATER + now)
        context = Context(previous=before, generation=1, now="2030-01-01T00:00:00Z", binding="c")
        after = status(WANTED, observed, advice, context)
        reasons += [n.reason for n in announcements(before, after) if n.warning]
        before = after
    assert reasons.count("NoEffect") == 1
    degraded = next(c for c in before.conditions if c.type == "Degraded")
    assert (degraded.status, degraded.reason) == ("True", "NoEffect")
