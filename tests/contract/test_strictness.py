"""Dry runs and field validation."""

from __future__ import annotations

import pytest

from contract.driver import JSON_PATCH, MERGE, STRATEGIC, Space

ODD = {"metadata": {"name": "a"}, "data": {"k": "v"}, "odd": 1}


def test_dry_create_answers_as_if_and_stores_nothing(space: Space) -> None:
    reply = space.post("secrets", {"metadata": {"name": "a"}}, dryRun="All")
    assert reply.status == 201
    assert reply.json["metadata"]["uid"]
    assert "resourceVersion" not in reply.json["metadata"]
    space.get("secrets/a").refused(404)


def test_dry_create_of_what_exists_is_refused(space: Space) -> None:
    space.create("secrets", {"metadata": {"name": "a"}})
    space.post("secrets", {"metadata": {"name": "a"}}, dryRun="All").refused(409, "AlreadyExists")


def test_dry_patch_changes_nothing(space: Space) -> None:
    made = space.create("configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}})
    found = space.patch("configmaps/a", {"data": {"k": "w"}}, dryRun="All").object
    assert found["data"] == {"k": "w"}
    assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert space.read("configmaps/a") == made


def test_dry_replace_changes_nothing(space: Space) -> None:
    made = space.create("configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}})
    assert space.put("configmaps/a", {"metadata": {"name": "a"}}, dryRun="All").status == 200
    assert space.read("configmaps/a") == made


def test_dry_delete_deletes_nothing(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    assert space.delete("configmaps/a", dryRun="All").status == 200
    assert space.delete("configmaps/a", {"dryRun": ["All"]}).status == 200
    space.read("configmaps/a")


def test_dry_run_is_validated(space: Space) -> None:
    space.post("configmaps", {"metadata": {"name": "A"}}, dryRun="All").refused(422, "Invalid")


def test_unknown_dry_run_is_refused(space: Space) -> None:
    status = space.post("configmaps", {"metadata": {"name": "a"}}, dryRun="Odd").refused(422)
    assert status["message"] == (
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Odd"]:'
        ' supported values: "All"'
    )


def test_dry_run_is_not_watched(space: Space) -> None:
    start = space.read("secrets")["metadata"]["resourceVersion"]
    with space.watch("secrets", resourceVersion=start) as stream:
        space.post("secrets", {"metadata": {"name": "dry"}}, dryRun="All").done()
        space.create("secrets", {"metadata": {"name": "wet"}})
        assert stream.seen(1) == [("ADDED", "wet")]


def test_unknown_field_is_dropped_by_default_with_a_warning(space: Space) -> None:
    reply = space.post("configmaps", ODD)
    assert reply.status == 201
    assert "odd" not in reply.json
    assert reply.warnings == '299 - "unknown field \\"odd\\""'


def test_unknown_field_is_silent_when_ignored(space: Space) -> None:
    reply = space.post("configmaps", ODD, fieldValidation="Ignore")
    assert reply.status == 201
    assert reply.warnings == ""


def test_unknown_field_is_refused_when_strict(space: Space) -> None:
    status = space.post("configmaps", ODD, fieldValidation="Strict").refused(400, "BadRequest")
    assert status["message"] == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error:'
        ' unknown field "odd"'
    )


def test_strict_names_the_whole_path(space: Space) -> None:
    spec = {"containers": [{"name": "a", "image": "b", "odd": 1, "resources": {"more": 2}}]}
    body = {"metadata": {"name": "a"}, "spec": spec}
    status = space.post("pods", body, fieldValidation="Strict").refused(400, "BadRequest")
    assert status["message"] == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field'
        ' "spec.containers[0].odd", unknown field "spec.containers[0].resources.more"'
    )


def test_duplicate_field_is_refused_when_strict(space: Space) -> None:
    text = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"b"}}'
    status = space.post("configmaps", text, fieldValidation="Strict").refused(400, "BadRequest")
    assert 'duplicate field "metadata.name"' in status["message"]


def test_duplicate_field_is_warned_of(space: Space) -> None:
    text = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"b"}}'
    reply = space.post("configmaps", text)
    assert reply.json["metadata"]["name"] == "b"
    assert reply.warnings == '299 - "duplicate field \\"metadata.name\\""'


def test_unknown_field_validation_is_refused(space: Space) -> None:
    status = space.post("configmaps", ODD, fieldValidation="Odd").refused(422, "Invalid")
    assert status["message"] == (
        'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Odd":'
        ' supported values: "", "Ignore", "Strict", "Warn"'
    )


def test_strict_merge_patch_refuses_unknown_fields(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    reply = space.patch("configmaps/a", {"odd": 1}, MERGE, fieldValidation="Strict")
    status = reply.refused(422, "Invalid")
    assert 'strict decoding error: unknown field "odd"' in status["message"]


def test_strict_strategic_patch_refuses_unknown_fields(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    reply = space.patch("configmaps/a", {"odd": 1}, STRATEGIC, fieldValidation="Strict")
    status = reply.refused(422, "Invalid")
    assert status["message"].startswith(' "" is invalid: patch: Invalid value: ')
    assert 'strict decoding error: unknown field "odd"' in status["message"]


def test_strict_json_patch_refuses_unknown_fields(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    operations = [{"op": "add", "path": "/odd", "value": 1}]
    reply = space.patch("configmaps/a", operations, JSON_PATCH, fieldValidation="Strict")
    status = reply.refused(422, "Invalid")
    assert 'strict decoding error: unknown field "odd"' in status["message"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("data", {"k": 5}), ("data", ["k"]), ("immutable", "yes")],
    ids=["number for text", "list for map", "text for boolean"],
)
def test_wrong_type_is_a_bad_request_that_names_the_field(
    space: Space, field: str, value: object
) -> None:
    reply = space.post("configmaps", {"metadata": {"name": "a"}, field: value})
    message = reply.refused(400, "BadRequest")["message"]
    start = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
    assert message.startswith(start)
    assert field in message.removeprefix(start)


def test_wrong_quantity_is_a_bad_request(space: Space) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1 gig"}}}
    reply = space.post("persistentvolumeclaims", {"metadata": {"name": "a"}, "spec": spec})
    status = reply.refused(400, "BadRequest")
    assert "quantities must match the regular expression" in status["message"]
