"""Creating, reading, replacing: what the server fills in, keeps and refuses."""

from __future__ import annotations

import re

import pytest

from contract.driver import Space

MARK = {"metadata": {"name": "a"}, "data": {"k": "v"}}
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
UID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def test_create_answers_201_with_what_the_server_filled_in(space: Space) -> None:
    reply = space.post("configmaps", MARK)
    assert reply.status == 201
    assert reply.headers["content-type"] == "application/json"
    made = reply.json
    assert (made["kind"], made["apiVersion"], made["data"]) == ("ConfigMap", "v1", {"k": "v"})
    metadata = made["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("a", space.name)
    assert UID.match(metadata["uid"])
    assert TIME.match(metadata["creationTimestamp"])
    assert metadata["resourceVersion"].isdigit()
    assert "generation" not in metadata
    assert "selfLink" not in metadata


def test_get_gives_what_create_answered(space: Space) -> None:
    made = space.create("configmaps", MARK)
    assert space.read("configmaps/a") == made


def test_second_create_of_a_name_is_already_exists(space: Space) -> None:
    space.create("configmaps", MARK)
    status = space.post("configmaps", MARK).refused(409, "AlreadyExists")
    assert status["message"] == 'configmaps "a" already exists'
    assert status["details"] == {"name": "a", "kind": "configmaps"}


def test_absent_object_is_not_found(space: Space) -> None:
    status = space.get("configmaps/none").refused(404, "NotFound")
    assert status["message"] == 'configmaps "none" not found'
    assert status["details"] == {"name": "none", "kind": "configmaps"}
    assert status["metadata"] == {}


def test_absent_object_of_a_group_names_the_group(space: Space) -> None:
    status = space.get("deployments/none").refused(404, "NotFound")
    assert status["message"] == 'deployments.apps "none" not found'
    assert status["details"] == {"name": "none", "group": "apps", "kind": "deployments"}


def test_create_in_an_absent_namespace_is_refused(space: Space) -> None:
    path = "/api/v1/namespaces/contract-nowhere/configmaps"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    status = space.api.request("POST", path, body).refused(404, "NotFound")
    assert status["message"] == 'namespaces "contract-nowhere" not found'


def test_list_in_an_absent_namespace_is_empty(space: Space) -> None:
    found = space.api.request("GET", "/api/v1/namespaces/contract-nowhere/configmaps").object
    assert found["items"] == []


def test_name_is_required(space: Space) -> None:
    status = space.post("configmaps", {"metadata": {}}).refused(422, "Invalid")
    assert status["message"] == (
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    )
    assert status["details"]["causes"] == [
        {
            "reason": "FieldValueRequired",
            "message": "Required value: name or generateName is required",
            "field": "metadata.name",
        }
    ]


def test_generate_name_adds_five_characters(space: Space) -> None:
    made = space.create("configmaps", {"metadata": {"generateName": "made-"}})
    assert re.match(r"^made-[bcdfghjklmnpqrstvwxz2456789]{5}$", made["metadata"]["name"])
    assert made["metadata"]["generateName"] == "made-"


def test_generate_name_beside_a_name_is_kept_and_unused(space: Space) -> None:
    made = space.create("configmaps", {"metadata": {"name": "a", "generateName": "made-"}})
    assert made["metadata"]["name"] == "a"


def test_long_generate_name_is_cut_to_fit(space: Space) -> None:
    made = space.create("configmaps", {"metadata": {"generateName": "x" * 63}})
    assert len(made["metadata"]["name"]) == 63
    assert made["metadata"]["name"].startswith("x" * 58)


def test_uid_and_times_given_by_the_client_are_replaced(space: Space) -> None:
    given = {
        "name": "a",
        "uid": "11111111-1111-1111-1111-111111111111",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
        "selfLink": "/x",
    }
    metadata = space.create("configmaps", {"metadata": given})["metadata"]
    assert metadata["uid"] != given["uid"]
    assert metadata["creationTimestamp"] > "2020"
    assert "deletionTimestamp" not in metadata
    assert "deletionGracePeriodSeconds" not in metadata
    assert "selfLink" not in metadata


def test_resource_version_on_create_is_refused(space: Space) -> None:
    body = {"metadata": {"name": "a", "resourceVersion": "1"}}
    status = space.post("configmaps", body).refused(500)
    assert status["message"] == "resourceVersion should not be set on objects to be created"


def test_namespace_of_body_and_path_must_agree(space: Space) -> None:
    body = {"metadata": {"name": "a", "namespace": "other"}}
    status = space.post("configmaps", body).refused(400, "BadRequest")
    assert status["message"] == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )


def test_name_of_body_and_path_must_agree_on_replace(space: Space) -> None:
    space.create("configmaps", MARK)
    status = space.put("configmaps/a", {"metadata": {"name": "b"}}).refused(400, "BadRequest")
    assert status["message"] == (
        "the name of the object (b) does not match the name on the URL (a)"
    )


def test_kind_of_body_must_fit_the_resource(space: Space) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    status = space.post("configmaps", body).refused(400, "BadRequest")
    assert status["message"] == (
        'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret)'
        " to (core.ConfigMap): unknown conversion"
    )


def test_api_version_of_body_must_fit_the_resource(space: Space) -> None:
    body = {"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    status = space.post("configmaps", body).refused(400, "BadRequest")
    assert status["message"].startswith(
        'ConfigMap in version "v1" cannot be handled as a ConfigMap:'
        ' no kind "ConfigMap" is registered for version "apps/v1"'
    )


def test_body_without_kind_and_version_is_taken_for_the_resource(space: Space) -> None:
    made = space.api.request("POST", space.path("configmaps"), {"metadata": {"name": "a"}}).object
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param(
            "Upper",
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters,"
            " '-' or '.', and must start and end with an alphanumeric character"
            " (e.g. 'example.com',"
            " regex used for validation is"
            " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            id="upper case",
        ),
        pytest.param("x" * 254, "must be no more than 253 characters", id="too long"),
    ],
)
def test_bad_names_are_invalid(space: Space, name: str, message: str) -> None:
    reply = space.post("configmaps", {"metadata": {"name": name}})
    reply.refused(422, "Invalid")
    assert reply.causes() == {
        ("metadata.name", "FieldValueInvalid", f'Invalid value: "{name}": {message}')
    }


def test_service_names_are_labels(space: Space) -> None:
    body = {"metadata": {"name": "a.b"}, "spec": {"ports": [{"port": 80}]}}
    reply = space.post("services", body)
    reply.refused(422, "Invalid")
    [(field, reason, _)] = reply.causes()
    assert (field, reason) == ("metadata.name", "FieldValueInvalid")


def test_replace_answers_200_and_a_higher_version(space: Space) -> None:
    made = space.create("configmaps", MARK)
    reply = space.put("configmaps/a", {"metadata": {"name": "a"}, "data": {"k": "w"}})
    assert reply.status == 200
    after = reply.json["metadata"]
    assert int(after["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert after["uid"] == made["metadata"]["uid"]
    assert after["creationTimestamp"] == made["metadata"]["creationTimestamp"]


def test_replace_drops_what_is_not_sent(space: Space) -> None:
    space.create(
        "configmaps", {"metadata": {"name": "a", "labels": {"l": "1"}}, "data": {"k": "v"}}
    )
    after = space.put("configmaps/a", {"metadata": {"name": "a"}}).object
    assert "data" not in after
    assert "labels" not in after["metadata"]


def test_replace_of_an_absent_object_is_not_found(space: Space) -> None:
    space.put("configmaps/a", MARK).refused(404, "NotFound")


def test_replace_of_an_absent_lease_creates_it(space: Space) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "x"}}
    assert space.put("leases/a", body).status == 201


def test_replace_that_changes_nothing_keeps_the_version(space: Space) -> None:
    made = space.create("configmaps", MARK)
    same = space.put("configmaps/a", made).object
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_merge_patch_that_changes_nothing_keeps_the_version(space: Space) -> None:
    made = space.create("configmaps", MARK)
    same = space.patch("configmaps/a", {"data": {"k": "v"}}).object
    assert same == made


def test_immutable_config_map_cannot_change(space: Space) -> None:
    space.create("configmaps", {**MARK, "immutable": True})
    reply = space.patch("configmaps/a", {"data": {"k": "w"}})
    reply.refused(422, "Invalid")
    assert reply.causes() == {
        ("data", "FieldValueForbidden", "Forbidden: field is immutable when `immutable` is set")
    }


def test_secret_string_data_is_written_as_data_and_not_kept(space: Space) -> None:
    made = space.create("secrets", {"metadata": {"name": "a"}, "stringData": {"k": "word"}})
    assert made["data"] == {"k": "d29yZA=="}
    assert made["type"] == "Opaque"
    assert "stringData" not in made


def test_secret_type_is_immutable(space: Space) -> None:
    space.create("secrets", {"metadata": {"name": "a"}})
    reply = space.patch("secrets/a", {"type": "other"})
    assert reply.causes() == {
        ("type", "FieldValueInvalid", 'Invalid value: "other": field is immutable')
    }


def test_secret_data_must_be_base64(space: Space) -> None:
    reply = space.post("secrets", {"metadata": {"name": "a"}, "data": {"k": "*"}})
    status = reply.refused(400, "BadRequest")
    assert "illegal base64 data" in status["message"]


def test_labels_are_validated(space: Space) -> None:
    reply = space.post("configmaps", {"metadata": {"name": "a", "labels": {"bad key": "v"}}})
    status = reply.refused(422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == ["metadata.labels"]
    assert status["details"]["causes"][0]["message"] == (
        "Invalid value: \"bad key\": name part must consist of alphanumeric characters, '-', '_'"
        " or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or"
        " 'my.name',  or '123-abc', regex used for validation is"
        " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    )


def test_empty_maps_are_not_kept(space: Space) -> None:
    made = space.create("configmaps", {"metadata": {"name": "a", "labels": {}}, "data": {}})
    assert "labels" not in made["metadata"]
    assert "data" not in made


def test_null_fields_are_as_absent(space: Space) -> None:
    body = {"metadata": {"name": "a", "labels": None, "creationTimestamp": None}, "data": None}
    made = space.create("configmaps", body)
    assert "data" not in made
    assert "labels" not in made["metadata"]


def test_binary_data_and_data_may_not_share_a_key(space: Space) -> None:
    body = {"metadata": {"name": "a"}, "data": {"k": "v"}, "binaryData": {"k": "AA=="}}
    reply = space.post("configmaps", body)
    reply.refused(422)
    assert [cause[0] for cause in reply.causes()] == ["data[k]"]


def test_owner_references_are_validated(space: Space) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "b"}
    reply = space.post("configmaps", {"metadata": {"name": "a", "ownerReferences": [reference]}})
    reply.refused(422)
    assert reply.causes() == {
        (
            "metadata.ownerReferences.uid",
            "FieldValueInvalid",
            'Invalid value: "": must not be empty',
        )
    }


def test_only_one_owner_controls(space: Space) -> None:
    def reference(name: str) -> dict[str, object]:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": name,
            "uid": name,
            "controller": True,
        }

    owners = [reference("b"), reference("c")]
    reply = space.post("configmaps", {"metadata": {"name": "a", "ownerReferences": owners}})
    reply.refused(422)
    [(field, reason, message)] = reply.causes()
    assert (field, reason) == ("metadata.ownerReferences", "FieldValueInvalid")
    assert message.endswith(
        "Only one reference can have Controller set to true."
        ' Found "true" in references for ConfigMap/b and ConfigMap/c'
    )
