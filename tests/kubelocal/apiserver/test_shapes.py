"""The quick check of objects never accepts what the thorough one would refuse or change."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kubelocal.apiserver.custom.schema import prune
from kubelocal.apiserver.format.field_types import mistyped
from kubelocal.apiserver.kinds.schemas import schema_of
from kubelocal.apiserver.kinds.table import Registry
from kubelocal.apiserver.verbs.field_validation import check_metadata
from kubelocal.apiserver.verbs.shapes import fits

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "a",
        "labels": {"app": "a"},
        "creationTimestamp": "2026-02-28T23:59:59Z",
        "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {"f:any": {}}}}],
    },
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "valkey:9.1",
                "ports": [{"containerPort": 6379}],
                "resources": {"limits": {"cpu": "100m", "memory": 1024}},
                "livenessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 5},
            }
        ]
    },
    "status": {"conditions": [{"type": "Ready", "lastProbeTime": None}]},
}
WRONG: list[Any] = [None, 1, 2**40, 1.5, True, "x", "", "1Gi", [], {}, {"x": 1}, [None], ["x"]]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            found += places(item, (*path, key))
    return found


PLACES = [path for path in places(POD) if path]


def test_usual_objects_are_accepted_at_once():
    assert fits("", "v1", "Pod", POD)
    secret = {"metadata": {"name": "s"}, "data": {"k": "aGVsbG8="}}
    assert fits("", "v1", "Secret", secret)


def test_null_metadata_is_left_to_the_thorough_check():
    assert not fits("", "v1", "Pod", {**POD, "metadata": None})
    assert not fits("", "v1", "Pod", {**POD, "metadata": {"labels": None}})
    assert fits("", "v1", "Pod", {**POD, "status": None})


@pytest.mark.parametrize("text", ["2026-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-01-01"])
def test_days_that_do_not_exist_are_left_to_the_thorough_check(text):
    assert not fits("", "v1", "Pod", {"metadata": {"creationTimestamp": text}})


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(WRONG)), min_size=1, max_size=2))
def test_what_is_accepted_needs_no_thorough_check(changes):
    changed = copy.deepcopy(POD)
    for path, wrong in changes:
        place: Any = changed
        for key in path[:-1]:
            try:
                place = place[key]
            except (KeyError, IndexError, TypeError):
                place = None
        assume(isinstance(place, dict | list))
        if isinstance(place, list):
            assume(isinstance(path[-1], int) and path[-1] < len(place))
        place[path[-1]] = copy.deepcopy(wrong)
    if fits("", "v1", "Pod", changed):  # no assume: that would discard most examples
        assert thoroughly(changed) == []


@given(st.sampled_from(PLACES), st.text(min_size=1, max_size=5))
def test_unknown_field_is_never_accepted_at_once(path, name):
    changed = copy.deepcopy(POD)
    place: Any = changed
    for key in path:
        place = place[key]
    free = {"labels", "limits", "fieldsV1", "f:spec", "f:any"}
    assume(isinstance(place, dict) and not free & set(path))
    place[f"no-{name}"] = 1
    assert not fits("", "v1", "Pod", changed)


def test_every_recorded_object_is_judged_alike():
    recorded = json.loads(Path(__file__).with_name("seen_created.json").read_text())
    judged = 0
    for sent in _objects(recorded):
        group, _, version = sent["apiVersion"].rpartition("/")
        if fits(group, version, sent["kind"], sent):
            judged += 1
            assert mistyped(schema_of(group, version, sent["kind"]), sent) is None
            assert prune(schema_of(group, version, sent["kind"]), copy.deepcopy(sent)) == []
    assert judged > 10


def _objects(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return [found for item in value for found in _objects(item)]
    if not isinstance(value, dict):
        return []
    if isinstance(value.get("kind"), str) and "metadata" in value and "apiVersion" in value:
        return [value]
    return [found for item in value.values() for found in _objects(item)]


def thoroughly(value: dict[str, Any]) -> list[str]:
    schema = schema_of("", "v1", "Pod")
    problem = mistyped(schema, value)
    before = copy.deepcopy(value)
    pods = Registry().find("", "v1", "pods")
    assert pods is not None
    check_metadata(pods, value)
    return [
        *([problem] if problem else []),
        *prune(schema, value),
        *([] if value == before else ["changed"]),
    ]
