"""Deleting: finalizers, grace, options, collections."""

from __future__ import annotations

from typing import Any

import pytest

from contract.driver import JSON_PATCH, Space

HELD = {"metadata": {"name": "a", "finalizers": ["contract.test/hold"]}}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    quiet = {"automountServiceAccountToken": False, "schedulerName": "nobody"}
    containers = [{"name": "main", "image": "redis:7.0"}]
    return {"metadata": {"name": name}, "spec": {**quiet, "containers": containers, **spec}}


@pytest.fixture
def pods(space: Space) -> Space:
    space.post("serviceaccounts", {"metadata": {"name": "default"}})
    return space


def test_delete_answers_with_a_status(space: Space) -> None:
    made = space.create("configmaps", {"metadata": {"name": "a"}})
    reply = space.delete("configmaps/a")
    assert reply.status == 200
    assert reply.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]},
    }
    space.get("configmaps/a").refused(404)


def test_delete_of_a_group_kind_names_the_group(space: Space) -> None:
    space.create("leases", {"metadata": {"name": "a"}})
    details = space.delete("leases/a").object["details"]
    assert (details["group"], details["kind"]) == ("coordination.k8s.io", "leases")


def test_second_delete_is_not_found(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    space.delete("configmaps/a").done()
    space.delete("configmaps/a").refused(404, "NotFound")


@pytest.fixture
def held(space: Space) -> Any:
    space.create("configmaps", HELD)
    yield space
    space.patch("configmaps/a", {"metadata": {"finalizers": None}})


def test_finalizer_holds_the_object(held: Space) -> None:
    reply = held.delete("configmaps/a")
    assert reply.status == 200
    assert reply.json["kind"] == "ConfigMap"
    metadata = held.read("configmaps/a")["metadata"]
    assert metadata["deletionTimestamp"]
    assert metadata["deletionGracePeriodSeconds"] == 0


def test_delete_of_what_is_being_deleted_changes_nothing(held: Space) -> None:
    held.delete("configmaps/a").done()
    before = held.read("configmaps/a")
    held.delete("configmaps/a").done()
    assert held.read("configmaps/a") == before


def test_removal_of_the_last_finalizer_removes_the_object(held: Space) -> None:
    held.delete("configmaps/a").done()
    reply = held.patch("configmaps/a", {"metadata": {"finalizers": None}})
    assert reply.status == 200
    assert "finalizers" not in reply.json["metadata"]
    held.get("configmaps/a").refused(404)


def test_removal_of_one_of_two_finalizers_keeps_the_object(space: Space) -> None:
    body = {"metadata": {"name": "a", "finalizers": ["contract.test/x", "contract.test/y"]}}
    space.create("configmaps", body)
    space.delete("configmaps/a").done()
    operations = [{"op": "remove", "path": "/metadata/finalizers/0"}]
    found = space.patch("configmaps/a", operations, JSON_PATCH).object
    assert found["metadata"]["finalizers"] == ["contract.test/y"]
    space.patch("configmaps/a", operations, JSON_PATCH).done()
    space.get("configmaps/a").refused(404)


def test_finalizer_cannot_be_added_while_deleting(held: Space) -> None:
    held.delete("configmaps/a").done()
    body = {"metadata": {"finalizers": ["contract.test/hold", "contract.test/new"]}}
    reply = held.patch("configmaps/a", body)
    reply.refused(422, "Invalid")
    assert reply.causes() == {
        (
            "metadata.finalizers",
            "FieldValueForbidden",
            (
                "Forbidden: no new finalizers can be added if the object is being deleted,"
                ' found new finalizers []string{"contract.test/new"}'
            ),
        )
    }


def test_object_being_deleted_can_change(held: Space) -> None:
    held.delete("configmaps/a").done()
    assert held.patch("configmaps/a", {"data": {"k": "v"}}).object["data"] == {"k": "v"}


def test_deletion_timestamp_cannot_be_unset(held: Space) -> None:
    held.delete("configmaps/a").done()
    before = held.read("configmaps/a")["metadata"]["deletionTimestamp"]
    after = held.patch("configmaps/a", {"metadata": {"deletionTimestamp": None}}).object
    assert after["metadata"]["deletionTimestamp"] == before


def test_deletion_with_a_finalizer_is_a_modification_to_watchers(held: Space) -> None:
    start = held.read("configmaps")["metadata"]["resourceVersion"]
    query = {"resourceVersion": start, "fieldSelector": "metadata.name=a"}
    with held.watch("configmaps", **query) as stream:
        held.delete("configmaps/a").done()
        event = stream.next()
        assert event["type"] == "MODIFIED"
        assert event["object"]["metadata"]["deletionTimestamp"]
        held.patch("configmaps/a", {"metadata": {"finalizers": None}}).done()
        assert stream.seen(1) == [("DELETED", "a")]


def test_generation_counts_the_deletion(space: Space) -> None:
    labels = {"app": "a"}
    containers = [{"name": "main", "image": "redis:7.0"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "a", "finalizers": ["contract.test/hold"]}
    space.create("replicasets", {"metadata": metadata, "spec": spec})
    space.delete("replicasets/a").done()
    found = space.read("replicasets/a")["metadata"]
    space.patch("replicasets/a", {"metadata": {"finalizers": None}}).done()
    assert found["generation"] == 2


def test_bad_finalizer_name_is_refused(space: Space) -> None:
    reply = space.post("configmaps", {"metadata": {"name": "a", "finalizers": ["bad name"]}})
    reply.refused(422)
    assert {cause[0] for cause in reply.causes()} == {
        "metadata.finalizers",
        "metadata.finalizers[0]",
    }


def test_foreground_deletion_adds_its_finalizer(space: Space) -> None:
    space.create("configmaps", HELD)
    reply = space.delete("configmaps/a", {"propagationPolicy": "Foreground"})
    found = reply.json["metadata"]
    assert "foregroundDeletion" in found["finalizers"]
    space.patch("configmaps/a", {"metadata": {"finalizers": None}})


def test_orphan_deletion_adds_its_finalizer(space: Space) -> None:
    space.create("configmaps", HELD)
    found = space.delete("configmaps/a", propagationPolicy="Orphan").json["metadata"]
    assert "orphan" in found["finalizers"]
    space.patch("configmaps/a", {"metadata": {"finalizers": None}})


def test_background_deletion_adds_none(held: Space) -> None:
    found = held.delete("configmaps/a", propagationPolicy="Background").json["metadata"]
    assert found["finalizers"] == ["contract.test/hold"]


def test_unknown_propagation_is_refused(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    reply = space.delete("configmaps/a", propagationPolicy="Odd")
    reply.refused(422, "Invalid")
    assert reply.faults() == {("propagationPolicy", "FieldValueNotSupported")}


def test_orphan_dependents_and_propagation_exclude_each_other(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    options = {"propagationPolicy": "Orphan", "orphanDependents": True}
    space.delete("configmaps/a", options).refused(422, "Invalid")


def test_unbound_pod_is_gone_at_once(pods: Space) -> None:
    pods.create("pods", pod("a"))
    pods.delete("pods/a").done()
    pods.get("pods/a").refused(404)


def test_bound_pod_is_given_its_grace(pods: Space) -> None:
    pods.create("pods", pod("a", nodeName="nowhere", terminationGracePeriodSeconds=25))
    reply = pods.delete("pods/a")
    assert reply.status == 200
    metadata = pods.read("pods/a")["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 25
    assert metadata["deletionTimestamp"] > metadata["creationTimestamp"]
    pods.delete("pods/a", gracePeriodSeconds=0).done()
    pods.get("pods/a").refused(404)


def test_grace_can_be_shortened_but_not_lengthened(pods: Space) -> None:
    pods.create("pods", pod("a", nodeName="nowhere"))
    pods.delete("pods/a", gracePeriodSeconds=20).done()
    first = pods.read("pods/a")["metadata"]
    assert first["deletionGracePeriodSeconds"] == 20
    pods.delete("pods/a", gracePeriodSeconds=5).done()
    second = pods.read("pods/a")["metadata"]
    assert second["deletionGracePeriodSeconds"] == 5
    assert second["deletionTimestamp"] < first["deletionTimestamp"]
    pods.delete("pods/a", gracePeriodSeconds=60).done()
    assert pods.read("pods/a")["metadata"]["deletionGracePeriodSeconds"] == 5
    pods.delete("pods/a", {"gracePeriodSeconds": 0}).done()


def test_finished_pod_is_gone_at_once(pods: Space) -> None:
    pods.create("pods", pod("a", nodeName="nowhere"))
    pods.patch("pods/a/status", {"status": {"phase": "Succeeded"}}).done()
    pods.delete("pods/a").done()
    pods.get("pods/a").refused(404)


def test_negative_grace_means_one_second(pods: Space) -> None:
    pods.create("pods", pod("a", nodeName="nowhere"))
    pods.delete("pods/a", gracePeriodSeconds=-1).done()
    assert pods.read("pods/a")["metadata"]["deletionGracePeriodSeconds"] == 1
    pods.delete("pods/a", gracePeriodSeconds=0).done()


def test_collection_is_deleted(space: Space) -> None:
    for name in ("a", "b"):
        space.create("secrets", {"metadata": {"name": name}})
    reply = space.delete("secrets")
    assert reply.status == 200
    assert reply.json["kind"] == "SecretList"
    assert [item["metadata"]["name"] for item in reply.json["items"]] == ["a", "b"]
    assert space.names("secrets") == []


def test_collection_is_deleted_by_selector(space: Space) -> None:
    for name in ("a", "b", "c"):
        space.create("secrets", {"metadata": {"name": name, "labels": {"app": name}}})
    space.delete("secrets", labelSelector="app in (a,b)").done()
    assert space.names("secrets") == ["c"]


def test_collection_is_deleted_by_field(space: Space) -> None:
    for name in ("a", "b"):
        space.create("secrets", {"metadata": {"name": name}})
    space.delete("secrets", fieldSelector="metadata.name=a").done()
    assert space.names("secrets") == ["b"]


def test_collection_dry_run_deletes_nothing(space: Space) -> None:
    space.create("secrets", {"metadata": {"name": "a"}})
    space.delete("secrets", dryRun="All").done()
    assert space.names("secrets") == ["a"]


def test_collection_respects_finalizers(space: Space) -> None:
    space.create("secrets", HELD)
    space.delete("secrets").done()
    assert space.read("secrets/a")["metadata"]["deletionTimestamp"]
    space.patch("secrets/a", {"metadata": {"finalizers": None}}).done()


def test_services_can_be_deleted_as_a_collection(space: Space) -> None:
    space.create("services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    space.delete("services").done()
    assert space.names("services") == []


def test_wrong_delete_options_are_refused(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    status = space.delete("configmaps/a", body).refused(500)
    assert "ConfigMap" in status["message"]
    space.read("configmaps/a")
