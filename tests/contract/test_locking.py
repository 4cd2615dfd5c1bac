"""Optimistic locking, preconditions, generation and the wall between spec and status."""

from __future__ import annotations

import pytest

from contract.driver import JSON_PATCH, MERGE, STRATEGIC, Space

CHANGED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def template(labels: dict[str, str]) -> dict[str, object]:
    containers = [{"name": "main", "image": "redis:7.0"}]
    return {"metadata": {"labels": labels}, "spec": {"containers": containers}}


def replica_set(name: str = "a") -> dict[str, object]:
    labels = {"app": name}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template(labels)}
    return {"metadata": {"name": name}, "spec": spec}


def test_stale_replace_is_a_conflict(space: Space) -> None:
    made = space.create("configmaps", {"metadata": {"name": "a"}})
    space.patch("configmaps/a", {"data": {"k": "1"}}).done()
    status = space.put("configmaps/a", made).refused(409, "Conflict")
    assert status["message"] == f'Operation cannot be fulfilled on configmaps "a": {CHANGED}'
    assert status["details"] == {"name": "a", "kind": "configmaps"}


def test_replace_without_version_overwrites(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    space.patch("configmaps/a", {"data": {"k": "1"}}).done()
    assert "data" not in space.put("configmaps/a", {"metadata": {"name": "a"}}).object


def test_replace_of_a_lease_needs_a_version(space: Space) -> None:
    space.create("leases", {"metadata": {"name": "a"}, "spec": {}})
    reply = space.put("leases/a", {"metadata": {"name": "a"}, "spec": {}})
    status = reply.refused(422, "Invalid")
    assert status["message"] == (
        'leases.coordination.k8s.io "a" is invalid: metadata.resourceVersion:'
        " Invalid value: 0: must be specified for an update"
    )


@pytest.mark.parametrize("content", [MERGE, STRATEGIC])
def test_stale_patch_with_a_version_is_a_conflict(space: Space, content: str) -> None:
    made = space.create("configmaps", {"metadata": {"name": "a"}})
    space.patch("configmaps/a", {"data": {"k": "1"}}).done()
    version = made["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version}, "data": {"k": "2"}}
    status = space.patch("configmaps/a", body, content).refused(409, "Conflict")
    assert CHANGED in status["message"]


def test_patch_with_the_current_version_passes(space: Space) -> None:
    made = space.create("configmaps", {"metadata": {"name": "a"}})
    version = made["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version}, "data": {"k": "2"}}
    assert space.patch("configmaps/a", body).object["data"] == {"k": "2"}


def test_uid_is_a_precondition_of_replace(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    body = {"metadata": {"name": "a", "uid": "11111111-1111-1111-1111-111111111111"}}
    status = space.put("configmaps/a", body).refused(409, "Conflict")
    uid = space.read("configmaps/a")["metadata"]["uid"]
    assert status["message"].startswith('Operation cannot be fulfilled on configmaps "a": ')
    assert status["message"].endswith(
        "Precondition failed: UID in precondition: 11111111-1111-1111-1111-111111111111,"
        f" UID in object meta: {uid}"
    )


def test_patch_cannot_change_the_uid(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    body = {"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}}
    status = space.patch("configmaps/a", body).refused(422, "Invalid")
    assert "field is immutable" in status["message"]
    assert status["details"]["causes"][0]["field"] == "metadata.uid"


def test_malformed_version_is_refused(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    body = {"metadata": {"name": "a", "resourceVersion": "abc"}}
    status = space.put("configmaps/a", body).refused(500)
    assert '"abc"' in status["message"]


def test_delete_with_a_stale_version_is_a_conflict(space: Space) -> None:
    made = space.create("configmaps", {"metadata": {"name": "a"}})
    space.patch("configmaps/a", {"data": {"k": "1"}}).done()
    version = made["metadata"]["resourceVersion"]
    now = space.read("configmaps/a")["metadata"]["resourceVersion"]
    options = {"preconditions": {"resourceVersion": version}}
    status = space.delete("configmaps/a", options).refused(409, "Conflict")
    assert status["message"] == (
        'Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition'
        f" ({version}) does not match the ResourceVersion in record ({now})."
        " The object might have been modified"
    )


def test_delete_with_a_foreign_uid_is_a_conflict(space: Space) -> None:
    uid = space.create("configmaps", {"metadata": {"name": "a"}})["metadata"]["uid"]
    status = space.delete("configmaps/a", {"preconditions": {"uid": "other"}}).refused(409)
    assert status["message"] == (
        'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (other)'
        f" does not match the UID in record ({uid})."
        " The object might have been deleted and then recreated"
    )


def test_delete_with_matching_preconditions_passes(space: Space) -> None:
    metadata = space.create("configmaps", {"metadata": {"name": "a"}})["metadata"]
    conditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    assert space.delete("configmaps/a", {"preconditions": conditions}).status == 200


def test_json_patch_test_operation_guards(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}, "data": {"k": "1"}})
    operations = [
        {"op": "test", "path": "/data/k", "value": "2"},
        {"op": "replace", "path": "/data/k", "value": "3"},
    ]
    status = space.patch("configmaps/a", operations, JSON_PATCH).refused(422, "Invalid")
    assert status["message"] == "the server rejected our request due to an error in our request"
    assert space.read("configmaps/a")["data"] == {"k": "1"}


def test_generation_starts_at_one_and_counts_spec_changes(space: Space) -> None:
    made = space.create("replicasets", replica_set())
    assert made["metadata"]["generation"] == 1
    after = space.patch("replicasets/a", {"spec": {"minReadySeconds": 3}}).object
    assert after["metadata"]["generation"] == 2


def test_generation_ignores_metadata(space: Space) -> None:
    space.create("replicasets", replica_set())
    after = space.patch("replicasets/a", {"metadata": {"labels": {"x": "y"}}}).object
    assert after["metadata"]["generation"] == 1


def test_generation_cannot_be_set(space: Space) -> None:
    space.create("replicasets", replica_set())
    after = space.patch("replicasets/a", {"metadata": {"generation": 9}}).object
    assert after["metadata"]["generation"] == 1


def test_status_in_create_is_dropped(space: Space) -> None:
    made = space.create("replicasets", {**replica_set(), "status": {"replicas": 7}})
    assert made["status"] == {"replicas": 0}


def test_status_in_replace_is_dropped(space: Space) -> None:
    made = space.create("persistentvolumeclaims", CLAIM)
    made["status"] = {"phase": "Bound"}
    del made["metadata"]["resourceVersion"]
    assert space.put("persistentvolumeclaims/a", made).object["status"] == {"phase": "Pending"}


CLAIM = {
    "metadata": {"name": "a"},
    "spec": {
        "storageClassName": "none-such",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


def test_status_update_leaves_spec_and_generation_alone(space: Space) -> None:
    budget = {"metadata": {"name": "a"}, "spec": {"minAvailable": 1}}
    space.create("poddisruptionbudgets", budget)
    body = {"spec": {"minAvailable": 5}, "status": {"disruptionsAllowed": 0}}
    after = space.patch("poddisruptionbudgets/a/status", body).object
    assert after["spec"]["minAvailable"] == 1
    assert after["metadata"]["generation"] == 1


def test_status_update_may_not_change_labels_of_a_claim(space: Space) -> None:
    space.create("persistentvolumeclaims", CLAIM)
    body = {"metadata": {"labels": {"x": "y"}}, "status": {"phase": "Lost"}}
    after = space.patch("persistentvolumeclaims/a/status", body).object
    assert after["status"]["phase"] == "Lost"
    assert "spec" in after


def test_status_of_a_node_is_separate(space: Space, unique: str) -> None:
    name = f"contract-{unique}"
    taint = {"key": "contract", "effect": "NoSchedule"}
    space.create("nodes", {"metadata": {"name": name}, "spec": {"taints": [taint]}})
    try:
        body = {"status": {"capacity": {"pods": "0"}}}
        assert "pods" not in space.patch(f"nodes/{name}", body).object["status"].get("capacity", {})
        after = space.patch(f"nodes/{name}/status", body).object
        assert after["status"]["capacity"] == {"pods": "0"}
    finally:
        space.delete(f"nodes/{name}")


def test_status_subresource_reads_the_whole_object(space: Space) -> None:
    space.create("persistentvolumeclaims", CLAIM)
    assert space.read("persistentvolumeclaims/a/status")["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_config_map_has_no_status(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    status = space.get("configmaps/a/status").refused(404, "NotFound")
    assert status["message"] == "the server could not find the requested resource"


def test_stale_status_update_is_a_conflict(space: Space) -> None:
    made = space.create("persistentvolumeclaims", CLAIM)
    space.patch("persistentvolumeclaims/a", {"metadata": {"labels": {"x": "y"}}}).done()
    space.put("persistentvolumeclaims/a/status", made).refused(409, "Conflict")
