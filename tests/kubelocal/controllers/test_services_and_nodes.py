from __future__ import annotations

from typing import Any

from kubelocal.controllers import disruption, endpoints, events, garbage, nodes, volumes
from kubelocal.controllers.scheduling import scheduler


def pod(name: str, node: str = "", **spec: Any) -> dict[str, Any]:
    placed = {"nodeName": node} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "d", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "valkey:9.1"}], **placed, **spec},
        "status": {"phase": "Pending"},
    }


def node(name: str, zone: str = "a", **spec: Any) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone},
        },
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"},
            "conditions": [ready],
        },
    }


def place(world: Any, name: str) -> str | None:
    world.settle(lambda: scheduler.plan(world, "d", name, world.now))
    chosen = world.get("pods", "d", name)["spec"].get("nodeName")
    return None if chosen is None else str(chosen)


def refusal(world: Any, name: str) -> str:
    assert place(world, name) is None
    (condition,) = world.get("pods", "d", name)["status"]["conditions"]
    assert condition["type"] == "PodScheduled"
    assert condition["reason"] == "Unschedulable"
    return str(condition["message"])


def anti_affinity(key: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": key}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAntiAffinity": required}}


def test_a_pod_goes_to_the_node_with_fewest_pods(world: Any) -> None:
    for name in ("one", "two"):
        world.add("nodes", node(name))
    world.add("pods", pod("a", "one"))
    world.add("pods", pod("b"))
    assert place(world, "b") == "two"


def test_a_pod_that_fits_nowhere_is_told_why(world: Any) -> None:
    world.add("nodes", node("one", unschedulable=True))
    world.add("nodes", node("two"))
    big = {"name": "main", "image": "x", "resources": {"requests": {"memory": "1Ti"}}}
    world.add("pods", pod("a", containers=[big]))
    assert refusal(world, "a") == (
        "0/2 nodes are available: 1 Insufficient memory, 1 node(s) were unschedulable."
    )


def test_anti_affinity_keeps_copies_apart(world: Any) -> None:
    for name in ("one", "two"):
        world.add("nodes", node(name))
    world.add("pods", pod("a", "one"))
    world.add("pods", pod("b", **anti_affinity("kubernetes.io/hostname")))
    assert place(world, "b") == "two"
    world.add("pods", pod("c", **anti_affinity("kubernetes.io/hostname")))
    assert "anti-affinity" in refusal(world, "c")


def test_topology_spread_fills_the_emptiest_zone(world: Any) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    for name, zone in (("one", "a"), ("two", "b"), ("three", "c")):
        world.add("nodes", node(name, zone))
    chosen = set()
    for index in range(3):
        world.add("pods", pod(f"p{index}", topologySpreadConstraints=[constraint]))
        chosen.add(place(world, f"p{index}"))
    assert chosen == {"one", "two", "three"}


def test_a_taint_keeps_out_whoever_does_not_tolerate_it(world: Any) -> None:
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    world.add("nodes", node("one", taints=[taint]))
    world.add("pods", pod("a"))
    assert "untolerated taint {dedicated: db}" in refusal(world, "a")
    tolerating = [{"key": "dedicated", "operator": "Equal", "value": "db"}]
    world.add("pods", pod("b", tolerations=tolerating))
    assert place(world, "b") == "one"


def test_a_pod_waits_for_its_claim(world: Any) -> None:
    world.add("nodes", node("one"))
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    world.add("pods", pod("a", volumes=[volume]))
    assert refusal(world, "a") == 'persistentvolumeclaim "data" not found'


def claim(world: Any, size: str = "1Gi") -> dict[str, Any]:
    made: dict[str, Any] = world.add(
        "persistentvolumeclaims",
        {
            "metadata": {
                "name": "data",
                "namespace": "d",
                "finalizers": ["kubernetes.io/pvc-protection"],
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}},
            },
        },
    )
    return made


def settle_volumes(world: Any) -> None:
    def plan() -> Any:
        steps = volumes.plan_claim(world, "d", "data", world.now).steps
        for name in world.names("persistentvolumes"):
            steps += volumes.plan_volume(world, name, world.now).steps
        return volumes.Changes(steps)

    world.settle(plan)


def test_a_claim_gets_a_volume_and_grows_with_its_request(world: Any) -> None:
    world.add("storageclasses", volumes.DEFAULT_CLASS)
    claim(world)
    settle_volumes(world)
    assert world.status("persistentvolumeclaims", "data")["phase"] == "Bound"
    bound = world.get("persistentvolumeclaims", "d", "data")
    bound["spec"]["resources"]["requests"]["storage"] = "2Gi"
    settle_volumes(world)
    assert world.status("persistentvolumeclaims", "data")["capacity"] == {"storage": "2Gi"}


def test_a_claim_in_use_is_not_lost_and_its_volume_goes_with_it_at_last(world: Any) -> None:
    world.add("storageclasses", volumes.DEFAULT_CLASS)
    uid = claim(world)["metadata"]["uid"]
    settle_volumes(world)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    user = world.add("pods", pod("a", "one", volumes=[volume]))
    world._delete("persistentvolumeclaims", "d", "data", uid)
    settle_volumes(world)
    assert world.names("persistentvolumeclaims") == ["data"]
    world._delete("pods", "d", "a", user["metadata"]["uid"])
    settle_volumes(world)
    assert world.names("persistentvolumeclaims") == []
    assert world.names("persistentvolumes") == []


def service(world: Any, **spec: Any) -> None:
    ports = [{"name": "redis", "port": 6379, "targetPort": 6379, "protocol": "TCP"}]
    world.add(
        "services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "d"},
            "spec": {"selector": {"app": "web"}, "ports": ports, **spec},
        },
    )


def test_a_service_lists_ready_pods_only_unless_told_to_publish_all(world: Any) -> None:
    service(world)
    world.add("pods", pod("a", "one"))
    world.add("pods", pod("b", "one"))
    world.make_ready("a")
    world.get("pods", "d", "b")["status"] = {"phase": "Running", "podIP": "127.1.0.2"}
    world.settle(lambda: endpoints.plan(world, "d", "web", world.now))
    (found,) = world.list("endpointslices")
    assert [e["conditions"]["ready"] for e in found["endpoints"]] == [True, False]
    (classic,) = world.list("endpoints")
    (subset,) = classic["subsets"]
    assert [a["ip"] for a in subset["addresses"]] == ["127.1.0.1"]
    assert [a["ip"] for a in subset["notReadyAddresses"]] == ["127.1.0.2"]
    world.get("services", "d", "web")["spec"]["publishNotReadyAddresses"] = True
    world.settle(lambda: endpoints.plan(world, "d", "web", world.now))
    (found,) = world.list("endpointslices")
    assert [e["conditions"]["ready"] for e in found["endpoints"]] == [True, True]


def test_a_deleted_service_leaves_no_endpoints_behind(world: Any) -> None:
    service(world)
    world.settle(lambda: endpoints.plan(world, "d", "web", world.now))
    del world.objects["services", "d", "web"]
    world.settle(lambda: endpoints.plan(world, "d", "web", world.now))
    assert world.list("endpointslices") == world.list("endpoints") == []


def test_a_budget_allows_what_keeps_enough_pods_healthy(world: Any) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    world.add("poddisruptionbudgets", {"metadata": {"name": "web", "namespace": "d"}, "spec": spec})
    for name in ("a", "b"):
        world.add("pods", pod(name, "one"))
    world.make_ready("a")
    plan = lambda: disruption.plan(world, "d", "web", world.now)  # noqa: E731 - used twice
    world.settle(plan)
    assert world.status("poddisruptionbudgets", "web")["disruptionsAllowed"] == 0
    world.make_ready("b")
    world.settle(plan)
    assert world.status("poddisruptionbudgets", "web")["disruptionsAllowed"] == 1


def test_a_silent_node_is_unknown_and_its_pods_are_evicted_when_they_tolerate_it_no_longer(
    world: Any,
) -> None:
    world.add("nodes", node("one"))
    tolerating = [
        {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute",
         "tolerationSeconds": 300}
        for why in ("unreachable", "not-ready")
    ]  # fmt: skip
    world.add("pods", pod("a", "one", tolerations=tolerating))
    world.make_ready()
    world.pass_seconds(60)
    world.settle(lambda: nodes.plan(world, "one", world.now))
    (ready,) = world.get("nodes", "", "one")["status"]["conditions"]
    assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
    (told,) = world.get("pods", "d", "a")["status"]["conditions"]
    assert told["status"] == "False"
    assert world.names("pods") == ["a"]
    world.pass_seconds(301)
    world.settle(lambda: nodes.plan(world, "one", world.now))
    assert world.names("pods") == []


def test_a_dependent_goes_when_its_last_owner_is_gone_and_not_before() -> None:
    def reference(uid: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid}

    child = pod("a")
    child["metadata"] |= {"uid": "c", "ownerReferences": [reference("x"), reference("y")]}
    trimmed = garbage.plan_dependent(
        "pods", child, owner_exists={"x": False, "y": True}, dying=set()
    )
    assert isinstance(trimmed, garbage.Update)
    assert [r["uid"] for r in trimmed.obj["metadata"]["ownerReferences"]] == ["y"]
    gone = garbage.plan_dependent("pods", child, owner_exists={"x": False, "y": False}, dying=set())
    assert isinstance(gone, garbage.Delete)
    assert garbage.plan_dependent("pods", child, owner_exists={}, dying=set()) is None


def test_an_owner_in_foreground_deletion_waits_for_what_blocks_it() -> None:
    owner = pod("owner")
    owner["metadata"] |= {"uid": "o", "deletionTimestamp": "x", "finalizers": [garbage.FOREGROUND]}
    child = pod("a")
    blocking = {"uid": "o", "blockOwnerDeletion": True}
    child["metadata"] |= {"uid": "c", "ownerReferences": [blocking]}
    assert garbage.plan_owner("pods", owner, [("pods", child)]) == []
    (freed,) = garbage.plan_owner("pods", owner, [])
    assert isinstance(freed, garbage.Update)
    assert freed.obj["metadata"]["finalizers"] == []


def test_orphaning_takes_the_reference_away_before_the_owner_goes() -> None:
    owner = pod("owner")
    owner["metadata"] |= {"uid": "o", "deletionTimestamp": "x", "finalizers": [garbage.ORPHAN]}
    child = pod("a")
    child["metadata"] |= {"uid": "c", "ownerReferences": [{"uid": "o"}]}
    (orphaned,) = garbage.plan_owner("pods", owner, [("pods", child)])
    assert isinstance(orphaned, garbage.Update)
    assert "ownerReferences" not in orphaned.obj["metadata"]


def test_events_are_forgotten_after_an_hour(world: Any) -> None:
    world.add(
        "events",
        {"metadata": {"name": "e", "namespace": "d"}, "lastTimestamp": "2026-01-01T00:00:00Z"},
    )
    world.pass_seconds(3500)
    world.settle(lambda: events.plan(world, world.now))
    assert world.names("events") == ["e"]
    world.pass_seconds(200)
    world.settle(lambda: events.plan(world, world.now))
    assert world.names("events") == []
