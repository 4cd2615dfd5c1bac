"""The built-in kinds, held to what a real API server (1.34) was seen to answer.

`seen_created.json`: objects given, what was stored of them, and who managed which fields.
`seen_refused.json`: objects, or changes of objects, with the causes of the refusal (none: taken).
Where a refusal points is held to that, its words are not: people here write few of these by hand.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kubelocal.apiserver.apply.merge import track
from kubelocal.apiserver.custom.schema import prune
from kubelocal.apiserver.kinds.filling import default
from kubelocal.apiserver.kinds.quantities import canonical_quantity, parse_quantity
from kubelocal.apiserver.kinds.schemas import definition, published, schema_of
from kubelocal.apiserver.kinds.table import BUILT_IN
from kubelocal.apiserver.objects.prepare import prepare
from kubelocal.apiserver.objects.validation.kinds import problems
from kubelocal.apiserver.patch.json_patch import merge_patch

HERE = Path(__file__).parent
CREATED = json.loads((HERE / "seen_created.json").read_text())
REFUSED = json.loads((HERE / "seen_refused.json").read_text())
# What a cluster adds that is not this module's to know: addresses, classes, times, tokens.
GIVEN_BY_CLUSTER = (
    ("spec", "clusterIP"),
    ("spec", "clusterIPs"),
    ("spec", "storageClassName"),
    ("spec", "taints"),
    ("spec", "volumes"),
    ("status", "lastPhaseTransitionTime"),
)


def group_of(document: dict[str, Any]) -> str:
    return document["apiVersion"].rpartition("/")[0]


def without_cluster(document: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    result = copy.deepcopy(document)
    for part, field in GIVEN_BY_CLUSTER:
        if field not in given.get(part, {}):
            result.get(part, {}).pop(field, None)
    for port in result.get("spec", {}).get("ports", ()):
        port.pop("nodePort", None)
    for container in result.get("spec", {}).get("containers", ()):
        container.pop("volumeMounts", None)
    return json.loads(re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UID", json.dumps(result)))


def completed(given: dict[str, Any]) -> dict[str, Any]:
    document = copy.deepcopy(given)
    default(group_of(document), document["kind"], document)
    document["metadata"]["uid"] = "UID"
    prepare(group_of(document), document["kind"], document)
    del document["metadata"]["uid"]
    return document


def names(cases: list[dict[str, Any]]) -> list[str]:
    return [f"{case['given']['kind']}/{case['given']['metadata']['name']}" for case in cases]


@pytest.mark.parametrize("case", CREATED, ids=names(CREATED))
def test_a_new_object_is_completed_as_the_real_server_does(case: dict[str, Any]) -> None:
    expected = without_cluster(case["stored"], case["given"])
    assert without_cluster(completed(case["given"]), case["given"]) == expected


@pytest.mark.parametrize("case", CREATED, ids=names(CREATED))
def test_the_creator_manages_what_the_real_server_says(case: dict[str, Any]) -> None:
    document = copy.deepcopy(case["given"])
    group, kind = group_of(document), document["kind"]
    default(group, kind, document)
    tracked = track(
        schema_of(group, "v1", kind),
        None,
        document,
        manager="m",
        operation="Update",
        version=document["apiVersion"],
        subresource="",
        now="2026-01-01T00:00:00Z",
        reset=("status",),
    )
    entries = tracked["metadata"].get("managedFields", [])
    assert [entry["fieldsV1"] for entry in entries] == case["fields"]


@pytest.mark.parametrize("case", CREATED, ids=names(CREATED))
def test_completing_twice_changes_nothing(case: dict[str, Any]) -> None:
    once = completed(case["given"])
    assert completed(once) == once


@pytest.mark.parametrize("case", CREATED, ids=names(CREATED))
def test_nothing_of_a_real_object_is_unknown_to_its_schema(case: dict[str, Any]) -> None:
    stored = copy.deepcopy(case["stored"])
    assert prune(schema_of(group_of(stored), "v1", stored["kind"]), stored) == []


def near(field: str, other: str) -> bool:
    return field.startswith(other) or other.startswith(field)


@pytest.mark.parametrize("case", REFUSED, ids=[case["name"] for case in REFUSED])
def test_an_object_is_refused_for_the_reasons_of_the_real_server(case: dict[str, Any]) -> None:
    old = case.get("old")
    document = copy.deepcopy(case["given"]) if old is None else merge_patch(old, case["change"])
    group, kind = group_of(document), document["kind"]
    default(group, kind, document)
    if old is None:
        document["metadata"]["uid"] = "UID"
        prepare(group, kind, document)
    found = {cause.field for cause in problems(group, kind, document, old)}
    seen = {field for field, _, _ in case["causes"]}
    assert bool(found) == bool(seen)
    if kind != "CustomResourceDefinition":  # there a real server names fields by a former version
        assert all(any(near(field, other) for other in seen) for field in found)


def test_a_named_update_strategy_gets_no_partition_with_it() -> None:
    named: dict[str, Any] = {"spec": {"updateStrategy": {"type": "RollingUpdate"}}}
    unnamed: dict[str, Any] = {"spec": {}}
    for document in (named, unnamed):
        default("apps", "StatefulSet", document)
    assert named["spec"]["updateStrategy"] == {"type": "RollingUpdate"}
    assert unnamed["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 0}


@pytest.mark.parametrize("resource", BUILT_IN, ids=lambda resource: resource.kind)
def test_every_served_kind_has_a_schema(resource: Any) -> None:
    schema = schema_of(resource.group, resource.version, resource.kind)
    assert schema["properties"]["metadata"]["x-definition"].endswith("ObjectMeta")


def test_schemas_are_published_with_references_that_lead_somewhere() -> None:
    definitions = published()

    def check(schema: Any) -> None:
        if isinstance(schema, dict):
            if isinstance(schema.get("$ref"), str):
                assert schema["$ref"] in definitions
            for value in schema.values():
                check(value)

    check(definitions)


def test_a_linked_schema_may_contain_itself() -> None:
    schema = definition("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    below = schema["properties"]["properties"]["additionalProperties"]
    assert below["properties"] is schema["properties"]


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("1024Mi", "1Gi"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1.5Gi", "1536Mi"),
        ("1e3", "1e3"),
        ("0", "0"),
        ("1000Ki", "1000Ki"),
        ("2000", "2k"),
        ("0.1Gi", "107374182400m"),
        ("x", "x"),
    ],
)
def test_amounts_are_written_canonically(given: str, written: str) -> None:
    assert canonical_quantity(given) == written
    assert parse_quantity(given) == parse_quantity(written)
