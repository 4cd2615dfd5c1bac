"""Resources changed in a running database: in place where the cluster can, else rolled."""

from __future__ import annotations

from msgspec.structs import replace

from planning.cluster.test_rules_heal import WANTED, whole_database
from redis_operator.planning.actions import ConfigSet, DeletePod, ResizePod
from redis_operator.planning.advice import Plan, Wanted
from redis_operator.planning.observed import Observed
from redis_operator.planning.plan import plan
from redis_testing.cluster.database import SimulatedDatabase

GIB = 2**30
OLD = (("limits.memory", "1Gi"), ("requests.memory", "1Gi"))
NEW = (("limits.memory", "2Gi"), ("requests.memory", "2Gi"))


def sized(
    database: SimulatedDatabase,
    *,
    limit: int = 2 * GIB,
    maxmemory: int = GIB,
    can_resize: bool = True,
    has: int = GIB,
) -> tuple[Wanted, Observed]:
    """A database whose pods have 1Gi of memory and whose template says another size."""
    wanted = replace(WANTED, memory_limit=limit, config=(("maxmemory", str(maxmemory)),))
    seen = database.observe()
    nodes = tuple(
        replace(
            node,
            pod=replace(node.pod, shape="s", resources=OLD, memory_limit=GIB, revision="old"),
            max_memory=has,
            config=(("maxmemory", str(has)),),
        )
        for node in seen.seen
    )
    workloads = tuple(replace(w, shape="s", resources=NEW, revision="new") for w in seen.workloads)
    return wanted, replace(seen, nodes=nodes, workloads=workloads, can_resize=can_resize)


def think(wanted: Wanted, observed: Observed) -> Plan:
    return plan(wanted, observed, 2000.0)


def test_a_pod_gets_more_memory_while_it_runs_and_only_then_may_use_it() -> None:
    wanted, observed = sized(whole_database(), maxmemory=2 * GIB)
    advice = think(wanted, observed)
    [step] = advice.steps
    assert isinstance(step, ResizePod), advice
    replica = next(n for n in observed.seen if n.pod.name == step.pod)
    assert not replica.is_primary
    assert step.resources == NEW
    bigger = replace(replica.pod, resources=NEW, memory_limit=2 * GIB)
    nodes = tuple(replace(n, pod=bigger) if n is replica else n for n in observed.seen)
    after = think(wanted, replace(observed, nodes=nodes))
    [raised] = after.steps
    assert isinstance(raised, ConfigSet), after
    assert raised.node.pod == replica.pod.name


def test_one_resize_at_a_time_and_the_next_waits_until_it_is_done() -> None:
    wanted, observed = sized(whole_database())
    first = observed.seen[1]
    busy = replace(first.pod, resources=NEW, resizing="InProgress")
    nodes = tuple(replace(n, pod=busy) if n is first else n for n in observed.seen)
    advice = think(wanted, replace(observed, nodes=nodes))
    assert not advice.stages
    assert f"{first.pod.name} is being resized: InProgress" in advice.blocked


def test_where_the_cluster_cannot_resize_pods_are_rolled() -> None:
    wanted, observed = sized(whole_database(), can_resize=False)
    [step] = think(wanted, observed).steps
    assert isinstance(step, DeletePod)


def test_a_pod_that_was_refused_or_has_no_room_is_rolled() -> None:
    wanted, observed = sized(whole_database())
    names = frozenset(node.pod.uid for node in observed.seen)
    [step] = think(wanted, replace(observed, resize_refused=names)).steps
    assert isinstance(step, DeletePod)
    nodes = tuple(
        replace(n, pod=replace(n.pod, resizing="Infeasible: node has 1Gi")) for n in observed.seen
    )
    [step] = think(wanted, replace(observed, nodes=nodes)).steps
    assert isinstance(step, DeletePod)


def test_pods_of_the_right_size_are_let_be_though_their_revision_is_old() -> None:
    wanted, observed = sized(whole_database())
    nodes = tuple(
        replace(n, pod=replace(n.pod, resources=NEW, memory_limit=2 * GIB)) for n in observed.seen
    )
    assert not think(wanted, replace(observed, nodes=nodes)).steps


def test_a_limit_that_comes_or_goes_is_no_resize() -> None:
    wanted, observed = sized(whole_database())
    workloads = tuple(replace(w, resources=(("limits.cpu", "1"), *NEW)) for w in observed.workloads)
    [step] = think(wanted, replace(observed, workloads=workloads)).steps
    assert isinstance(step, DeletePod)


def test_memory_is_taken_only_when_the_data_fit() -> None:
    wanted, observed = sized(whole_database(), limit=GIB // 2, maxmemory=GIB // 4)
    nodes = tuple(replace(n, used_memory=GIB // 3) for n in observed.seen)
    advice = think(wanted, replace(observed, nodes=nodes))
    assert not advice.steps
    assert any("maxmemory cannot go down" in reason for reason in advice.blocked)
    rolled = think(wanted, replace(observed, nodes=nodes, can_resize=False))
    assert not rolled.steps
    fits = tuple(replace(n, used_memory=GIB // 8) for n in observed.seen)
    lowered = think(wanted, replace(observed, nodes=fits))
    assert {type(step) for step in lowered.steps} == {ConfigSet}  # maxmemory first, then the limit
