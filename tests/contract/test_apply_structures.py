"""Server-side apply within structures: keyed lists, atomic parts, workloads, subresources."""

from __future__ import annotations

from typing import Any

from contract.driver import APPLY, Space
from contract.fields import managers, owned, paths


def service(*ports: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"ports": list(ports), **spec}}


def test_service_ports_are_keyed_by_port_and_protocol(space: Space) -> None:
    found = space.apply("services/s", service({"name": "a", "port": 80, "protocol": "TCP"})).object
    assert owned(found, "one")["f:spec"] == {
        "f:ports": {
            'k:{"port":80,"protocol":"TCP"}': {
                ".": {},
                "f:name": {},
                "f:port": {},
                "f:protocol": {},
            }
        }
    }


def test_default_of_a_key_is_filled_in(space: Space) -> None:
    found = space.apply("services/s", service({"name": "a", "port": 80})).object
    assert paths(owned(found, "one")) == {
        'f:spec/f:ports/k:{"port":80,"protocol":"TCP"}',
        'f:spec/f:ports/k:{"port":80,"protocol":"TCP"}/f:name',
        'f:spec/f:ports/k:{"port":80,"protocol":"TCP"}/f:port',
    }


def test_two_managers_own_two_ports(space: Space) -> None:
    space.apply("services/s", service({"name": "a", "port": 80}), "one").done()
    found = space.apply("services/s", service({"name": "b", "port": 81}), "two").object
    assert [each["port"] for each in found["spec"]["ports"]] == [80, 81]
    after = space.apply("services/s", service(), "one").object
    assert [each["port"] for each in after["spec"]["ports"]] == [81]


def test_conflict_in_a_keyed_list_names_the_key(space: Space) -> None:
    space.apply("services/s", service({"name": "a", "port": 80, "targetPort": 1}), "one").done()
    intent = service({"name": "a", "port": 80, "targetPort": 2})
    status = space.apply("services/s", intent, "two").refused(409)
    assert [cause["field"] for cause in status["details"]["causes"]] == [
        '.spec.ports[port=80,protocol="TCP"].targetPort'
    ]


def test_duplicate_keys_in_intent_are_refused(space: Space) -> None:
    intent = service({"name": "a", "port": 80}, {"name": "b", "port": 80})
    status = space.apply("services/s", intent).refused(500)
    assert '[port=80,protocol="TCP"]' in status["message"]


def test_unknown_field_in_intent_is_refused(space: Space) -> None:
    status = space.apply("configmaps/a", {"odd": 1}).refused(500)
    assert ".odd: field not declared in schema" in status["message"]


def test_wrong_type_in_intent_is_refused(space: Space) -> None:
    status = space.apply("configmaps/a", {"data": "text"}).refused(500)
    assert ".data: " in status["message"]


def test_selector_map_is_atomic(space: Space) -> None:
    first = service({"port": 80}, selector={"a": "1"})
    found = space.apply("services/s", first, "one").object
    assert "f:selector" in owned(found, "one")["f:spec"]
    status = space.apply("services/s", service({"port": 80}, selector={"b": "1"}), "two").refused(
        409
    )
    assert [cause["field"] for cause in status["details"]["causes"]] == [".spec.selector"]


def role(*verbs: str) -> dict[str, Any]:
    return {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": list(verbs)}]}


def test_rules_list_is_atomic(space: Space) -> None:
    found = space.apply("roles/r", role("get"), "one").object
    assert owned(found, "one") == {"f:rules": {}}
    status = space.apply("roles/r", role("list"), "two").refused(409)
    assert [cause["field"] for cause in status["details"]["causes"]] == [".rules"]


def test_atomic_list_is_replaced_whole(space: Space) -> None:
    space.apply("roles/r", role("get"), "one").done()
    found = space.apply("roles/r", role("list"), "two", force=True).object
    assert found["rules"] == role("list")["rules"]


def pod_spec(**main: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "redis:7.0", **main}]}


def workload(pod: dict[str, Any], **spec: Any) -> dict[str, Any]:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {"spec": {"selector": {"matchLabels": labels}, "template": template, **spec}}


QUIET: dict[str, Any] = {"paused": True, "replicas": 0}


def test_deployment_ownership_is_exact(space: Space) -> None:
    pod = pod_spec(
        env=[{"name": "A", "value": "1"}],
        ports=[{"containerPort": 6379}],
        resources={"limits": {"memory": "64Mi"}},
        args=["x"],
    )
    found = space.apply("deployments/d", workload(pod, **QUIET)).object
    assert owned(found, "one") == {
        "f:spec": {
            "f:paused": {},
            "f:replicas": {},
            "f:selector": {},
            "f:template": {
                "f:metadata": {"f:labels": {"f:app": {}}},
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"main"}': {
                            ".": {},
                            "f:args": {},
                            "f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}},
                            "f:image": {},
                            "f:name": {},
                            "f:ports": {
                                'k:{"containerPort":6379,"protocol":"TCP"}': {
                                    ".": {},
                                    "f:containerPort": {},
                                }
                            },
                            "f:resources": {"f:limits": {"f:memory": {}}},
                        }
                    }
                },
            },
        }
    }


def test_two_managers_share_a_container(space: Space) -> None:
    space.apply("deployments/d", workload(pod_spec(), **QUIET), "one").done()
    env = {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]}
    found = space.apply("deployments/d", {"spec": {"template": {"spec": env}}}, "two").object
    [container] = found["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "redis:7.0"
    assert container["env"] == [{"name": "A", "value": "1"}]


def test_replicas_can_be_given_away(space: Space) -> None:
    space.apply("deployments/d", workload(pod_spec(), **QUIET), "one").done()
    space.apply("deployments/d", {"spec": {"replicas": 0}}, "two").done()
    found = space.apply("deployments/d", workload(pod_spec(), paused=True), "one").object
    assert found["spec"]["replicas"] == 0
    assert "f:replicas" not in owned(found, "one")["f:spec"]


def test_scale_is_tracked_under_its_subresource(space: Space) -> None:
    space.apply("deployments/d", workload(pod_spec(), **QUIET), "one").done()
    space.patch("deployments/d/scale", {"spec": {"replicas": 3}}, fieldManager="scaler").done()
    found = space.read("deployments/d")
    assert ("scaler", "Update", "scale") in managers(found)
    assert owned(found, "scaler", "scale") == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in owned(found, "one")["f:spec"]
    status = space.apply("deployments/d", workload(pod_spec(), **QUIET), "one").refused(409)
    assert status["message"] == (
        'Apply failed with 1 conflict: conflict with "scaler" with subresource "scale"'
        " using apps/v1: .spec.replicas"
    )


def test_scale_can_be_applied(space: Space) -> None:
    space.apply("deployments/d", workload(pod_spec(), paused=True), "one").done()
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 4}}
    scale["metadata"] = {"name": "d"}
    reply = space.patch("deployments/d/scale", scale, APPLY, fieldManager="scaler", force=True)
    assert reply.object["spec"] == {"replicas": 4}
    found = space.read("deployments/d")
    assert found["spec"]["replicas"] == 4
    assert owned(found, "scaler", "scale") == {"f:spec": {"f:replicas": {}}}


def test_status_has_managers_of_its_own(space: Space) -> None:
    claim = {
        "spec": {
            "storageClassName": "none-such",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
    }
    space.apply("persistentvolumeclaims/c", claim, "one").done()
    body = {"metadata": {"name": "c"}, "status": {"phase": "Lost"}}
    intent = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **body}
    found = space.patch(
        "persistentvolumeclaims/c/status", intent, APPLY, fieldManager="one", force=True
    ).object
    assert ("one", "Apply", "") in managers(found)
    assert ("one", "Apply", "status") in managers(found)
    assert owned(found, "one", "status") == {"f:status": {"f:phase": {}}}
    after = space.apply("persistentvolumeclaims/c", claim, "one").object
    assert after["status"]["phase"] == "Lost"


def test_status_in_an_apply_of_the_object_is_ignored(space: Space) -> None:
    claim = {
        "spec": {
            "storageClassName": "none-such",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Lost"},
    }
    found = space.apply("persistentvolumeclaims/c", claim, "one").object
    assert found["status"] == {"phase": "Pending"}
    assert "f:status" not in owned(found, "one")


def test_spec_in_an_apply_of_status_is_ignored(space: Space) -> None:
    claim = {
        "spec": {
            "storageClassName": "none-such",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
    }
    space.apply("persistentvolumeclaims/c", claim, "one").done()
    intent = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim}
    intent["status"] = {"phase": "Lost"}
    found = space.patch(
        "persistentvolumeclaims/c/status", intent, APPLY, fieldManager="two", force=True
    ).object
    assert set(owned(found, "two", "status")) == {"f:status"}


def test_ownership_of_a_removed_list_entry_goes(space: Space) -> None:
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    space.apply("services/s", service(*ports), "one").done()
    body = {"spec": {"ports": [ports[0]]}}
    found = space.patch("services/s", body, fieldManager="writer").object
    assert not any("81" in path for path in paths(owned(found, "one")))


def test_quantities_are_compared_as_written(space: Space) -> None:
    claim: dict[str, Any] = {
        "spec": {
            "storageClassName": "none-such",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
    }
    space.apply("persistentvolumeclaims/c", claim, "one").done()
    claim["spec"]["resources"]["requests"]["storage"] = "1024Mi"
    status = space.apply("persistentvolumeclaims/c", claim, "two").refused(409)
    assert [cause["field"] for cause in status["details"]["causes"]] == [
        ".spec.resources.requests.storage"
    ]
