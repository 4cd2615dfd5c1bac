"""Schemas: what they default, prune, refuse and are refused for.

`seen_validated.json` holds a schema and objects that a real API server (1.34) was given under it:
created, updated, and kept from a time when the schema was looser; with the causes it answered.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kubelocal.apiserver.conftest import Cluster

from kubelocal.apiserver.causes import (
    describe,
    duplicate,
    forbidden,
    go_number,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from kubelocal.apiserver.custom.cel.rules import find_violations
from kubelocal.apiserver.custom.schema import apply_defaults, prune
from kubelocal.apiserver.custom.validation import validate
from kubelocal.apiserver.objects.validation.definitions import check_definition

SEEN = json.loads((Path(__file__).parent / "seen_validated.json").read_text())
SCHEMA, CASES = SEEN[0], SEEN[1:]


def document(spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "K", "metadata": {"name": "c"}, "spec": copy.deepcopy(spec)}


@pytest.mark.parametrize("case", CASES, ids=[json.dumps(case["given"])[:60] for case in CASES])
def test_an_object_fares_as_on_the_real_server(case: dict[str, Any]) -> None:
    given_one = document(case["given"])
    old = None if case["old"] is None else document(case["old"])
    prune(SCHEMA, given_one)
    apply_defaults(SCHEMA, given_one)
    found = find_violations(SCHEMA, given_one, old)
    assert sorted([cause.field, cause.reason, cause.message] for cause in found) == case["causes"]
    if case["stored"] is not None:
        assert given_one["spec"] == case["stored"]


def spec_of(**properties: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties}
    return {"type": "object", "properties": {"spec": spec}}


def test_the_message_of_a_bound_is_that_of_kubernetes() -> None:
    schema = spec_of(shards={"type": "integer", "minimum": 3})
    (cause,) = validate(schema, {"spec": {"shards": 0}})
    assert str(cause) == (
        "spec.shards: Invalid value: 0: spec.shards in body should be greater than or equal to 3"
    )
    assert cause.reason == "FieldValueInvalid"


def test_unknown_fields_are_dropped_and_told() -> None:
    schema = spec_of(
        known={"type": "string"},
        free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        items={"type": "array", "items": {"type": "object", "properties": {"a": {}}}},
    )
    value = document({"known": "x", "nope": 1, "free": {"q": 1}, "items": [{"a": 1, "b": 2}]})
    value["metadata"]["odd"] = 1
    value["other"] = 1
    assert prune(schema, value) == ["metadata.odd", "other", "spec.items[0].b", "spec.nope"]
    assert value["spec"] == {"known": "x", "free": {"q": 1}, "items": [{"a": 1}]}


def test_pruning_starts_again_below_a_known_field_of_a_free_object() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    free = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"known": inner},
    }
    value = document({"free": {"known": {"a": "x", "b": "y"}, "other": {"z": 1}}})
    assert prune(spec_of(free=free), value) == ["spec.free.known.b"]


def test_defaults_reach_into_what_they_created_and_into_lists() -> None:
    item = {"type": "object", "properties": {"protocol": {"type": "string", "default": "TCP"}}}
    schema = spec_of(
        deep={"type": "object", "default": {}, "properties": {"n": {"default": 1}}},
        ports={"type": "array", "items": item},
        labels={"type": "object", "additionalProperties": item},
    )
    value = document({"ports": [{}, {"protocol": "UDP"}], "labels": {"a": {}}})
    apply_defaults(schema, value)
    assert value["spec"] == {
        "deep": {"n": 1},
        "ports": [{"protocol": "TCP"}, {"protocol": "UDP"}],
        "labels": {"a": {"protocol": "TCP"}},
    }


def test_nulls_are_replaced_kept_or_dropped_by_the_schema() -> None:
    schema = spec_of(
        filled={"type": "string", "default": "d"},
        kept={"type": "string", "nullable": True},
        dropped={"type": "string"},
    )
    value = document({"filled": None, "kept": None, "dropped": None})
    apply_defaults(schema, value)
    assert value["spec"] == {"filled": "d", "kept": None}


def test_a_default_is_not_shared_between_objects() -> None:
    schema = spec_of(list={"type": "array", "items": {"type": "string"}, "default": []})
    first, second = document({}), document({})
    apply_defaults(schema, first)
    first["spec"]["list"].append("x")
    apply_defaults(schema, second)
    assert second["spec"]["list"] == []


def problems_of(schema: dict[str, Any]) -> list[str]:
    version = {"name": "v1", "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    crd = {
        "metadata": {"name": "things.a.test"},
        "spec": {"group": "a.test", "names": names, "versions": [version]},
    }
    root = "spec.versions[0].schema.openAPIV3Schema."
    return [str(one).removeprefix(root) for one in check_definition(crd, None)]


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"properties": {}}, "type: Required"),
        (spec_of(a={}), "properties[spec].properties[a].type: Required"),
        (spec_of(a={"type": "array"}), "properties[spec].properties[a].items: Required"),
        (spec_of(a={"type": "array", "items": {}}),
         "properties[spec].properties[a].items.type: Required"),
        (spec_of(a={"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}),
         "properties[spec].properties[a].x-kubernetes-list-map-keys: Required"),
        (spec_of(a={"type": "text"}), "properties[spec].properties[a].type: Unsupported"),
        (spec_of(a={"type": "string", "pattern": "["}),
         "properties[spec].properties[a].pattern: Invalid"),
        (spec_of(a={"type": "string", "anyOf": [{"not": {"properties": {"b": {
            "properties": {"c": {"pattern": "["}}}}}}]}),
         "properties[spec].properties[a].anyOf.not.properties[b].properties[c].pattern: Invalid"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_served_is_refused(schema: dict[str, Any], problem: str) -> None:
    assert any(one.startswith(problem) for one in problems_of(schema))


def test_a_sound_schema_is_accepted() -> None:
    either = {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
    }
    assert problems_of(spec_of(a=either, b={"type": "object", "nullable": True})) == []


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        (required("a"), "a: Required value"),
        (invalid("a", "x\n", "is bad"), 'a: Invalid value: "x\\n": is bad'),
        (invalid("a", {"b": 1, "a": "<"}, "no"), 'a: Invalid value: {"a":"<","b":1}: no'),
        (invalid("a", True, "no"), "a: Invalid value: true: no"),
        (not_supported("a", "x", ["p", "q"]), ('a: Unsupported value: "x": '
         'supported values: "p", "q"')),
        (duplicate("a[1]", "x"), 'a[1]: Duplicate value: "x"'),
        (forbidden("a", "never"), "a: Forbidden: never"),
        (too_long("a", 5), "a: Too long: may not be more than 5 bytes"),
        (too_many("a", 3, 1), "a: Too many: 3: must have at most 1 item"),
    ],
)  # fmt: skip
def test_causes_are_worded_as_kubernetes_words_them(cause: Any, text: str) -> None:
    assert str(cause) == text


def test_several_causes_are_listed_once_each() -> None:
    assert describe([required("a"), required("a"), required("b")]) == (
        "[a: Required value, b: Required value]"
    )
    assert describe([required("a")]) == "a: Required value"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (0.5, "0.5"),
        (1e6, "1e+06"),
        (100000.5, "100000.5"),
        (1.25e-7, "1.25e-07"),
        (7, "7"),
    ],
)
def test_numbers_are_printed_as_go_prints_them(number: float, text: str) -> None:
    assert go_number(number) == text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.sampled_from("xyz"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(sorted(SCHEMA["properties"]["spec"]["properties"])), inner
        )
    ),
    max_leaves=12,
)


@given(VALUES)
def test_pruning_and_defaulting_twice_is_doing_it_once(value: Any) -> None:
    once = document(value)
    prune(SCHEMA, once)
    apply_defaults(SCHEMA, once)
    twice = copy.deepcopy(once)
    assert prune(SCHEMA, twice) == []
    apply_defaults(SCHEMA, twice)
    assert twice == once


@given(VALUES)
def test_what_did_not_change_is_never_refused(value: Any) -> None:
    same = document(value)
    apply_defaults(SCHEMA, same)
    assert validate(SCHEMA, same, copy.deepcopy(same)) == []


LOOSE = {"type": "object", "properties": {"k": {"type": "string"}}}
KEYED = {"type": "array", "items": LOOSE, "x-kubernetes-list-type": "map"}


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "integer", "default": "x"},
        {"type": "object", "default": []},
        {"type": "array", "items": LOOSE, "x-kubernetes-list-type": "odd"},
        {"type": "array", "items": LOOSE, "x-kubernetes-list-type": "set"},
        {**KEYED, "x-kubernetes-list-map-keys": ["k"]},
        {**KEYED, "x-kubernetes-list-map-keys": ["absent"]},
        {"type": "string", "$ref": "#/nowhere"},
        {"type": "object", "properties": {"k": {"type": "string"}}, "additionalProperties": LOOSE},
        {"type": "object", "anyOf": [{"type": "object", "default": 1, "nullable": True}]},
        {"type": "array", "items": LOOSE, "uniqueItems": True},
    ],
    ids=str,
)
def test_a_schema_that_only_a_real_cluster_refuses_breaks_no_request(
    cluster: Cluster, odd: dict[str, Any]
) -> None:
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    schema = {"openAPIV3Schema": spec_of(a=odd)}
    spec = {"group": "a.test", "scope": "Cluster", "names": names}
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    body = {
        "metadata": {"name": "things.a.test"},
        "spec": {**spec, "versions": [{**version, "schema": schema}]},
    }
    cluster.post(crds, body)
    things = "/apis/a.test/v1/things"
    kind = {"apiVersion": "a.test/v1", "kind": "Thing"}
    apply, merge = "application/apply-patch+yaml", "application/merge-patch+json"
    values: list[Any] = ["x", 1, [], [{}, {}], [{"k": "a"}], [[]], {}, {"k": "a"}, None]
    for number, value in enumerate(values):  # a failure inside the server would be raised here
        thing = {**kind, "metadata": {"name": f"t{number}"}, "spec": {"a": value}}
        path = f"{things}/t{number}"
        cluster.ask("PATCH", path, thing, media=apply, fieldManager="m")
        cluster.ask("PATCH", path, thing, media=apply, fieldManager="n")
        cluster.ask("POST", things, thing)
        cluster.ask("PATCH", path, {"spec": {"a": value}}, media=merge)
    assert cluster.ask("GET", things).status == 200
