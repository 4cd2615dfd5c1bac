"""What clients wait for after they made a definition: its conditions, its objects, its names."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from contract.definitions import ROOT, definition, place, version
from contract.driver import JSON_PATCH, Api, Space, Stream, until
from contract.golden import FOLDER

PROTOBUF = "application/vnd.kubernetes.protobuf"
RECORDED: dict[str, dict[str, str]] = json.loads((FOLDER / "protobuf.json").read_text())
GROUP = "g00000000.contract.test"


@pytest.fixture
def group(unique: str) -> str:
    return f"g{unique}.contract.test"


@pytest.fixture
def opened(space: Space, group: str) -> Iterator[Space]:
    """A definition of anything at all, made by a client that speaks protobuf."""
    body = base64.b64decode(RECORDED["definition of anything"]["body"])
    body = body.replace(GROUP.encode(), group.encode())
    made = space.api.request("POST", ROOT, body, content=PROTOBUF).object
    name = made["metadata"]["name"]
    with space.api.watch(ROOT, resourceVersion=made["metadata"]["resourceVersion"]) as stream:
        assert _told(stream, name, "Established")
    try:
        yield place(space, made, "v1")
    finally:
        space.api.request("DELETE", f"{ROOT}/{name}")


def _told(stream: Stream, name: str, condition: str) -> bool:
    """Read events until one says that a condition of a definition is true."""
    while True:
        event = stream.next()
        seen = event["object"]
        if seen["metadata"]["name"] == name and _holds(seen, condition):
            return True


def _holds(crd: dict[str, Any], condition: str) -> bool:
    found = (crd.get("status") or {}).get("conditions") or ()
    return any(each["type"] == condition and each["status"] == "True" for each in found)


ANYTHING = {
    "metadata": {"name": "a", "finalizers": []},
    "alpha": "foo_123",
    "beta": 10,
    "spec": {"cronSpec": "* * * * */5", "ports": [{"name": "x", "containerPort": 80}]},
}


def test_what_no_schema_describes_is_applied_and_kept(opened: Space) -> None:
    reply = opened.apply("opens/a", ANYTHING, fieldValidation="Strict")
    assert reply.status == 201, reply.text
    assert reply.object["beta"] == 10
    assert reply.object["spec"] == ANYTHING["spec"]
    owned = reply.object["metadata"]["managedFields"][0]["fieldsV1"]
    assert owned["f:spec"] == {".": {}, "f:cronSpec": {}, "f:ports": {}}


def test_changes_that_no_schema_describes_are_told_to_watchers(opened: Space) -> None:
    made = opened.create("opens", ANYTHING)
    with opened.watch("opens", resourceVersion=made["metadata"]["resourceVersion"]) as stream:
        patch = [{"op": "add", "path": "/dummy", "value": "test"}]
        assert opened.patch("opens/a", patch, JSON_PATCH).status == 200
        event = stream.next()
        assert (event["type"], event["object"]["dummy"]) == ("MODIFIED", "test")


def test_first_object_is_watched_from_its_creation_on(opened: Space) -> None:
    made = opened.create("opens", ANYTHING)
    opened.delete("opens/a").done()
    with opened.watch("opens", resourceVersion=made["metadata"]["resourceVersion"]) as stream:
        assert stream.seen(1) == [("DELETED", "a")]


def test_a_definition_is_established_when_the_one_that_had_its_names_is_gone(
    api: Api, group: str
) -> None:
    first = definition(group, "Thing", version("v1", {}))
    second = copy.deepcopy(first)
    second["metadata"]["name"] = f"others.{group}"
    second["spec"]["names"] = {"kind": "Thing", "plural": "others", "singular": "other"}
    api.request("POST", ROOT, first).done()
    path = f"{ROOT}/{second['metadata']['name']}"
    try:
        until("the first is served", lambda: _established(api, f"{ROOT}/things.{group}"))
        api.request("POST", ROOT, second).done()
        refused = until("its names are looked at", lambda: _conditions(api, path))
        assert {kind: found["status"] for kind, found in refused.items()} == {
            "NamesAccepted": "False",
            "Established": "False",
        }
        seen = api.request("GET", path).object["metadata"]["resourceVersion"]
        with api.watch(ROOT, resourceVersion=seen) as stream:
            api.request("DELETE", f"{ROOT}/things.{group}").done()
            assert _told(stream, second["metadata"]["name"], "Established")
        until("its objects are served", lambda: _lists(api, f"/apis/{group}/v1/others"))
    finally:
        api.request("DELETE", f"{ROOT}/things.{group}")
        api.request("DELETE", path)


def test_the_end_of_a_definition_is_told_by_a_condition(api: Api, group: str) -> None:
    body = definition(group, "Thing", version("v1", {}))
    path = f"{ROOT}/{body['metadata']['name']}"
    api.request("POST", ROOT, body).done()
    until("it is served", lambda: _established(api, path))
    seen = api.request("GET", path).object["metadata"]["resourceVersion"]
    with api.watch(ROOT, resourceVersion=seen) as stream:
        api.request("DELETE", path).done()
        assert _told(stream, body["metadata"]["name"], "Terminating")


def _conditions(api: Api, path: str) -> dict[str, dict[str, Any]]:
    found = (api.request("GET", path).object.get("status") or {}).get("conditions") or ()
    return {each["type"]: each for each in found}


def _established(api: Api, path: str) -> bool:
    return _holds(api.request("GET", path).object, "Established")


def _lists(api: Api, path: str) -> bool:
    return api.request("GET", path).status == 200
