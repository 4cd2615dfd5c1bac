"""Custom resources: what their schema and rules refuse, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from contract.driver import Space
from contract.widgets import make

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
