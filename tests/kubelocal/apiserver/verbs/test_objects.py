"""Create, read, change and delete, as every client does it."""

from __future__ import annotations

from typing import Any

MAPS = "/api/v1/namespaces/default/configmaps"


def config(name: str = "a", **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": data or {"key": "value"},
    }


def test_created_object_gets_its_identity_and_can_be_read(cluster):
    made = cluster.post(MAPS, config())
    metadata = made["metadata"]
    assert metadata["uid"]
    assert metadata["creationTimestamp"] == "2030-01-01T00:00:00Z"
    assert metadata["namespace"] == "default"
    assert cluster.get(f"{MAPS}/a") == made


def test_name_that_is_taken_is_refused(cluster):
    cluster.post(MAPS, config())
    refused = cluster.bad(cluster.ask("POST", MAPS, config()))
    assert (refused["code"], refused["reason"]) == (409, "AlreadyExists")
    assert refused["message"] == 'configmaps "a" already exists'


def test_update_of_an_old_version_is_a_conflict(cluster):
    made = cluster.post(MAPS, config())
    cluster.put(f"{MAPS}/a", made | {"data": {"key": "new"}})
    refused = cluster.bad(cluster.ask("PUT", f"{MAPS}/a", made | {"data": {"key": "late"}}))
    assert refused["reason"] == "Conflict"
    assert cluster.get(f"{MAPS}/a")["data"] == {"key": "new"}


def test_update_that_changes_nothing_keeps_the_version(cluster):
    made = cluster.post(MAPS, config())
    cluster.pass_time(60)
    assert cluster.put(f"{MAPS}/a", made) == made


def test_dry_run_leaves_nothing_behind(cluster):
    shown = cluster.post(MAPS, config(), dryRun="All")
    assert shown["metadata"]["uid"]
    assert cluster.ask("GET", f"{MAPS}/a").status == 404


def test_generated_names_begin_as_asked_and_differ(cluster):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-"}}
    names = {cluster.post(MAPS, body)["metadata"]["name"] for _ in range(50)}
    assert len(names) == 50
    assert all(name.startswith("x-") and len(name) == 7 for name in names)


def test_object_with_finalizer_stays_until_it_is_removed(cluster):
    body = config()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.post(MAPS, body)
    marked = cluster.delete(f"{MAPS}/a")
    assert marked["metadata"]["deletionTimestamp"]
    cluster.merge(f"{MAPS}/a", {"metadata": {"finalizers": None}})
    assert cluster.ask("GET", f"{MAPS}/a").status == 404


def test_deletion_of_another_object_of_the_same_name_is_refused(cluster):
    cluster.post(MAPS, config())
    refused = cluster.bad(cluster.ask("DELETE", f"{MAPS}/a", {"preconditions": {"uid": "another"}}))
    assert refused["reason"] == "Conflict"
    assert cluster.get(f"{MAPS}/a")


def test_nothing_is_created_in_a_namespace_that_is_not_there(cluster):
    refused = cluster.bad(cluster.ask("POST", "/api/v1/namespaces/no/configmaps", config()))
    assert refused["message"] == 'namespaces "no" not found'


def test_deleted_default_account_comes_back_but_not_to_a_dying_namespace(cluster):
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "n"}})
    path = "/api/v1/namespaces/n/serviceaccounts/default"
    before = cluster.get(path)["metadata"]["uid"]
    cluster.delete(path)
    assert cluster.get(path)["metadata"]["uid"] != before
    held = {"metadata": {"name": "held", "finalizers": ["example.org/hold"]}}
    cluster.post("/api/v1/namespaces/n/configmaps", held)
    cluster.delete("/api/v1/namespaces/n")
    assert cluster.ask("GET", path).status == 404
    assert cluster.get("/api/v1/namespaces/n")["status"]["phase"] == "Terminating"


def test_namespace_takes_its_content_with_it(cluster):
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
    cluster.post("/api/v1/namespaces", body)
    cluster.post("/api/v1/namespaces/n/configmaps", config())
    assert cluster.delete("/api/v1/namespaces/n")["status"]["phase"] == "Terminating"
    assert cluster.ask("GET", "/api/v1/namespaces/n").status == 404
    assert cluster.ask("GET", "/api/v1/namespaces/n/configmaps/a").status == 404
