"""JSON patch and JSON merge patch."""

from __future__ import annotations

from typing import Any

import pytest

from contract.driver import JSON_PATCH, MERGE, Space

BASE = {
    "metadata": {"name": "a", "labels": {"x": "1", "y/z": "2"}, "finalizers": ["e.x/1", "e.x/2"]},
    "data": {"k": "v", "l": "w"},
}


@pytest.fixture
def base(space: Space) -> Any:
    space.create("configmaps", BASE)
    yield space
    space.patch("configmaps/a", {"metadata": {"finalizers": None}})


def seen(found: dict[str, Any]) -> dict[str, Any]:
    kept = {name: found["metadata"].get(name) for name in ("labels", "finalizers")}
    return {**kept, "data": found.get("data")}


SAME = {
    "labels": {"x": "1", "y/z": "2"},
    "finalizers": ["e.x/1", "e.x/2"],
    "data": {"k": "v", "l": "w"},
}

OPERATIONS: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
    (
        "add a key",
        [{"op": "add", "path": "/data/m", "value": "x"}],
        {"data": {"k": "v", "l": "w", "m": "x"}},
    ),
    (
        "add replaces a key",
        [{"op": "add", "path": "/data/k", "value": "x"}],
        {"data": {"k": "x", "l": "w"}},
    ),
    (
        "replace a key",
        [{"op": "replace", "path": "/data/k", "value": "x"}],
        {"data": {"k": "x", "l": "w"}},
    ),
    ("remove a key", [{"op": "remove", "path": "/data/k"}], {"data": {"l": "w"}}),
    ("remove a map", [{"op": "remove", "path": "/data"}], {"data": None}),
    ("escaped slash", [{"op": "remove", "path": "/metadata/labels/y~1z"}], {"labels": {"x": "1"}}),
    (
        "append",
        [{"op": "add", "path": "/metadata/finalizers/-", "value": "e.x/3"}],
        {"finalizers": ["e.x/1", "e.x/2", "e.x/3"]},
    ),
    (
        "insert",
        [{"op": "add", "path": "/metadata/finalizers/0", "value": "e.x/0"}],
        {"finalizers": ["e.x/0", "e.x/1", "e.x/2"]},
    ),
    (
        "remove by index",
        [{"op": "remove", "path": "/metadata/finalizers/0"}],
        {"finalizers": ["e.x/2"]},
    ),
    (
        "move",
        [{"op": "move", "from": "/data/k", "path": "/data/m"}],
        {"data": {"l": "w", "m": "v"}},
    ),
    (
        "copy",
        [{"op": "copy", "from": "/data/k", "path": "/data/m"}],
        {"data": {"k": "v", "l": "w", "m": "v"}},
    ),
    (
        "test then replace",
        [
            {"op": "test", "path": "/data/k", "value": "v"},
            {"op": "replace", "path": "/data/k", "value": "x"},
        ],
        {"data": {"k": "x", "l": "w"}},
    ),
    (
        "replace adds an absent key",
        [{"op": "replace", "path": "/data/none", "value": "1"}],
        {"data": {"k": "v", "l": "w", "none": "1"}},
    ),
    ("nothing", [], {}),
]


@pytest.mark.parametrize(
    ("operations", "after"), [each[1:] for each in OPERATIONS], ids=[each[0] for each in OPERATIONS]
)
def test_json_patch(base: Space, operations: list[dict[str, Any]], after: dict[str, Any]) -> None:
    found = base.patch("configmaps/a", operations, JSON_PATCH).object
    assert seen(found) == {**SAME, **after}
    assert seen(base.read("configmaps/a")) == {**SAME, **after}


BAD_OPERATIONS: list[tuple[str, Any, int, str]] = [
    (
        "remove what is absent",
        [{"op": "remove", "path": "/data/none"}],
        422,
        "the server rejected our request due to an error in our request",
    ),
    (
        "add under what is absent",
        [{"op": "add", "path": "/none/x", "value": "1"}],
        422,
        "the server rejected our request due to an error in our request",
    ),
    (
        "unknown operation",
        [{"op": "odd", "path": "/data/k"}],
        422,
        "the server rejected our request due to an error in our request",
    ),
    (
        "not a list",
        {"op": "remove", "path": "/data/k"},
        400,
        "error decoding patch: ",
    ),
]


@pytest.mark.parametrize(
    ("operations", "code", "message"),
    [each[1:] for each in BAD_OPERATIONS],
    ids=[each[0] for each in BAD_OPERATIONS],
)
def test_bad_json_patch_is_refused(base: Space, operations: Any, code: int, message: str) -> None:
    status = base.patch("configmaps/a", operations, JSON_PATCH).refused(code)
    assert message in status["message"]
    assert seen(base.read("configmaps/a")) == SAME


MERGES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("add a key", {"data": {"m": "x"}}, {"data": {"k": "v", "l": "w", "m": "x"}}),
    ("null removes a key", {"data": {"k": None}}, {"data": {"l": "w"}}),
    ("null removes a map", {"data": None}, {"data": None}),
    ("null of what is absent is nothing", {"data": {"none": None}}, {}),
    (
        "lists are replaced",
        {"metadata": {"finalizers": ["e.x/2"]}},
        {"finalizers": ["e.x/2"]},
    ),
    ("empty list is none", {"metadata": {"finalizers": []}}, {"finalizers": None}),
    ("empty patch is nothing", {}, {}),
    (
        "labels merge",
        {"metadata": {"labels": {"n": "3"}}},
        {"labels": {"x": "1", "y/z": "2", "n": "3"}},
    ),
]


@pytest.mark.parametrize(
    ("patch", "after"), [each[1:] for each in MERGES], ids=[each[0] for each in MERGES]
)
def test_merge_patch(base: Space, patch: dict[str, Any], after: dict[str, Any]) -> None:
    found = base.patch("configmaps/a", patch, MERGE).object
    assert seen(found) == {**SAME, **after}


def test_merge_patch_with_the_wrong_type_is_refused(base: Space) -> None:
    status = base.patch("configmaps/a", {"data": {"k": 5}}).refused(422, "Invalid")
    assert status["message"].startswith(' "" is invalid: patch: Invalid value: ')
    assert "data" in status["message"]


def test_merge_patch_must_be_json(base: Space) -> None:
    status = base.patch("configmaps/a", b"{oops").refused(400, "BadRequest")
    assert status["message"].startswith("error decoding patch: ")


def test_merge_patch_cannot_rename(base: Space) -> None:
    status = base.patch("configmaps/a", {"metadata": {"name": "b"}}).refused(400, "BadRequest")
    assert status["message"] == "the name of the object (b) does not match the name on the URL (a)"


def test_patch_of_an_absent_object_is_not_found(space: Space) -> None:
    space.patch("configmaps/none", {"data": {}}).refused(404, "NotFound")


def test_patch_cannot_change_what_the_server_sets(base: Space) -> None:
    before = base.read("configmaps/a")["metadata"]
    body = {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}
    after = base.patch("configmaps/a", body).object["metadata"]
    assert after["creationTimestamp"] == before["creationTimestamp"]


def test_unknown_patch_type_is_unsupported(base: Space) -> None:
    status = base.patch("configmaps/a", {}, "application/json").refused(415, "UnsupportedMediaType")
    assert status["message"] == "415: Unsupported Media Type"
