"""Services lead to ready pods: EndpointSlices and Endpoints."""

from __future__ import annotations

from typing import Any

from contract.controllers.workloads import World


def service(world: World, **spec: Any) -> None:
    ports = [{"name": "redis", "port": 80, "targetPort": 6379}]
    body = {"metadata": {"name": "s"}, "spec": {"selector": {"app": "w"}, "ports": ports, **spec}}
    world.create("services", body)


def endpoints(world: World) -> list[dict[str, Any]]:
    selector = "kubernetes.io/service-name=s"
    slices = world.read("endpointslices", labelSelector=selector)["items"]
    return [each for piece in slices for each in piece.get("endpoints") or []]


def conditions(world: World) -> list[dict[str, bool]]:
    return [each["conditions"] for each in endpoints(world)]


def test_ready_pod_is_an_endpoint(world: World) -> None:
    service(world)
    world.run_pod("p", world.pod_spec(), labels={"app": "w"})
    pod = world.running("p")
    world.until("it is listed", lambda: endpoints(world))
    [found] = world.until(
        "it is ready", lambda: [each for each in endpoints(world) if each["conditions"]["ready"]]
    )
    assert found["addresses"] == [pod["status"]["podIP"]]
    assert found["conditions"] == {"ready": True, "serving": True, "terminating": False}
    assert found["nodeName"] == pod["spec"]["nodeName"]
    target = found["targetRef"]
    assert (target["kind"], target["name"], target["uid"]) == ("Pod", "p", pod["metadata"]["uid"])


def test_slice_describes_its_service(world: World) -> None:
    service(world)
    world.run_pod("p", world.pod_spec(), labels={"app": "w"})
    world.until("it is listed", lambda: endpoints(world))
    [found] = world.read("endpointslices", labelSelector="kubernetes.io/service-name=s")["items"]
    assert found["addressType"] == "IPv4"
    assert found["ports"] == [{"name": "redis", "port": 6379, "protocol": "TCP"}]
    assert found["metadata"]["generateName"] == "s-"
    labels = found["metadata"]["labels"]
    assert labels["endpointslice.kubernetes.io/managed-by"] == "endpointslice-controller.k8s.io"
    [owner] = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Service", "s", True)


def test_pod_that_is_not_ready_is_listed_as_such(world: World) -> None:
    service(world)
    world.run_pod("p", world.gated(), labels={"app": "w"})
    world.until("it runs", lambda: world.phase("p") == "Running")
    world.until(
        "it is listed",
        lambda: conditions(world) == [{"ready": False, "serving": False, "terminating": False}],
    )
    world.open_gate("p")
    world.until(
        "it is ready",
        lambda: conditions(world) == [{"ready": True, "serving": True, "terminating": False}],
    )


def test_published_although_not_ready(world: World) -> None:
    service(world, publishNotReadyAddresses=True, clusterIP="None")
    world.run_pod("p", world.gated(), labels={"app": "w"})
    world.until("it runs", lambda: world.phase("p") == "Running")
    world.until(
        "it is published",
        lambda: conditions(world) == [{"ready": True, "serving": False, "terminating": False}],
    )


def test_old_endpoints_follow_too(world: World) -> None:
    service(world)
    world.run_pod("p", world.gated(), labels={"app": "w"})
    world.until("it runs", lambda: world.phase("p") == "Running")

    def subsets() -> Any:
        found = world.get("endpoints/s")
        return found.json.get("subsets") if found.status == 200 else None

    world.until("it is not ready", lambda: subsets() and "notReadyAddresses" in subsets()[0])
    world.open_gate("p")
    world.until("it is ready", lambda: subsets() and "addresses" in subsets()[0])
    [found] = subsets()
    assert found["ports"] == [{"name": "redis", "port": 6379, "protocol": "TCP"}]
    assert found["addresses"][0]["targetRef"]["name"] == "p"


def test_deleted_pod_leaves(world: World) -> None:
    service(world)
    world.run_pod("p", world.pod_spec(), labels={"app": "w"})
    world.until("it is listed", lambda: endpoints(world))
    world.delete("pods/p").done()
    world.until("it has left", lambda: not endpoints(world))


def test_named_target_port_is_looked_up(world: World) -> None:
    ports = [{"name": "redis", "port": 80, "targetPort": "wire"}]
    service(world, ports=ports)
    spec = world.pod_spec(ports=[{"name": "wire", "containerPort": 7000}])
    world.run_pod("p", spec, labels={"app": "w"})
    world.until("it is listed", lambda: endpoints(world))
    [found] = world.read("endpointslices", labelSelector="kubernetes.io/service-name=s")["items"]
    assert found["ports"] == [{"name": "redis", "port": 7000, "protocol": "TCP"}]


def test_service_without_a_selector_has_no_endpoints_of_ours(world: World) -> None:
    world.create("services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    service_with = {
        "metadata": {"name": "t"},
        "spec": {"selector": {"app": "w"}, "ports": [{"port": 80}]},
    }
    world.create("services", service_with)
    world.until("t has its slice", lambda: world.read("endpointslices")["items"])
    assert endpoints(world) == []


def test_hostnames_of_a_headless_service(world: World) -> None:
    service(world, clusterIP="None")
    world.create("statefulsets", world.workload(serviceName="s", replicas=1))
    world.ready("w-0")
    world.until(
        "it is listed", lambda: [each.get("hostname") for each in endpoints(world)] == ["w-0"]
    )


def test_endpoints_go_with_the_service(world: World) -> None:
    service(world)
    world.until("there is a slice", lambda: world.read("endpointslices")["items"])
    world.delete("services/s").done()
    world.until("it is gone", lambda: not world.read("endpointslices")["items"])
