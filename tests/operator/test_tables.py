"""Small decisions of the operator, each with the moments that tell it from a similar one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from kubecontroller.client.meta import ObjectMeta, OwnerReference
from kubecontroller.runtime.outcomes import Again
from redis_operator.api.redis import Mode, Redis, RedisSpec
from redis_operator.manifests.names import DATABASE_LABEL
from redis_operator.operator import pace
from redis_operator.operator.execute import StepOutcome
from redis_operator.operator.memory import Memories
from redis_operator.operator.objects.ownership import limitation, pods_to_adopt
from redis_operator.operator.servers.spellings import Spellings
from redis_operator.planning.actions import ConfigSet
from redis_operator.planning.advice import Plan
from redis_operator.planning.at import at
from redis_operator.planning.cluster.connect import PATIENT_TIMES
from redis_operator.planning.clusters import ClusterFacts, ClusterView, Introduction
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.observed import (
    Evidence,
    Observed,
    Pod,
    Seen,
    Spelling,
    Unreachable,
)

KEY = ("default", "db")
POD = Pod(name="db-0-0", uid="uid", shard=0, ordinal=0, ip="127.0.0.1")
WELL = Seen(pod=POD, id=NodeId("one"), role=Role.PRIMARY, view=ClusterView(state_ok=True))
ILL = replace(WELL, view=ClusterView(state_ok=False))
DOWN = Unreachable(pod=POD, error="refused", since=1.0, evidence=Evidence.REFUSED)
SET = ConfigSet(node=at(WELL), values=(("hz", "10"),))
DONE, REFUSED = StepOutcome(SET), StepOutcome(SET, "no")


@pytest.mark.parametrize(
    ("plan", "outcomes", "goes_on"),
    [
        pytest.param(Plan(), (), False, id="nothing to do"),
        pytest.param(Plan(), (DONE,), True, id="something was done"),
        pytest.param(Plan(), (DONE, REFUSED), False, id="something was refused"),
        pytest.param(Plan(count_strays_on=("db-0-0",)), (), True, id="keys are to be counted"),
        pytest.param(
            Plan(count_strays_on=("db-0-0",)), (REFUSED,), False, id="counted for a refusal"
        ),
        pytest.param(Plan(again_after=0.49), (), True, id="soon"),
        pytest.param(Plan(again_after=0.5), (), False, id="not so soon"),
        pytest.param(Plan(again_after=0.1), (REFUSED,), True, id="soon after a refusal"),
        pytest.param(Plan(again_after=7.0), (DONE,), True, id="done, and late besides"),
    ],
)
def test_a_pass_goes_on_while_looking_again_may_show_something(
    plan: Plan, outcomes: tuple[StepOutcome, ...], *, goes_on: bool
) -> None:
    assert pace.goes_on(plan, outcomes) is goes_on


def met(times: int) -> ClusterFacts:
    return ClusterFacts(introductions=(Introduction(NodeId("one"), NodeId("two"), times, 1.0),))


@pytest.mark.parametrize(
    ("plan", "observed", "outcomes", "again"),
    [
        pytest.param(Plan(), Observed((WELL,)), (), Again(10.0, pace.USUAL_PRIORITY), id="at rest"),
        pytest.param(Plan(again_after=3.0), Observed((WELL,)), (), Again(3.0), id="the plan asks"),
        pytest.param(
            Plan(again_after=30.0), Observed((WELL,)), (), Again(10.0), id="later than usual"
        ),
        pytest.param(Plan(stages=((SET,),)), Observed((WELL,)), (), Again(1.0), id="steps"),
        pytest.param(Plan(blocked=("why",)), Observed((WELL,)), (), Again(1.0), id="blocked"),
        pytest.param(Plan(), Observed((DOWN,)), (), Again(1.0), id="unreachable"),
        pytest.param(Plan(), Observed((WELL,)), (REFUSED,), Again(1.0), id="refused"),
        pytest.param(Plan(), Observed((WELL, ILL)), (), Again(0.1), id="one does not serve"),
        pytest.param(
            Plan(),
            Observed((ILL,), cluster=met(PATIENT_TIMES - 1)),
            (),
            Again(0.1),
            id="may hear soon",
        ),
        pytest.param(
            Plan(),
            Observed((ILL,), cluster=met(PATIENT_TIMES)),
            (),
            Again(10.0, pace.USUAL_PRIORITY),
            id="does not hear",
        ),
    ],
)
def test_a_database_is_looked_at_again_as_soon_as_it_is_worth_it(
    plan: Plan, observed: Observed, outcomes: tuple[StepOutcome, ...], again: Again
) -> None:
    assert pace.after(plan, observed, outcomes, interval=10.0) == again


@pytest.mark.parametrize(
    ("down_for", "seconds"), [(0.0, 0.1), (1.0, 0.1), (4.0, 0.4), (10.0, 1.0), (3600.0, 1.0)]
)
def test_a_server_that_does_not_serve_is_asked_less_often_the_longer_that_lasts(
    down_for: float, seconds: float
) -> None:
    again = pace.after(Plan(), Observed((ILL,)), (), interval=10.0, down_for=down_for)
    assert again.after == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("waited", "seconds"), [(0.0, 0.2), (0.4, 0.2), (1.0, 0.5), (2.0, 1.0), (3600.0, 1.0)]
)
def test_what_is_waited_for_is_looked_at_soon_and_then_less_often(
    waited: float, seconds: float
) -> None:
    plan = Plan(blocked=("why",))
    again = pace.after(plan, Observed((WELL,)), (), interval=10.0, waited=waited)
    assert again.after == pytest.approx(seconds)


def test_another_reason_to_wait_starts_the_time_again() -> None:
    now = 100.0
    memories = Memories(lambda: now)
    memories.attempted(KEY, Observed((WELL,)), Plan(blocked=("one",)))
    now = 103.0
    memories.attempted(KEY, Observed((WELL,)), Plan(blocked=("one",)))
    assert memories.waited(KEY) == 3.0
    memories.attempted(KEY, Observed((WELL,)), Plan(blocked=("another",)))
    assert memories.waited(KEY) == 0.0


def test_the_pauses_between_looks_that_give_nothing_grow_to_a_second_in_all() -> None:
    pauses = [pace.pause(idle) for idle in range(pace.IDLE_LOOKS)]
    assert pauses[0] == pace.SOON_SECONDS
    assert pauses == sorted(pauses)
    assert 0.8 < sum(pauses) < 1.2


def test_the_time_that_servers_do_not_serve_starts_again_with_each_of_them() -> None:
    now = 100.0
    memories = Memories(lambda: now)
    other = replace(ILL, pod=replace(POD, name="db-1-0", uid="other"), id=NodeId("two"))
    memories.learn(KEY, Observed((ILL,)), ())
    now = 110.0
    memories.learn(KEY, Observed((ILL,)), ())
    assert memories.down_for(KEY) == 10.0
    memories.learn(KEY, Observed((ILL, other)), ())
    assert memories.down_for(KEY) == 0.0
    now = 115.0
    memories.learn(KEY, Observed((WELL, other)), ())
    assert memories.down_for(KEY) == 5.0


MINE = Redis(
    metadata=ObjectMeta(name="db", namespace="default", uid="u1"), spec=RedisSpec(mode=Mode.CLUSTER)
)


def owner(uid: str, *, controller: bool = True) -> OwnerReference:
    return OwnerReference(
        api_version="x/v1", kind="Other", name="theirs", uid=uid, controller=controller
    )


@pytest.mark.parametrize(
    ("found", "why"),
    [
        pytest.param(None, "", id="absent"),
        pytest.param(ObjectMeta(name="o", owner_references=[owner("u1")]), "", id="ours"),
        pytest.param(
            ObjectMeta(name="o", owner_references=[owner("u2", controller=False), owner("u1")]),
            "",
            id="ours beside one who does not control it",
        ),
        pytest.param(
            ObjectMeta(name="o", owner_references=[owner("u2")]),
            "owned by Other theirs",
            id="theirs",
        ),
        pytest.param(
            ObjectMeta(name="o", owner_references=[owner("u2")], labels={DATABASE_LABEL: "db"}),
            "owned by Other theirs",
            id="theirs, with our label",
        ),
        pytest.param(
            ObjectMeta(
                name="o",
                owner_references=[owner("u2")],
                deletion_timestamp="2026-01-01T00:00:00Z",
                finalizers=["a/b", "c/d"],
            ),
            "still being deleted, held by a/b, c/d",
            id="theirs, going",
        ),
        pytest.param(
            ObjectMeta(
                name="o",
                owner_references=[owner("u2")],
                deletion_timestamp="2026-01-01T00:00:00Z",
            ),
            "held by its controller",
            id="theirs, going without finalizers",
        ),
        pytest.param(ObjectMeta(name="o", labels={DATABASE_LABEL: "db"}), "", id="handed over"),
        pytest.param(
            ObjectMeta(name="o", labels={DATABASE_LABEL: "other"}),
            "does not belong",
            id="of another",
        ),
        pytest.param(
            ObjectMeta(name="o", owner_references=[owner("u1", controller=False)]),
            "does not belong",
            id="named by us and controlled by none",
        ),
    ],
)
def test_an_object_is_changed_by_the_database_that_controls_it_alone(
    found: ObjectMeta | None, why: str
) -> None:
    told = limitation(MINE, found)
    assert (why in told) if told is not None and why else told is None and not why


def held(name: str, *, owned: bool, going: bool = False) -> ObjectMeta:
    """A pod with or without the StatefulSet that it was made by."""
    owner = OwnerReference("apps/v1", "StatefulSet", "db-2", "gone", controller=True)
    return ObjectMeta(
        name=name,
        owner_references=(owner,) if owned else (),
        deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC) if going else None,
    )


@pytest.mark.parametrize(
    ("pods", "counts"),
    [
        pytest.param([held("db-2-0", owned=False), held("db-2-1", owned=False)], {2: 2}, id="both"),
        pytest.param(
            [held("db-2-0", owned=False), held("db-2-1", owned=True)],
            {2: 2},
            id="one is shown with its old owner still",
        ),
        pytest.param(
            [held("db-2-0", owned=True), held("db-2-1", owned=True)], {}, id="both with their owner"
        ),
        pytest.param(
            [held("db-2-0", owned=True), held("db-2-2", owned=True)],
            {2: 3},
            id="more than the spec asks for, with their owner",
        ),
        pytest.param(
            [held("db-2-0", owned=False), held("db-2-1", owned=False, going=True)],
            {2: 1},
            id="one is being deleted",
        ),
        pytest.param([held("db-7-0", owned=True)], {}, id="of a shard that is not wanted"),
        pytest.param(
            [held("db-7-0", owned=False), held("db-7-1", owned=True)],
            {7: 2},
            id="of a shard that is not wanted, without their owner",
        ),
    ],
)
def test_a_new_stateful_set_ends_no_pod_that_it_adopts(
    pods: list[ObjectMeta], counts: dict[int, int]
) -> None:
    spec = replace(MINE.spec, mode=Mode.CLUSTER, shards=3, replicas=1)
    assert pods_to_adopt(replace(MINE, spec=spec), pods) == counts


def looked(memory: Spellings, value: str | None, *outcomes: StepOutcome) -> frozenset[Spelling]:
    """Set with these outcomes, then look: the server reads the directive back as this value."""
    memory.asked(KEY, outcomes)
    config = (("notify-keyspace-events", value),) if value is not None else ()
    seen = memory.heard(KEY, Observed((replace(WELL, config=config),)))
    return frozenset(seen.spellings)


def test_a_spelling_is_known_when_it_was_read_back_twice_in_a_row() -> None:
    asked = StepOutcome(ConfigSet(node=at(WELL), values=(("notify-keyspace-events", "odd"),)))
    refused = replace(asked, error="no")
    known = frozenset({Spelling("notify-keyspace-events", "odd", "even")})
    memory = Spellings()
    assert looked(memory, "even", asked) == frozenset()
    assert looked(memory, "other", asked) == frozenset()  # not the same twice
    assert looked(memory, "even", asked) == frozenset()
    assert looked(memory, "even", refused) == frozenset()  # it did not take it
    assert looked(memory, "even", asked) == known
    assert looked(memory, "even") == known  # and stays known
    memory.forget(KEY)
    assert looked(memory, "even") == frozenset()


@pytest.mark.parametrize("between", ["odd", None], ids=["as it was set", "not at all"])
def test_what_is_read_back_as_it_was_set_begins_again(between: str | None) -> None:
    asked = StepOutcome(ConfigSet(node=at(WELL), values=(("notify-keyspace-events", "odd"),)))
    memory = Spellings()
    assert looked(memory, "even", asked) == frozenset()
    assert looked(memory, between, asked) == frozenset()
    assert looked(memory, "even", asked) == frozenset()
