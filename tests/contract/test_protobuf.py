"""The protobuf bodies that `kubectl create` sends are taken as the objects they say."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from contract.driver import Space
from contract.golden import FOLDER, plain, same

PROTOBUF = "application/vnd.kubernetes.protobuf"
RECORDED: dict[str, dict[str, str]] = json.loads((FOLDER / "protobuf.json").read_text())
# The recording was made in a namespace whose name is as long as those of the checks.
PLACE = "contract-00000000"


@pytest.mark.parametrize("case", sorted(RECORDED))
def test_recorded_body_is_accepted(space: Space, case: str) -> None:
    recorded = RECORDED[case]
    path = recorded["path"].replace(PLACE, space.name)
    body = base64.b64decode(recorded["body"]).replace(PLACE.encode(), space.name.encode())
    if case == "token":
        space.create("serviceaccounts", {"metadata": {"name": "robot"}})
    reply = space.api.request("POST", path, body, content=PROTOBUF, dryRun="All")
    assert reply.status == 201, reply.text
    found: dict[str, Any] = plain(reply.json, here=space.name)
    if case == "token":
        found = {"kind": found["kind"], "spec": sorted(found["spec"])}
    same("protobuf-answers", case, found)


def test_protobuf_that_is_none_is_a_bad_request(space: Space) -> None:
    reply = space.post("configmaps", b"k8s\x00nonsense", content=PROTOBUF)
    assert reply.status == 400
    reply = space.post("configmaps", b"nonsense", content=PROTOBUF)
    assert reply.status == 400


def test_json_is_answered_to_who_prefers_protobuf_but_takes_json(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    reply = space.get("configmaps/a", accept=f"application/json,{PROTOBUF}")
    assert reply.headers["content-type"] == "application/json"
