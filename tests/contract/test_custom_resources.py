"""Custom resources: schema, defaults, pruning, rules, subresources."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from contract.definitions import definition, place, served, version
from contract.driver import APPLY, STRATEGIC, Api, Space
from contract.fields import managers, owned

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "mode": {"type": "string", "enum": ["Fast", "Slow"]},
        "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "step": {"type": "integer", "multipleOf": 5},
        "ratio": {"type": "number", "exclusiveMinimum": True, "minimum": 0},
        "on": {"type": "boolean"},
        "port": {"x-kubernetes-int-or-string": True},
        "when": {"type": "string", "format": "date-time"},
        "address": {"type": "string", "format": "ipv4"},
        "big": {"type": "integer", "format": "int32"},
        "tags": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        "list": {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 3},
        "plain": {"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}},
        "rows": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": TEXT,
                    "value": TEXT,
                    "weight": {"type": "integer", "default": 1},
                },
            },
        },
        "whole": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {"a": TEXT, "b": TEXT},
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": TEXT, "maxProperties": 2},
        "nested": {
            "type": "object",
            "required": ["must"],
            "properties": {"must": TEXT, "deep": {"type": "string", "default": "d"}},
        },
        "filled": {
            "type": "object",
            "default": {},
            "properties": {"inner": {"type": "string", "default": "x"}},
        },
        "maybe": {"type": "string", "nullable": True, "default": "m"},
        "frozen": {
            "type": "string",
            "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "frozen cannot change"}
            ],
        },
        "shards": {"type": "integer"},
        "replicas": {"type": "integer"},
        "either": {
            "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
            "type": "object",
            "properties": {"x": TEXT, "y": TEXT},
        },
    },
    "x-kubernetes-validations": [
        {
            "rule": "!has(self.shards) || self.shards >= 3",
            "message": "shards must be at least 3",
            "fieldPath": ".shards",
            "reason": "FieldValueInvalid",
        },
        {
            "rule": "!has(self.shards) || !has(self.replicas) || self.shards > self.replicas",
            "messageExpression": "'shards %d against replicas %d'"
            ".format([self.shards, self.replicas])",
        },
        {
            "rule": "!has(oldSelf.shards) || has(self.shards)",
            "message": "shards cannot be removed",
        },
    ],
}
STATUS = {
    "type": "object",
    "properties": {
        "ready": NUMBER,
        "selector": TEXT,
        "replicas": NUMBER,
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": TEXT, "status": TEXT},
            },
        },
    },
}
SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


@pytest.fixture(scope="module")
def widget(api: Api) -> Iterator[dict[str, Any]]:
    group = f"c{uuid.uuid4().hex[:8]}.contract.test"
    subresources = {"status": {}, "scale": SCALE}
    body = definition(
        group,
        "Widget",
        version("v1", {"spec": SPEC, "status": STATUS}, subresources=subresources),
        names={"shortNames": ["wdg"], "categories": ["contract"]},
    )
    with served(api, body):
        yield body


@pytest.fixture
def widgets(space: Space, widget: dict[str, Any]) -> Space:
    return place(space, widget, "v1")


def make(widgets: Space, **spec: Any) -> dict[str, Any]:
    return widgets.create("widgets", {"metadata": {"name": "a"}, "spec": spec})


def test_custom_object_has_generation_and_uid(widgets: Space) -> None:
    made = make(widgets, name="abc")
    assert made["metadata"]["generation"] == 1
    assert made["metadata"]["uid"]
    assert made["kind"] == "Widget"


def test_defaults_are_filled_in(widgets: Space) -> None:
    made = make(widgets)
    assert made["spec"] == {"filled": {"inner": "x"}, "maybe": "m", "size": 3}


def test_defaults_of_an_absent_parent_are_not_filled_in(widgets: Space) -> None:
    assert "nested" not in make(widgets)["spec"]


def test_defaults_within_a_given_parent(widgets: Space) -> None:
    assert make(widgets, nested={"must": "x"})["spec"]["nested"] == {"must": "x", "deep": "d"}


def test_defaults_within_list_items(widgets: Space) -> None:
    assert make(widgets, rows=[{"id": "a"}])["spec"]["rows"] == [{"id": "a", "weight": 1}]


def test_null_of_a_field_that_is_not_nullable_is_replaced_by_its_default(widgets: Space) -> None:
    assert make(widgets, size=None)["spec"]["size"] == 3


def test_null_of_a_nullable_field_is_kept(widgets: Space) -> None:
    assert make(widgets, maybe=None)["spec"]["maybe"] is None


def test_unknown_fields_are_pruned(widgets: Space) -> None:
    made = make(widgets, odd=1, nested={"must": "x", "odd": 2})
    assert "odd" not in made["spec"]
    assert "odd" not in made["spec"]["nested"]


def test_unknown_fields_at_the_top_are_pruned(widgets: Space) -> None:
    made = widgets.create("widgets", {"metadata": {"name": "a"}, "odd": 1})
    assert "odd" not in made


def test_unknown_fields_are_preserved_where_the_schema_says_so(widgets: Space) -> None:
    assert make(widgets, free={"any": {"thing": [1, "x"]}})["spec"]["free"] == {
        "any": {"thing": [1, "x"]}
    }


def test_metadata_is_coerced_by_the_server_not_the_schema(widgets: Space) -> None:
    body = {"metadata": {"name": "a", "labels": {"x": 5}}, "spec": {}}
    status = widgets.post("widgets", body).refused(400, "BadRequest")
    assert "json: cannot unmarshal number into Go struct field" in status["message"]


UNCHECKED = (
    "<nil>",
    "FieldValueInvalid",
    (
        "Invalid value: null: some validation rules were not checked because the object was"
        " invalid; correct the existing errors to complete validation"
    ),
)
# With these the rules of the schema cannot be evaluated, and the answer says so.
BLOCKING = {
    "FieldValueTypeInvalid",
    "FieldValueRequired",
    "FieldValueNotSupported",
    "FieldValueTooLong",
    "FieldValueTooMany",
}


def told(causes: set[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    blocked = any(reason in BLOCKING for _, reason, _ in causes)
    return causes | {UNCHECKED} if blocked else causes


INVALID: list[tuple[str, dict[str, Any], set[tuple[str, str, str]]]] = [
    (
        "type",
        {"size": "x"},
        {
            (
                "spec.size",
                "FieldValueTypeInvalid",
                'Invalid value: "string": spec.size in body must be of type integer: "string"',
            )
        },
    ),
    (
        "object for text",
        {"name": {}},
        {
            (
                "spec.name",
                "FieldValueTypeInvalid",
                'Invalid value: "object": spec.name in body must be of type string: "object"',
            )
        },
    ),
    (
        "boolean for text",
        {"on": "yes"},
        {
            (
                "spec.on",
                "FieldValueTypeInvalid",
                'Invalid value: "string": spec.on in body must be of type boolean: "string"',
            )
        },
    ),
    (
        "minimum",
        {"size": 0},
        {
            (
                "spec.size",
                "FieldValueInvalid",
                "Invalid value: 0: spec.size in body should be greater than or equal to 1",
            )
        },
    ),
    (
        "maximum",
        {"size": 10},
        {
            (
                "spec.size",
                "FieldValueInvalid",
                "Invalid value: 10: spec.size in body should be less than or equal to 9",
            )
        },
    ),
    (
        "multiple",
        {"step": 7},
        {
            (
                "spec.step",
                "FieldValueInvalid",
                "Invalid value: 7: spec.step in body should be a multiple of 5",
            )
        },
    ),
    (
        "exclusive minimum",
        {"ratio": 0},
        {
            (
                "spec.ratio",
                "FieldValueInvalid",
                "Invalid value: 0: spec.ratio in body should be greater than 0",
            )
        },
    ),
    (
        "enumeration",
        {"mode": "Odd"},
        {
            (
                "spec.mode",
                "FieldValueNotSupported",
                'Unsupported value: "Odd": supported values: "Fast", "Slow"',
            )
        },
    ),
    (
        "pattern",
        {"name": "ABC"},
        {
            (
                "spec.name",
                "FieldValueInvalid",
                "Invalid value: \"ABC\": spec.name in body should match '^[a-z]+$'",
            )
        },
    ),
    (
        "too short",
        {"name": "a"},
        {
            (
                "spec.name",
                "FieldValueInvalid",
                'Invalid value: "a": spec.name in body should be at least 2 chars long',
            )
        },
    ),
    (
        "too long",
        {"name": "abcdef"},
        {("spec.name", "FieldValueTooLong", "Too long: may not be more than 5 bytes")},
    ),
    (
        "required",
        {"nested": {}},
        {("spec.nested.must", "FieldValueRequired", "Required value")},
    ),
    (
        "too many items",
        {"list": ["a", "b", "c", "d"]},
        {("spec.list", "FieldValueTooMany", "Too many: 4: must have at most 3 items")},
    ),
    (
        "too few items",
        {"list": []},
        {
            (
                "spec.list",
                "FieldValueInvalid",
                "Invalid value: 0: spec.list in body should have at least 1 items",
            )
        },
    ),
    (
        "too many properties",
        {"labels": {"a": "1", "b": "2", "c": "3"}},
        {("spec.labels", "FieldValueTooMany", "Too many: 3: must have at most 2 items")},
    ),
    (
        "type of an item",
        {"list": [1]},
        {
            (
                "spec.list[0]",
                "FieldValueTypeInvalid",
                'Invalid value: "integer": spec.list[0] in body must be of type string: "integer"',
            )
        },
    ),
    (
        "type of a map value",
        {"labels": {"a": 1}},
        {
            (
                "spec.labels.a",
                "FieldValueTypeInvalid",
                'Invalid value: "integer": spec.labels.a in body must be of type string: "integer"',
            )
        },
    ),
    (
        "integer or text",
        {"port": True},
        {
            (
                "spec.port",
                "FieldValueTypeInvalid",
                (
                    'Invalid value: "boolean": spec.port in body must be of type integer,string:'
                    ' "boolean"'
                ),
            )
        },
    ),
    (
        "duplicate in a set",
        {"tags": ["a", "a"]},
        {("spec.tags[1]", "FieldValueDuplicate", 'Duplicate value: "a"')},
    ),
    (
        "duplicate key",
        {"rows": [{"id": "a"}, {"id": "a"}]},
        {("spec.rows[1]", "FieldValueDuplicate", 'Duplicate value: {"id":"a"}')},
    ),
    (
        "format",
        {"when": "yesterday"},
        {
            (
                "spec.when",
                "FieldValueTypeInvalid",
                (
                    'Invalid value: "yesterday": spec.when in body must be of type date-time:'
                    ' "yesterday"'
                ),
            )
        },
    ),
    (
        "rule with a path and a message",
        {"shards": 2},
        {
            (
                "spec.shards",
                "FieldValueInvalid",
                'Invalid value: "object": shards must be at least 3',
            )
        },
    ),
    (
        "rule with a message expression",
        {"shards": 3, "replicas": 4},
        {("spec", "FieldValueInvalid", 'Invalid value: "object": shards 3 against replicas 4')},
    ),
]


@pytest.mark.parametrize(
    ("spec", "causes"), [each[1:] for each in INVALID], ids=[each[0] for each in INVALID]
)
def test_invalid_values_are_told_with_their_path(
    widgets: Space, spec: dict[str, Any], causes: set[tuple[str, str, str]]
) -> None:
    reply = widgets.post("widgets", {"metadata": {"name": "a"}, "spec": spec})
    status = reply.refused(422, "Invalid")
    assert reply.causes() == told(causes)
    assert status["details"]["kind"] == "Widget"
    assert status["details"]["name"] == "a"
    assert status["message"].startswith("Widget.")


def test_all_problems_are_told_at_once(widgets: Space) -> None:
    spec = {"size": 0, "mode": "Odd", "nested": {}}
    reply = widgets.post("widgets", {"metadata": {"name": "a"}, "spec": spec})
    reply.refused(422)
    fields = {cause[0] for cause in reply.causes()}
    assert fields == {"spec.size", "spec.mode", "spec.nested.must", "<nil>"}


def test_format_of_an_integer_is_not_enforced(widgets: Space) -> None:
    assert make(widgets, big=2**40)["spec"]["big"] == 2**40


def test_port_may_be_number_or_text(widgets: Space) -> None:
    assert make(widgets, port=80)["spec"]["port"] == 80
    found = widgets.patch("widgets/a", {"spec": {"port": "http"}}).object
    assert found["spec"]["port"] == "http"


def test_whole_number_written_as_a_fraction_is_an_integer(widgets: Space) -> None:
    body = b'{"apiVersion":"%s","kind":"Widget","metadata":{"name":"a"},"spec":{"size":2.0}}'
    text = body % widgets.kinds["widgets"][0].encode()
    made = widgets.api.request("POST", widgets.path("widgets"), text).object
    assert made["spec"]["size"] == 2


def test_one_of_must_hold(widgets: Space) -> None:
    spec = {"either": {"x": "1", "y": "2"}}
    reply = widgets.post("widgets", {"metadata": {"name": "a"}, "spec": spec})
    reply.refused(422)
    assert reply.causes() == {
        (
            "<nil>",
            "FieldValueInvalid",
            (
                'Invalid value: "": "spec.either" must validate one and only one schema (oneOf).'
                " Found 2 valid alternatives"
            ),
        )
    }


def test_transition_rule_compares_with_the_old(widgets: Space) -> None:
    make(widgets, frozen="x")
    reply = widgets.patch("widgets/a", {"spec": {"frozen": "y"}})
    reply.refused(422)
    assert reply.causes() == {
        ("spec.frozen", "FieldValueInvalid", 'Invalid value: "string": frozen cannot change')
    }


def test_transition_rule_does_not_hold_for_a_new_field(widgets: Space) -> None:
    make(widgets)
    assert widgets.patch("widgets/a", {"spec": {"frozen": "y"}}).status == 200


def test_transition_rule_over_the_parent(widgets: Space) -> None:
    make(widgets, shards=3)
    reply = widgets.patch("widgets/a", {"spec": {"shards": None}})
    assert reply.causes() == {
        ("spec", "FieldValueInvalid", 'Invalid value: "object": shards cannot be removed')
    }


def test_status_is_not_written_by_create(widgets: Space) -> None:
    body = {"metadata": {"name": "a"}, "spec": {}, "status": {"ready": 1}}
    assert "status" not in widgets.create("widgets", body)


def test_status_is_not_written_by_replace(widgets: Space) -> None:
    made = make(widgets)
    after = widgets.put("widgets/a", {**made, "status": {"ready": 1}}).object
    assert "status" not in after
    assert after["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_status_subresource_writes_only_status(widgets: Space) -> None:
    made = make(widgets)
    body = {**made, "spec": {"size": 5}, "status": {"ready": 1}}
    body["metadata"] = {**made["metadata"], "labels": {"x": "y"}}
    after = widgets.put("widgets/a/status", body).object
    assert after["status"] == {"ready": 1}
    assert after["spec"] == made["spec"]
    assert "labels" not in after["metadata"]
    assert after["metadata"]["generation"] == 1


def test_status_is_validated(widgets: Space) -> None:
    make(widgets)
    reply = widgets.patch("widgets/a/status", {"status": {"ready": "x"}})
    reply.refused(422)
    assert {cause[0] for cause in reply.causes()} == {"status.ready", "<nil>"}


def test_status_is_pruned(widgets: Space) -> None:
    make(widgets)
    after = widgets.patch("widgets/a/status", {"status": {"ready": 1, "odd": 2}}).object
    assert after["status"] == {"ready": 1}


def test_generation_counts_spec_changes_only(widgets: Space) -> None:
    make(widgets)
    widgets.patch("widgets/a", {"metadata": {"annotations": {"x": "y"}}}).done()
    widgets.patch("widgets/a/status", {"status": {"ready": 1}}).done()
    assert widgets.read("widgets/a")["metadata"]["generation"] == 1
    after = widgets.patch("widgets/a", {"spec": {"size": 4}}).object
    assert after["metadata"]["generation"] == 2


def test_scale_subresource_reads_the_paths(widgets: Space) -> None:
    make(widgets, replicas=2)
    status = {"replicas": 1, "selector": "app=a"}
    widgets.patch("widgets/a/status", {"status": status}).done()
    scale = widgets.read("widgets/a/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == status


def test_scale_subresource_writes_the_spec(widgets: Space) -> None:
    make(widgets, replicas=2)
    scale = widgets.patch("widgets/a/scale", {"spec": {"replicas": 5}}).object
    assert scale["spec"] == {"replicas": 5}
    after = widgets.read("widgets/a")
    assert after["spec"]["replicas"] == 5
    assert after["metadata"]["generation"] == 2


def test_scale_below_zero_is_refused(widgets: Space) -> None:
    make(widgets, replicas=2)
    reply = widgets.patch("widgets/a/scale", {"spec": {"replicas": -1}})
    reply.refused(422)
    assert [cause[0] for cause in reply.causes()] == [".spec.replicas"]


def test_scale_with_a_stale_version_is_a_conflict(widgets: Space) -> None:
    make(widgets, replicas=2)
    scale = widgets.read("widgets/a/scale")
    widgets.patch("widgets/a", {"spec": {"size": 4}}).done()
    scale["spec"]["replicas"] = 3
    widgets.put("widgets/a/scale", scale).refused(409, "Conflict")


def test_strategic_merge_is_not_for_custom_resources(widgets: Space) -> None:
    make(widgets)
    reply = widgets.patch("widgets/a", {"spec": {}}, STRATEGIC)
    status = reply.refused(415, "UnsupportedMediaType")
    assert status["message"].startswith("the body of the request was in an unknown format")


def test_merge_patch_replaces_lists(widgets: Space) -> None:
    make(widgets, rows=[{"id": "a"}, {"id": "b"}])
    found = widgets.patch("widgets/a", {"spec": {"rows": [{"id": "c"}]}}).object
    assert [row["id"] for row in found["spec"]["rows"]] == ["c"]


def test_list_of_custom_objects_has_kinds(widgets: Space) -> None:
    make(widgets)
    found = widgets.read("widgets")
    assert found["kind"] == "WidgetList"
    assert found["items"][0]["kind"] == "Widget"


def test_custom_objects_are_watched(widgets: Space) -> None:
    start = widgets.read("widgets")["metadata"]["resourceVersion"]
    with widgets.watch("widgets", resourceVersion=start) as stream:
        make(widgets)
        widgets.patch("widgets/a/status", {"status": {"ready": 1}}).done()
        widgets.delete("widgets/a").done()
        assert [kind for kind, _ in stream.seen(3)] == ["ADDED", "MODIFIED", "DELETED"]


def test_field_selector_by_name_and_namespace_only(widgets: Space) -> None:
    make(widgets)
    assert widgets.names("widgets", fieldSelector="metadata.name=a") == ["a"]
    widgets.get("widgets", fieldSelector="spec.size=3").refused(400, "BadRequest")


def apply(widgets: Space, manager: str, **spec: Any) -> Any:
    return widgets.apply("widgets/a", {"spec": spec}, manager)


def test_apply_owns_what_was_sent_and_not_the_defaults(widgets: Space) -> None:
    found = apply(widgets, "one", name="abc", nested={"must": "x"}).object
    assert owned(found, "one") == {"f:spec": {"f:name": {}, "f:nested": {"f:must": {}}}}
    assert found["spec"]["size"] == 3


def test_apply_merges_a_keyed_list(widgets: Space) -> None:
    apply(widgets, "one", rows=[{"id": "a", "value": "1"}]).done()
    found = apply(widgets, "two", rows=[{"id": "b", "value": "2"}]).object
    assert [row["id"] for row in found["spec"]["rows"]] == ["a", "b"]
    assert owned(found, "two") == {
        "f:spec": {"f:rows": {'k:{"id":"b"}': {".": {}, "f:id": {}, "f:value": {}}}}
    }


def test_apply_removes_a_dropped_entry_of_a_keyed_list(widgets: Space) -> None:
    apply(widgets, "one", rows=[{"id": "a"}, {"id": "b"}]).done()
    found = apply(widgets, "one", rows=[{"id": "b"}]).object
    assert [row["id"] for row in found["spec"]["rows"]] == ["b"]


def test_apply_keeps_the_order_of_the_applier(widgets: Space) -> None:
    apply(widgets, "one", rows=[{"id": "a"}, {"id": "b"}]).done()
    found = apply(widgets, "one", rows=[{"id": "b"}, {"id": "a"}]).object
    assert [row["id"] for row in found["spec"]["rows"]] == ["b", "a"]


def test_apply_merges_a_set(widgets: Space) -> None:
    apply(widgets, "one", tags=["a", "b"]).done()
    found = apply(widgets, "two", tags=["b", "c"]).object
    assert found["spec"]["tags"] == ["a", "b", "c"]
    after = apply(widgets, "one").object
    assert after["spec"]["tags"] == ["b", "c"]


def test_apply_replaces_a_plain_list(widgets: Space) -> None:
    apply(widgets, "one", plain=[{"a": "1"}]).done()
    status = apply(widgets, "two", plain=[{"a": "2"}]).refused(409)
    assert [cause["field"] for cause in status["details"]["causes"]] == [".spec.plain"]


def test_apply_of_an_atomic_map_conflicts_whole(widgets: Space) -> None:
    found = apply(widgets, "one", whole={"a": "1"}).object
    assert owned(found, "one") == {"f:spec": {"f:whole": {}}}
    status = apply(widgets, "two", whole={"b": "1"}).refused(409)
    assert [cause["field"] for cause in status["details"]["causes"]] == [".spec.whole"]


def test_apply_of_a_free_field_owns_its_leaves(widgets: Space) -> None:
    found = apply(widgets, "one", free={"x": {"y": 1}, "z": [1]}).object
    assert owned(found, "one") == {"f:spec": {"f:free": {"f:x": {".": {}, "f:y": {}}, "f:z": {}}}}


def test_apply_of_a_map_owns_its_keys(widgets: Space) -> None:
    apply(widgets, "one", labels={"x": "1"}).done()
    found = apply(widgets, "two", labels={"y": "1"}).object
    assert found["spec"]["labels"] == {"x": "1", "y": "1"}
    assert owned(found, "two") == {"f:spec": {"f:labels": {"f:y": {}}}}


def test_apply_of_an_unknown_field_is_refused(widgets: Space) -> None:
    status = apply(widgets, "one", odd=1).refused(500)
    assert ".spec.odd: field not declared in schema" in status["message"]


def test_apply_is_validated_after_merging(widgets: Space) -> None:
    apply(widgets, "one", shards=3).done()
    reply = apply(widgets, "two", replicas=4)
    reply.refused(422)
    assert reply.causes() == {
        ("spec", "FieldValueInvalid", 'Invalid value: "object": shards 3 against replicas 4')
    }


def test_apply_of_status_is_a_manager_of_its_own(widgets: Space) -> None:
    apply(widgets, "one", name="abc").done()
    intent = {
        "apiVersion": widgets.kinds["widgets"][0],
        "kind": "Widget",
        "metadata": {"name": "a"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    found = widgets.patch("widgets/a/status", intent, APPLY, fieldManager="one").object
    assert managers(found) == [("one", "Apply", ""), ("one", "Apply", "status")]
    assert owned(found, "one", "status") == {
        "f:status": {
            "f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:status": {}, "f:type": {}}}
        }
    }


def test_conditions_of_two_managers_live_side_by_side(widgets: Space) -> None:
    make(widgets)
    for manager, kind in (("one", "Ready"), ("two", "Healthy")):
        intent = {
            "apiVersion": widgets.kinds["widgets"][0],
            "kind": "Widget",
            "metadata": {"name": "a"},
            "status": {"conditions": [{"type": kind, "status": "True"}]},
        }
        found = widgets.patch("widgets/a/status", intent, APPLY, fieldManager=manager).object
    assert [each["type"] for each in found["status"]["conditions"]] == ["Ready", "Healthy"]


def test_update_owns_the_defaults_too(widgets: Space) -> None:
    made = widgets.create("widgets", {"metadata": {"name": "a"}, "spec": {}}, fieldManager="w")
    assert owned(made, "w") == {
        "f:spec": {
            ".": {},
            "f:filled": {".": {}, "f:inner": {}},
            "f:maybe": {},
            "f:size": {},
        }
    }


def test_strict_validation_refuses_unknown_fields(widgets: Space) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"odd": 1}}
    status = widgets.post("widgets", body, fieldValidation="Strict").refused(400, "BadRequest")
    assert status["message"] == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error:'
        ' unknown field "spec.odd"'
    )


def test_unknown_fields_are_warned_of(widgets: Space) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"odd": 1}}
    reply = widgets.post("widgets", body, fieldValidation="Warn")
    assert reply.status == 201
    assert reply.warnings == '299 - "unknown field \\"spec.odd\\""'


def test_name_label_of_a_custom_object_is_validated(widgets: Space) -> None:
    reply = widgets.post("widgets", {"metadata": {"name": "UPPER"}, "spec": {}})
    reply.refused(422)
    assert [cause[0] for cause in reply.causes()] == ["metadata.name"]


def test_put_to_an_absent_custom_object_is_not_found(widgets: Space) -> None:
    body = {"metadata": {"name": "a"}, "spec": {}}
    status = widgets.put("widgets/a", body).refused(404, "NotFound")
    group = widgets.kinds["widgets"][0].split("/")[0]
    assert status["message"] == f'widgets.{group} "a" not found'


def test_put_needs_a_version(widgets: Space) -> None:
    make(widgets)
    reply = widgets.put("widgets/a", {"metadata": {"name": "a"}, "spec": {}})
    reply.refused(422, "Invalid")
    assert reply.causes() == {
        (
            "metadata.resourceVersion",
            "FieldValueInvalid",
            "Invalid value: 0: must be specified for an update",
        )
    }
