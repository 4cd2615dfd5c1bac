"""Strategic merge patch: merge keys, directives and replaced lists of the built-in kinds."""

from __future__ import annotations

from typing import Any

import pytest

from contract.driver import STRATEGIC, Space

POD_SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "main",
            "image": "redis:7.0",
            "args": ["a", "b"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "ports": [{"containerPort": 6379, "name": "redis"}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        },
        {"name": "side", "image": "side:1"},
    ],
    "volumes": [{"name": "data", "emptyDir": {}}],
    "tolerations": [{"key": "x", "operator": "Exists"}],
    "nodeSelector": {"disk": "fast"},
}
LABELS = {"app": "a"}


@pytest.fixture
def deployment(space: Space) -> Space:
    template = {"metadata": {"labels": LABELS}, "spec": POD_SPEC}
    spec = {
        "replicas": 0,
        "paused": True,
        "selector": {"matchLabels": LABELS},
        "template": template,
    }
    space.create("deployments", {"metadata": {"name": "a"}, "spec": spec})
    return space


def patched(space: Space, pod: dict[str, Any]) -> dict[str, Any]:
    patch = {"spec": {"template": {"spec": pod}}}
    found = space.patch("deployments/a", patch, STRATEGIC).object
    result: dict[str, Any] = found["spec"]["template"]["spec"]
    return result


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [each["name"] for each in entries]


def test_containers_merge_by_name(deployment: Space) -> None:
    pod = patched(deployment, {"containers": [{"name": "main", "image": "redis:7.2"}]})
    assert names(pod["containers"]) == ["main", "side"]
    main = pod["containers"][0]
    assert main["image"] == "redis:7.2"
    assert main["args"] == ["a", "b"]
    assert names(main["env"]) == ["A", "B"]


def test_new_container_comes_before_the_old(deployment: Space) -> None:
    pod = patched(deployment, {"containers": [{"name": "third", "image": "third:1"}]})
    assert names(pod["containers"]) == ["third", "main", "side"]


def test_entry_is_deleted_by_directive(deployment: Space) -> None:
    pod = patched(deployment, {"containers": [{"$patch": "delete", "name": "side"}]})
    assert names(pod["containers"]) == ["main"]


def test_delete_of_an_absent_entry_is_nothing(deployment: Space) -> None:
    pod = patched(deployment, {"containers": [{"$patch": "delete", "name": "none"}]})
    assert names(pod["containers"]) == ["main", "side"]


def test_list_is_replaced_by_directive(deployment: Space) -> None:
    pod = patched(
        deployment, {"containers": [{"$patch": "replace"}, {"name": "x", "image": "x:1"}]}
    )
    assert names(pod["containers"]) == ["x"]


def test_map_is_replaced_by_directive(deployment: Space) -> None:
    pod = patched(deployment, {"nodeSelector": {"$patch": "replace", "zone": "a"}})
    assert pod["nodeSelector"] == {"zone": "a"}


def test_map_is_deleted_by_directive(deployment: Space) -> None:
    pod = patched(deployment, {"nodeSelector": {"$patch": "delete"}})
    assert "nodeSelector" not in pod


def test_maps_merge(deployment: Space) -> None:
    pod = patched(deployment, {"nodeSelector": {"zone": "a"}})
    assert pod["nodeSelector"] == {"disk": "fast", "zone": "a"}


def test_null_deletes_a_key(deployment: Space) -> None:
    pod = patched(deployment, {"nodeSelector": None})
    assert "nodeSelector" not in pod


def test_plain_lists_are_replaced(deployment: Space) -> None:
    pod = patched(deployment, {"containers": [{"name": "main", "args": ["c"]}]})
    assert pod["containers"][0]["args"] == ["c"]


def test_lists_without_a_merge_key_are_replaced(deployment: Space) -> None:
    pod = patched(deployment, {"tolerations": [{"key": "y", "operator": "Exists"}]})
    assert pod["tolerations"] == [{"key": "y", "operator": "Exists"}]


def test_env_merges_by_name(deployment: Space) -> None:
    env = [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]
    pod = patched(deployment, {"containers": [{"name": "main", "env": env}]})
    found = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
    assert found == {"A": "1", "B": "3", "C": "4"}


def test_env_value_can_become_a_reference(deployment: Space) -> None:
    reference = {"secretKeyRef": {"name": "s", "key": "k"}}
    env = [{"name": "A", "value": None, "valueFrom": reference}]
    pod = patched(deployment, {"containers": [{"name": "main", "env": env}]})
    assert pod["containers"][0]["env"][0] == {"name": "A", "valueFrom": reference}


def test_ports_merge_by_container_port(deployment: Space) -> None:
    ports = [{"containerPort": 6379, "name": "data"}, {"containerPort": 16379, "name": "bus"}]
    pod = patched(deployment, {"containers": [{"name": "main", "ports": ports}]})
    found = {each["containerPort"]: each["name"] for each in pod["containers"][0]["ports"]}
    assert found == {6379: "data", 16379: "bus"}


def test_volume_mounts_merge_by_path(deployment: Space) -> None:
    mounts = [{"name": "data", "mountPath": "/more"}]
    pod = patched(deployment, {"containers": [{"name": "main", "volumeMounts": mounts}]})
    assert [each["mountPath"] for each in pod["containers"][0]["volumeMounts"]] == [
        "/more",
        "/data",
    ]


def test_volumes_merge_by_name(deployment: Space) -> None:
    volume = {"name": "conf", "configMap": {"name": "c"}}
    pod = patched(deployment, {"volumes": [volume]})
    assert names(pod["volumes"]) == ["conf", "data"]


def test_volume_source_is_replaced_with_retain_keys(deployment: Space) -> None:
    volume = {"name": "data", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}
    pod = patched(deployment, {"volumes": [volume]})
    assert pod["volumes"] == [{"name": "data", "secret": {"secretName": "s", "defaultMode": 420}}]


def test_volume_source_beside_another_is_invalid(deployment: Space) -> None:
    patch = {"volumes": [{"name": "data", "secret": {"secretName": "s"}}]}
    body = {"spec": {"template": {"spec": patch}}}
    reply = deployment.patch("deployments/a", body, STRATEGIC)
    reply.refused(422, "Invalid")
    assert (
        "spec.template.spec.volumes[0].secret",
        "FieldValueForbidden",
        "Forbidden: may not specify more than 1 volume type",
    ) in reply.causes()


def test_order_directive_orders_a_merged_list(deployment: Space) -> None:
    order = [{"name": "side"}, {"name": "main"}]
    pod = patched(deployment, {"$setElementOrder/containers": order})
    assert names(pod["containers"]) == ["side", "main"]


def test_order_directive_with_a_change(deployment: Space) -> None:
    patch = {
        "$setElementOrder/containers": [{"name": "side"}, {"name": "new"}, {"name": "main"}],
        "containers": [{"name": "new", "image": "new:1"}],
    }
    assert names(patched(deployment, patch)["containers"]) == ["side", "new", "main"]


def test_order_directive_must_list_what_is_patched(deployment: Space) -> None:
    patch = {
        "$setElementOrder/containers": [{"name": "side"}],
        "containers": [{"name": "main", "image": "x:1"}],
    }
    body = {"spec": {"template": {"spec": patch}}}
    status = deployment.patch("deployments/a", body, STRATEGIC).refused(500)
    assert status["message"].startswith("The order in patch list:\n")
    assert "doesn't match $setElementOrder list:" in status["message"]


def test_missing_merge_key_is_refused(deployment: Space) -> None:
    body = {"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}}
    status = deployment.patch("deployments/a", body, STRATEGIC).refused(500)
    assert "does not contain declared merge key: name" in status["message"]


def test_unknown_directive_is_refused(deployment: Space) -> None:
    body = {"spec": {"template": {"spec": {"nodeSelector": {"$patch": "odd"}}}}}
    status = deployment.patch("deployments/a", body, STRATEGIC).refused(500)
    assert status["message"].startswith("unknown patch type: odd in map")


def test_finalizers_are_a_merged_set(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a", "finalizers": ["e.x/1", "e.x/2"]}})
    try:
        patch = {"metadata": {"finalizers": ["e.x/2", "e.x/3"]}}
        found = space.patch("configmaps/a", patch, STRATEGIC).object
        assert sorted(found["metadata"]["finalizers"]) == ["e.x/1", "e.x/2", "e.x/3"]
    finally:
        space.patch("configmaps/a", {"metadata": {"finalizers": None}})


def test_finalizer_is_deleted_from_the_primitive_list(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a", "finalizers": ["e.x/1", "e.x/2"]}})
    try:
        patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["e.x/1"]}}
        found = space.patch("configmaps/a", patch, STRATEGIC).object
        assert found["metadata"]["finalizers"] == ["e.x/2"]
    finally:
        space.patch("configmaps/a", {"metadata": {"finalizers": None}})


def test_owner_references_merge_by_uid(space: Space) -> None:
    def owner(name: str) -> dict[str, str]:
        return {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": f"uid-{name}"}

    holder = space.create("secrets", {"metadata": {"name": "h"}})["metadata"]["uid"]
    first = {"apiVersion": "v1", "kind": "Secret", "name": "h", "uid": holder}
    space.create("configmaps", {"metadata": {"name": "a", "ownerReferences": [first]}})
    second = owner("b")
    patch = {"metadata": {"ownerReferences": [second]}}
    found = space.patch("configmaps/a", patch, STRATEGIC).object
    assert {each["name"] for each in found["metadata"]["ownerReferences"]} == {"h", "b"}


def test_owner_reference_is_deleted_by_uid(space: Space) -> None:
    holder = space.create("secrets", {"metadata": {"name": "h"}})["metadata"]["uid"]
    first = {"apiVersion": "v1", "kind": "Secret", "name": "h", "uid": holder}
    space.create("configmaps", {"metadata": {"name": "a", "ownerReferences": [first]}})
    patch = {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": holder}]}}
    found = space.patch("configmaps/a", patch, STRATEGIC).object
    assert "ownerReferences" not in found["metadata"]


def test_service_ports_merge_by_port(space: Space) -> None:
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    space.create("services", {"metadata": {"name": "s"}, "spec": {"ports": ports}})
    patch = {"spec": {"ports": [{"port": 81, "targetPort": 9000}]}}
    found = space.patch("services/s", patch, STRATEGIC).object["spec"]["ports"]
    assert [(each["name"], each["targetPort"]) for each in found] == [("a", 80), ("b", 9000)]


def test_conditions_merge_by_type(space: Space) -> None:
    space.post("serviceaccounts", {"metadata": {"name": "default"}})
    spec = {"schedulerName": "nobody", "automountServiceAccountToken": False}
    containers = [{"name": "m", "image": "i"}]
    space.create("pods", {"metadata": {"name": "p"}, "spec": {**spec, "containers": containers}})
    for kind in ("One", "Two"):
        patch = {"status": {"conditions": [{"type": kind, "status": "True"}]}}
        found = space.patch("pods/p/status", patch, STRATEGIC).object
    assert {each["type"] for each in found["status"]["conditions"]} >= {"One", "Two"}
