"""Where pods go, and what is said when they cannot go anywhere."""

from __future__ import annotations

from typing import Any

import pytest

from contract.controllers.workloads import World

# Nodes are cordoned, and workers may share a cluster.
pytestmark = pytest.mark.xdist_group("nodes")

HOST = "kubernetes.io/hostname"


def condition(world: World, pod: str) -> dict[str, Any]:
    listed = world.read(f"pods/{pod}")["status"].get("conditions") or []
    found: dict[str, Any] = next((each for each in listed if each["type"] == "PodScheduled"), {})
    return found


def unschedulable(world: World, pod: str) -> str:
    world.until(f"{pod} is told", lambda: condition(world, pod).get("reason") == "Unschedulable")
    found = condition(world, pod)
    assert found["status"] == "False"
    text: str = found["message"]
    return text


def some_node(world: World) -> dict[str, Any]:
    found: dict[str, Any] = next(
        each
        for each in world.read("nodes")["items"]
        if not each["metadata"]["name"].startswith("contract-")
    )
    return found


def test_selector_that_no_node_meets(world: World) -> None:
    world.run_pod("p", world.pod_spec(pod={"nodeSelector": {"contract.test/none": "x"}}))
    assert "didn't match Pod's node affinity/selector" in unschedulable(world, "p")
    assert world.phase("p") == "Pending"


def test_selector_that_a_node_meets(world: World) -> None:
    node = some_node(world)["metadata"]
    world.run_pod("p", world.pod_spec(pod={"nodeSelector": {HOST: node["labels"][HOST]}}))
    assert world.running("p")["spec"]["nodeName"] == node["name"]


def test_affinity_that_no_node_meets(world: World) -> None:
    expression = {"key": "contract.test/none", "operator": "Exists"}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    world.run_pod("p", world.pod_spec(pod={"affinity": affinity}))
    assert "didn't match Pod's node affinity/selector" in unschedulable(world, "p")


def test_preferred_affinity_does_not_hold(world: World) -> None:
    expression = {"key": "contract.test/none", "operator": "Exists"}
    term = {"weight": 1, "preference": {"matchExpressions": [expression]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    world.run_pod("p", world.pod_spec(pod={"affinity": affinity}))
    world.running("p")


def test_anti_affinity_keeps_pods_apart(world: World) -> None:
    """One more pod than nodes: the last finds no place."""
    term = {"labelSelector": {"matchLabels": {"app": "w"}}, "topologyKey": HOST}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = [
        each
        for each in world.read("nodes")["items"]
        if not each["metadata"]["name"].startswith("contract-")
    ]
    names = [f"p{number}" for number in range(len(nodes) + 1)]
    for name in names[:-1]:
        world.run_pod(name, world.pod_spec(pod={"affinity": affinity}), labels={"app": "w"})
        world.running(name)
    world.run_pod(names[-1], world.pod_spec(pod={"affinity": affinity}), labels={"app": "w"})
    assert "didn't match pod anti-affinity rules" in unschedulable(world, names[-1])
    homes = {world.read(f"pods/{name}")["spec"]["nodeName"] for name in names[:-1]}
    assert len(homes) == len(nodes)


def test_pod_affinity_needs_a_companion(world: World) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "friend"}}, "topologyKey": HOST}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    world.run_pod("p", world.pod_spec(pod={"affinity": affinity}), labels={"app": "w"})
    assert "didn't match pod affinity rules" in unschedulable(world, "p")
    world.run_pod("q", world.pod_spec(), labels={"app": "friend"})
    home = world.running("q")["spec"]["nodeName"]
    assert world.running("p")["spec"]["nodeName"] == home


def test_request_larger_than_any_node(world: World) -> None:
    world.run_pod("p", world.pod_spec(resources={"requests": {"cpu": "10000"}}))
    assert "Insufficient cpu" in unschedulable(world, "p")


def test_event_says_why(world: World) -> None:
    world.run_pod("p", world.pod_spec(pod={"nodeSelector": {"contract.test/none": "x"}}))
    selector = "involvedObject.name=p,reason=FailedScheduling"
    world.until("an event", lambda: world.read("events", fieldSelector=selector)["items"])


def test_named_node_needs_no_scheduler(world: World) -> None:
    node = some_node(world)["metadata"]["name"]
    pod = {"nodeName": node, "schedulerName": "nobody"}
    world.run_pod("p", world.pod_spec(pod=pod))
    world.running("p")


def test_other_schedulers_pods_are_left_alone(world: World) -> None:
    world.run_pod("p", world.pod_spec(pod={"schedulerName": "nobody"}))
    world.run_pod("q", world.pod_spec())
    world.running("q")
    assert "nodeName" not in world.read("pods/p")["spec"]


def test_scheduling_gate_holds_the_pod(world: World) -> None:
    pod = {"schedulingGates": [{"name": "contract.test/gate"}]}
    world.run_pod("p", world.pod_spec(pod=pod))
    world.until("it says so", lambda: condition(world, "p").get("reason") == "SchedulingGated")
    world.patch("pods/p", {"spec": {"schedulingGates": None}}).done()
    world.running("p")


def test_cordoned_node_takes_no_pods_and_drain_evicts(world: World) -> None:
    """Only pods of this check are drained, and the node is given back at once."""
    node = some_node(world)["metadata"]["name"]
    pin = {"nodeSelector": {HOST: some_node(world)["metadata"]["labels"][HOST]}}
    world.create("deployments", world.workload(world.pod_spec(pod=pin), replicas=1))
    world.ready_count(1)
    before = world.pods()[0]["metadata"]["name"]
    try:
        said = world.kubectl(
            "drain", node, f"--pod-selector=app=w,contract={world.name}", "--ignore-daemonsets"
        )
        assert f"node/{node} drained" in said
        assert world.ready_names() == [before]
        world.kubectl("delete", "pod", before, "--wait=false")
        world.until(
            "another waits",
            lambda: [each for each in world.pods() if each["metadata"]["name"] != before],
        )
        [name] = [each["metadata"]["name"] for each in world.pods()]
        assert "were unschedulable" in unschedulable(world, name)
    finally:
        world.kubectl("uncordon", node)
    world.ready_count(1)


def test_drain_evicts_the_pods_of_a_node(world: World) -> None:
    node = some_node(world)["metadata"]["name"]
    labels = {"app": "w", "contract": world.name}
    world.run_pod("p", world.pod_spec(pod={"nodeName": node}), labels=labels)
    world.running("p")
    try:
        said = world.kubectl(
            "drain", node, f"--pod-selector=contract={world.name}", "--force", "--timeout=60s"
        )
        assert f"pod/p evicted\nnode/{node} drained\n" in said
    finally:
        world.kubectl("uncordon", node)
    assert world.get("pods/p").status == 404
