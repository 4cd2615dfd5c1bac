"""Disruption budgets: their arithmetic, and evictions they refuse."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from contract.controllers.workloads import World
from contract.driver import Api


def budget(world: World, **spec: Any) -> None:
    selector = {"matchLabels": {"app": "w"}}
    body = {"metadata": {"name": "b"}, "spec": {"selector": selector, **spec}}
    world.create("poddisruptionbudgets", body)


def counts(world: World) -> tuple[int, int, int, int]:
    status = world.read("poddisruptionbudgets/b")["status"]
    return (
        status["expectedPods"],
        status["currentHealthy"],
        status["desiredHealthy"],
        status["disruptionsAllowed"],
    )


def evict(world: World, pod: str) -> Any:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    return world.post(f"pods/{pod}/eviction", body)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 2}, (3, 3, 2, 1)),
        ({"minAvailable": "50%"}, (3, 3, 2, 1)),
        ({"minAvailable": 3}, (3, 3, 3, 0)),
        ({"minAvailable": "100%"}, (3, 3, 3, 0)),
        ({"maxUnavailable": 1}, (3, 3, 2, 1)),
        ({"maxUnavailable": "34%"}, (3, 3, 1, 2)),
        ({"maxUnavailable": 0}, (3, 3, 3, 0)),
        ({"minAvailable": 0}, (3, 3, 0, 3)),
    ],
    ids=str,
)
def test_arithmetic(three: World, spec: dict[str, Any], expected: tuple[int, ...]) -> None:
    budget(three, **spec)
    try:
        three.until(
            f"the status says {expected}", lambda: _counts_or_none(three) == expected, seconds=15
        )
    finally:
        three.delete("poddisruptionbudgets/b").done()


def _counts_or_none(world: World) -> Any:
    return (
        counts(world) if "expectedPods" in world.read("poddisruptionbudgets/b")["status"] else None
    )


@pytest.fixture(scope="module")
def three(cluster_api: Api, cluster: str, image: str) -> Iterator[World]:
    """A namespace with three ready pods, for all the arithmetic."""
    world = World(cluster_api, f"contract-{uuid.uuid4().hex[:8]}", kubeconfig=cluster, image=image)
    world.create("namespaces", {"metadata": {"name": world.name}})
    world.until("the account is there", lambda: world.get("serviceaccounts/default").status == 200)
    world.create("replicasets", world.workload(replicas=3))
    world.ready_count(3)
    yield world
    world.delete(f"namespaces/{world.name}")


def test_eviction_is_refused_when_none_may_go(world: World) -> None:
    budget(world, minAvailable=2)
    world.create("replicasets", world.workload(replicas=2))
    world.ready_count(2)
    world.until("none may go", lambda: counts(world) == (2, 2, 2, 0))
    reply = evict(world, world.ready_names()[0])
    status = reply.refused(429, "TooManyRequests")
    assert status["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert status["details"] == {
        "causes": [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget b needs 2 healthy pods and has 2 currently",
            }
        ]
    }
    world.ready_count(2)


def test_eviction_takes_what_may_go_and_no_more(world: World) -> None:
    budget(world, minAvailable=1)
    for name in ("p1", "p2"):
        world.run_pod(name, world.pod_spec(), labels={"app": "w"})
    world.ready("p1", "p2")
    world.until("one may go", lambda: counts(world)[3] == 1)
    assert evict(world, "p1").status == 201
    evict(world, "p2").refused(429)
    world.until("p1 is gone", lambda: world.get("pods/p1").status == 404)
    world.running("p2")


def test_pod_that_is_not_ready_is_not_healthy(world: World) -> None:
    budget(world, minAvailable=1)
    world.run_pod("p1", world.pod_spec(), labels={"app": "w"})
    world.run_pod("p2", world.gated(), labels={"app": "w"})
    world.running("p1")
    world.until("p2 runs", lambda: world.phase("p2") == "Running")
    world.until("one is healthy", lambda: counts(world)[1:] == (1, 1, 0))
    evict(world, "p1").refused(429)


def test_pod_that_is_not_ready_may_go_while_the_budget_is_met(world: World) -> None:
    budget(world, minAvailable=1)
    world.run_pod("p1", world.pod_spec(), labels={"app": "w"})
    world.run_pod("p2", world.gated(), labels={"app": "w"})
    world.running("p1")
    world.until("p2 runs", lambda: world.phase("p2") == "Running")
    world.until("one is healthy", lambda: counts(world)[1:] == (1, 1, 0))
    assert evict(world, "p2").status == 201
