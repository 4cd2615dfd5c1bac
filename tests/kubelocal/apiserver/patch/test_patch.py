"""Patches: JSON patch, merge patch and strategic merge.

`seen_patched.json` holds a Deployment of a real API server (1.34) and what strategic merge patches
made of it there.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelocal.apiserver.kinds.filling import default
from kubelocal.apiserver.kinds.schemas import schema_of
from kubelocal.apiserver.patch.json_patch import (
    PatchError,
    json_patch,
    merge_patch,
    strategic_merge,
)

SEEN = json.loads((Path(__file__).parent / "seen_patched.json").read_text())
LIVE, CASES = SEEN[0], SEEN[1:]
DEPLOYMENT = schema_of("apps", "v1", "Deployment")


@pytest.mark.parametrize("case", CASES, ids=[json.dumps(case["patch"])[:90] for case in CASES])
def test_a_strategic_merge_ends_as_on_the_real_server(case: dict[str, Any]) -> None:
    before = copy.deepcopy(LIVE)
    if "status" in case:
        with pytest.raises(PatchError) as refused:
            strategic_merge(DEPLOYMENT, LIVE, case["patch"])
        assert refused.value.status == case["status"]
        return
    result = copy.deepcopy(strategic_merge(DEPLOYMENT, LIVE, case["patch"]))
    default("apps", "Deployment", result)
    assert result == merge_patch(LIVE, case["change"])
    assert before == LIVE


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        (
            {"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}},
            'map: {"image":"x"} does not contain declared merge key: name',
        ),
        (
            {"spec": {"template": {"$patch": "nope"}}},
            'unknown patch type: nope in map: {"$patch":"nope"}',
        ),
    ],
)
def test_a_strategic_merge_says_what_is_wrong(patch: dict[str, Any], words: str) -> None:
    with pytest.raises(PatchError) as refused:
        strategic_merge(DEPLOYMENT, LIVE, patch)
    assert refused.value.message == words


DOCUMENT: dict[str, Any] = {"a": {"b": [1, 2, 3], "c/d": {"~": 1}}, "n": None}


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/x", "value": 1}], {**DOCUMENT, "x": 1}),
        ([{"op": "add", "path": "/n"}], DOCUMENT),
        ([{"op": "add", "path": "", "value": 7}], 7),
        ([{"op": "replace", "path": "/z", "value": 1}], {**DOCUMENT, "z": 1}),
        ([{"op": "test", "path": "/missing", "value": None}], DOCUMENT),
        ([{"op": "test", "path": "/a/b/-1", "value": 3}], DOCUMENT),
        ([{"op": "test", "path": "", "value": DOCUMENT}], DOCUMENT),
        ([{"op": "remove", "path": "/a"}], {"n": None}),
        ([{"op": "move", "from": "/a/b", "path": "/n"}, {"op": "remove", "path": "/a"}],
         {"n": [1, 2, 3]}),
        ([{"op": "copy", "from": "/a/c~1d/~0", "path": "/n"}, {"op": "remove", "path": "/a"}],
         {"n": 1}),
    ],
)  # fmt: skip
def test_json_patch_operations(operations: list[Any], result: Any) -> None:
    before = copy.deepcopy(DOCUMENT)
    assert json_patch(DOCUMENT, operations) == result
    assert before == DOCUMENT


@pytest.mark.parametrize(
    ("operation", "items"),
    [
        ({"op": "add", "path": "/0", "value": 9}, [9, 1, 2]),
        ({"op": "add", "path": "/2", "value": 9}, [1, 2, 9]),
        ({"op": "add", "path": "/-", "value": 9}, [1, 2, 9]),
        ({"op": "remove", "path": "/-1"}, [1]),
        ({"op": "replace", "path": "/1", "value": 9}, [1, 9]),
        ({"op": "move", "from": "/0", "path": "/1"}, [2, 1]),
    ],
)
def test_json_patch_on_lists(operation: dict[str, Any], items: list[int]) -> None:
    assert json_patch([1, 2], [operation]) == items


@pytest.mark.parametrize(
    ("operations", "status", "words"),
    [
        ([{"op": "test", "path": "/a/b/0", "value": 2}], 422, "test failed"),
        ([{"op": "test", "path": "/a/b/0", "value": True}], 422, "test failed"),
        ([{"op": "remove", "path": "/nope"}], 422, "missing path"),
        ([{"op": "replace", "path": "/a/b/7", "value": 1}], 422, "missing path"),
        ([{"op": "add", "path": "/x/y", "value": 1}], 422, "missing path"),
        ([{"op": "add", "path": "/a/b/7", "value": 1}], 422, "missing path"),
        ([{"op": "add", "path": "a", "value": 1}], 422, "missing path"),
        ([{"op": "remove", "path": ""}], 422, "missing path"),
        ([{"op": "move", "from": "/nope", "path": "/x"}], 422, "missing path"),
        ([{"op": "move", "from": "/a", "path": "/a/b"}], 422, "into itself"),
        ([{"op": "copy", "path": "/x"}], 422, "missing from"),
        ([{"op": "nope", "path": "/a"}], 422, "Unexpected kind: nope"),
        ([{"path": "/a"}], 422, "Unexpected kind"),
        ([{"op": "add", "value": 1}], 422, "missing path field"),
        ({"op": "add"}, 400, "must be a list"),
        (["x"], 400, "must be an object"),
        ([{"op": "test", "path": "/a"}] * 10_001, 413, "maximum operations"),
    ],
)
def test_json_patch_that_does_not_fit_changes_nothing(
    operations: Any, status: int, words: str
) -> None:
    before = copy.deepcopy(DOCUMENT)
    with pytest.raises(PatchError, match=words) as refused:
        json_patch(DOCUMENT, operations)
    assert refused.value.status == status
    assert before == DOCUMENT


JSON = st.recursive(
    st.booleans() | st.integers(0, 9) | st.sampled_from(["x", "y", "/", "~"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "~/"]), inner)
    ),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON)


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_twice_is_a_merge_patch_once(document: Any, patch: Any) -> None:
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) == once


@given(OBJECTS)
def test_merging_a_document_into_itself_changes_nothing(document: Any) -> None:
    assert merge_patch(document, document) == document
    assert strategic_merge({}, document, document) == document
    assert merge_patch({}, document) == document


@given(OBJECTS)
def test_a_merge_patch_of_nulls_removes_all(document: dict[str, Any]) -> None:
    assert merge_patch(document, dict.fromkeys(document)) == {}


@given(OBJECTS, JSON)
def test_what_is_added_can_be_tested_and_removed(document: dict[str, Any], value: Any) -> None:
    operations = [
        {"op": "add", "path": "/z~0~1", "value": value},
        {"op": "test", "path": "/z~0~1", "value": value},
        {"op": "remove", "path": "/z~0~1"},
    ]
    assert json_patch(document, operations) == document


def test_a_strategic_merge_of_an_object_onto_itself_changes_nothing() -> None:
    assert strategic_merge(DEPLOYMENT, LIVE, LIVE) == LIVE


@given(st.permutations(["a", "b", "c"]))
def test_containers_come_in_the_order_asked_for(names: list[str]) -> None:
    order = [{"name": name} for name in names]
    patch = {"spec": {"template": {"spec": {"$setElementOrder/containers": order}}}}
    result = strategic_merge(DEPLOYMENT, LIVE, patch)
    assert [c["name"] for c in result["spec"]["template"]["spec"]["containers"]] == names
