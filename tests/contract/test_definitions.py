"""Custom resource definitions: what is accepted, served, printed and refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from contract.definitions import ROOT, definition, place, served, version
from contract.driver import Api, Space, until

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
def group(unique: str) -> str:
    return f"g{unique}.contract.test"


def thing(group: str, spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    schema = {"spec": spec or {"type": "object", "properties": {"size": NUMBER}}}
    return definition(group, "Thing", version("v1", schema, **more))


def test_names_and_conversion_are_filled_in(api: Api, group: str) -> None:
    body = definition(group, "Thing", version("v1", {}), names={"singular": ""})
    found = api.request("POST", ROOT, body, dryRun="All").object["spec"]
    assert found["names"] == {
        "kind": "Thing",
        "listKind": "ThingList",
        "plural": "things",
        "singular": "thing",
    }
    assert found["conversion"] == {"strategy": "None"}


def test_definition_is_established(api: Api, group: str) -> None:
    with served(api, thing(group)) as body:
        name = body["metadata"]["name"]
        found = api.request("GET", f"{ROOT}/{name}").object
        conditions = {each["type"]: each for each in found["status"]["conditions"]}
        assert conditions["NamesAccepted"]["status"] == "True"
        assert conditions["NamesAccepted"]["reason"] == "NoConflicts"
        assert conditions["NamesAccepted"]["message"] == "no conflicts found"
        assert conditions["Established"]["status"] == "True"
        assert conditions["Established"]["reason"] == "InitialNamesAccepted"
        assert conditions["Established"]["message"] == "the initial names have been accepted"
        assert found["status"]["storedVersions"] == ["v1"]
        assert found["status"]["acceptedNames"]["plural"] == "things"


BROKEN: list[tuple[str, dict[str, Any], set[tuple[str, str]]]] = [
    (
        "no type",
        {"properties": {"a": TEXT}},
        {("openAPIV3Schema.properties[spec].type", "FieldValueRequired")},
    ),
    (
        "unknown type",
        {"type": "objekt"},
        {("openAPIV3Schema.properties[spec].type", "FieldValueNotSupported")},
    ),
    (
        "keyed list without keys",
        {
            "type": "object",
            "properties": {
                "l": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "items": {"type": "object", "properties": {"a": TEXT}},
                }
            },
        },
        {
            (
                ("openAPIV3Schema.properties[spec].properties[l].x-kubernetes-list-map-keys"),
                "FieldValueRequired",
            )
        },
    ),
    (
        "rule over an unknown field",
        {
            "type": "object",
            "properties": {"l": NUMBER},
            "x-kubernetes-validations": [{"rule": "self.nope > 1"}],
        },
        {
            (
                "openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule",
                "FieldValueInvalid",
            )
        },
    ),
    (
        "rule that does not parse",
        {
            "type": "object",
            "properties": {"l": NUMBER},
            "x-kubernetes-validations": [{"rule": "self.l >"}],
        },
        {
            (
                "openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule",
                "FieldValueInvalid",
            )
        },
    ),
    (
        "pattern that does not parse",
        {"type": "object", "properties": {"l": {"type": "string", "pattern": "("}}},
        {
            (
                "openAPIV3Schema.properties[spec].properties[l].pattern",
                "FieldValueInvalid",
            )
        },
    ),
    (
        "list without items",
        {"type": "object", "properties": {"l": {"type": "array"}}},
        {
            (
                "openAPIV3Schema.properties[spec].properties[l].items",
                "FieldValueRequired",
            )
        },
    ),
]


@pytest.mark.parametrize(
    ("spec", "causes"), [each[1:] for each in BROKEN], ids=[each[0] for each in BROKEN]
)
def test_broken_schema_is_refused(
    api: Api, group: str, spec: dict[str, Any], causes: set[tuple[str, str]]
) -> None:
    reply = api.request("POST", ROOT, thing(group, spec))
    status = reply.refused(422, "Invalid")
    root = "openAPIV3Schema."
    found = {(field.partition(root)[2], reason) for field, reason, _ in reply.causes()}
    assert found == {(field.partition(root)[2], reason) for field, reason in causes}
    assert status["details"]["kind"] == "CustomResourceDefinition"
    assert status["details"]["group"] == "apiextensions.k8s.io"


def test_rule_that_does_not_compile_names_the_field(api: Api, group: str) -> None:
    rule = {"rule": "self.nope > 1"}
    spec = {"type": "object", "properties": {"l": NUMBER}, "x-kubernetes-validations": [rule]}
    status = api.request("POST", ROOT, thing(group, spec)).refused(422)
    assert "undefined field 'nope'" in status["message"]


def _no_storage(body: dict[str, Any]) -> None:
    body["spec"]["versions"][0]["storage"] = False


def _no_schema(body: dict[str, Any]) -> None:
    del body["spec"]["versions"][0]["schema"]


def _wrong_name(body: dict[str, Any]) -> None:
    body["metadata"]["name"] = "wrong." + body["spec"]["group"]


def _odd_scope(body: dict[str, Any]) -> None:
    body["spec"]["scope"] = "Odd"


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        pytest.param(_no_storage, {"spec.versions"}, id="no storage version"),
        pytest.param(_no_schema, {"spec.versions[0].schema.openAPIV3Schema"}, id="no schema"),
        pytest.param(_wrong_name, {"metadata.name"}, id="wrong name"),
        pytest.param(_odd_scope, {"spec.scope"}, id="odd scope"),
    ],
)
def test_broken_definition_is_refused(api: Api, group: str, change: Any, fields: set[str]) -> None:
    body = thing(group)
    change(body)
    reply = api.request("POST", ROOT, body)
    reply.refused(422, "Invalid")
    assert fields <= {cause[0] for cause in reply.causes()}


def test_scope_cannot_change(api: Api, group: str) -> None:
    with served(api, thing(group)) as body:
        path = f"{ROOT}/{body['metadata']['name']}"
        patch = {"spec": {"scope": "Cluster"}}
        reply = api.request("PATCH", path, patch, content="application/merge-patch+json")
        reply.refused(422)
        assert "spec.scope" in {cause[0] for cause in reply.causes()}


def test_unknown_custom_resource_is_not_found(api: Api, group: str) -> None:
    reply = api.request("GET", f"/apis/{group}/v1/things")
    assert reply.status == 404
    assert reply.text == "404 page not found\n"


def test_version_that_is_not_served_is_not_found(space: Space, group: str) -> None:
    body = definition(
        group, "Thing", version("v1", {}), version("v2", {}, served=False, storage=False)
    )
    with served(space.api, body):
        assert space.api.request("GET", f"/apis/{group}/v2/things").status == 404


def test_versions_show_the_same_object(space: Space, group: str) -> None:
    fields = {"type": "object", "properties": {"size": NUMBER, "more": TEXT}}
    less = {"type": "object", "properties": {"size": NUMBER}}
    body = definition(
        group,
        "Thing",
        version("v1", {"spec": less}, storage=False),
        version("v2", {"spec": fields}),
    )
    with served(space.api, body):
        place(space, body, "v2")
        made = space.create("things", {"metadata": {"name": "a"}, "spec": {"size": 1, "more": "x"}})
        assert made["apiVersion"] == f"{group}/v2"
        place(space, body, "v1")
        found = space.read("things/a")
        assert found["apiVersion"] == f"{group}/v1"
        assert found["metadata"]["uid"] == made["metadata"]["uid"]
        assert found["spec"] == {"size": 1}


def test_cluster_scoped_definition(space: Space, group: str) -> None:
    body = thing(group)
    body["spec"]["scope"] = "Cluster"
    with served(space.api, body):
        path = f"/apis/{group}/v1/things"
        item = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "a"}}
        made = space.api.request("POST", path, item).object
        assert "namespace" not in made["metadata"]
        assert space.api.request("GET", f"{path}/a").object["metadata"]["name"] == "a"
        reply = space.api.request("GET", f"/apis/{group}/v1/namespaces/{space.name}/things")
        assert reply.status == 404


def test_printer_columns_make_the_table(space: Space, group: str) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Names", "type": "string", "jsonPath": ".spec.names[*]", "priority": 1},
        {
            "name": "Ready",
            "type": "string",
            "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
        },
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    names = {"type": "array", "items": TEXT}
    spec = {"type": "object", "properties": {"size": NUMBER, "names": names}}
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    body = definition(
        group,
        "Thing",
        version("v1", {"spec": spec, "status": free}, additionalPrinterColumns=columns),
    )
    with served(space.api, body):
        place(space, body, "v1")
        status = {
            "conditions": [{"type": "Other", "status": "No"}, {"type": "Ready", "status": "Yes"}]
        }
        item = {"metadata": {"name": "a"}, "spec": {"size": 2, "names": ["x", "y"]}}
        space.create("things", {**item, "status": status})
        space.create("things", {"metadata": {"name": "b"}, "spec": {}})
        table = space.read("things", accept=TABLE)
    assert table["kind"] == "Table"
    assert [
        (each["name"], each["type"], each["priority"]) for each in table["columnDefinitions"]
    ] == [
        ("Name", "string", 0),
        ("Size", "integer", 0),
        ("Names", "string", 1),
        ("Ready", "string", 0),
        ("Age", "date", 0),
    ]
    assert table["rows"][0]["cells"][:4] == ["a", 2, "x", "Yes"]
    assert table["rows"][1]["cells"][:4] == ["b", None, None, None]


def test_default_table_has_name_and_age(space: Space, group: str) -> None:
    with served(space.api, thing(group)) as body:
        place(space, body, "v1")
        table = space.read("things", accept=TABLE)
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Age"]


def test_names_and_verbs_are_discovered(api: Api, group: str) -> None:
    body = thing(group, subresources={"status": {}})
    body["spec"]["names"] |= {"shortNames": ["th"], "categories": ["all"]}
    with served(api, body):
        found = api.request("GET", f"/apis/{group}/v1").object
    resources = {each["name"]: each for each in found["resources"]}
    assert set(resources) == {"things", "things/status"}
    assert resources["things"]["shortNames"] == ["th"]
    assert resources["things"]["categories"] == ["all"]
    assert resources["things"]["singularName"] == "thing"
    assert sorted(resources["things"]["verbs"]) == [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ]
    assert sorted(resources["things/status"]["verbs"]) == ["get", "patch", "update"]


def test_group_is_discovered(api: Api, group: str) -> None:
    with served(api, thing(group)):
        groups = api.request("GET", "/apis").object["groups"]
        [found] = [each for each in groups if each["name"] == group]
    assert found["preferredVersion"] == {"groupVersion": f"{group}/v1", "version": "v1"}


def changed(api: Api, body: dict[str, Any], schema: dict[str, Any]) -> None:
    """Put another schema of spec in force, and wait until it is."""
    after = copy.deepcopy(body["spec"]["versions"])
    whole = after[0]["schema"]["openAPIV3Schema"]
    whole["properties"]["spec"] = schema
    path = f"{ROOT}/{body['metadata']['name']}"
    patch = {"spec": {"versions": after}}
    api.request("PATCH", path, patch, content="application/merge-patch+json").done()


def test_unchanged_invalid_value_is_let_pass(space: Space, group: str) -> None:
    """A stricter schema does not block objects that broke it before (ratcheting)."""
    with served(space.api, thing(group)) as body:
        place(space, body, "v1")
        space.create("things", {"metadata": {"name": "old"}, "spec": {"size": 1}})
        strict = {
            "type": "object",
            "properties": {"size": {"type": "integer", "minimum": 5}, "other": TEXT},
        }
        changed(space.api, body, strict)
        probe = {"metadata": {"name": "new"}, "spec": {"size": 1}}
        until(
            "the stricter schema holds",
            lambda: space.post("things", probe, dryRun="All").status == 422,
        )
        after = space.patch("things/old", {"spec": {"other": "x"}})
        assert after.status == 200
        assert space.patch("things/old", {"spec": {"size": 2}}).status == 422


def test_unchanged_value_passes_a_new_rule(space: Space, group: str) -> None:
    with served(space.api, thing(group)) as body:
        place(space, body, "v1")
        space.create("things", {"metadata": {"name": "old"}, "spec": {"size": 1}})
        rule = {"rule": "self > 4", "message": "too small"}
        strict = {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "x-kubernetes-validations": [rule]},
                "other": TEXT,
            },
        }
        changed(space.api, body, strict)
        probe = {"metadata": {"name": "new"}, "spec": {"size": 1}}
        until("the rule holds", lambda: space.post("things", probe, dryRun="All").status == 422)
        assert space.patch("things/old", {"spec": {"other": "x"}}).status == 200
        reply = space.patch("things/old", {"spec": {"size": 2}})
        assert reply.causes() == {
            ("spec.size", "FieldValueInvalid", 'Invalid value: "integer": too small')
        }


def test_new_default_shows_in_old_objects(space: Space, group: str) -> None:
    with served(space.api, thing(group)) as body:
        place(space, body, "v1")
        space.create("things", {"metadata": {"name": "old"}, "spec": {}})
        more = {"type": "object", "properties": {"size": {"type": "integer", "default": 7}}}
        changed(space.api, body, more)
        until(
            "the default shows",
            lambda: space.read("things/old")["spec"] == {"size": 7},
        )


def test_deletion_takes_the_objects_with_it(space: Space, group: str) -> None:
    body = thing(group)
    with served(space.api, body):
        place(space, body, "v1")
        space.create("things", {"metadata": {"name": "a"}})
    path = f"/apis/{group}/v1/things"
    until("the resource is gone", lambda: space.api.request("GET", path).status == 404)
    until(
        "the definition is gone",
        lambda: space.api.request("GET", f"{ROOT}/{body['metadata']['name']}").status == 404,
    )
    with served(space.api, body):
        assert space.names("things") == []
