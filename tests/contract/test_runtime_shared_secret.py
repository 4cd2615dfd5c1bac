"""The second example operator, as people use it: with kubectl, through its whole life."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.driver import Api, Space, until
from contract.kubectl import Kubectl

EXAMPLE = Path(__file__).parents[2] / "examples" / "shared_secret"
# Its kind has one name on a server that workers may share.
pytestmark = pytest.mark.xdist_group("shared secrets")
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/sharedsecrets.example.dev"


@pytest.fixture
def operator(api: Api, environment: dict[str, str], tmp_path: Path) -> Iterator[None]:
    """The example in a process of its own; the kind that it installs is removed afterwards."""
    log = tmp_path / "log"
    with log.open("wb") as output:
        program = [sys.executable, str(EXAMPLE / "shared_secret.py")]
        process = subprocess.Popen(
            program, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        until("the kind is served", lambda: api.request("GET", DEFINITION).status == 200)
        until("it works", lambda: "workers started" in log.read_text())
        yield
        process.terminate()
        assert process.wait(15) == 0, log.read_text()[-2000:]
    finally:
        process.kill()
        process.wait(10)
        api.request("DELETE", DEFINITION)


@pytest.fixture
def places(api: Api, unique: str) -> Iterator[list[str]]:
    """Three namespaces, of which the first two are of the team that has this test's name."""
    names = [f"contract-{unique}-{n}" for n in "abc"]
    for name in names:
        labels = {"team": unique} if name != names[2] else {}
        meta = {"name": name, "labels": labels}
        api.request(
            "POST",
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": meta},
        ).done()
    yield names
    for name in names:
        api.request("DELETE", f"/api/v1/namespaces/{name}")


def documents(space: Space, team: str) -> str:
    """What the example's file says, about namespaces of this test."""
    text = (EXAMPLE / "registry.yaml").read_text()
    text = text.replace("namespace: default", f"namespace: {space.name}")
    return text.replace("metadata: {name: registry}", f"metadata: {{name: {team}}}").replace(
        "team: web", f"team: {team}"
    )


def copies(api: Api, places: list[str]) -> dict[str, str]:
    """The password of every copy, by the last letter of its namespace."""
    found = {}
    for place in places:
        reply = api.request("GET", f"/api/v1/namespaces/{place}/secrets/registry")
        if reply.status == 200:
            value = reply.object["data"]["password"]
            found[place[-1]] = base64.b64decode(value).decode()
    return found


def shown(kubectl: Kubectl, team: str) -> list[str]:
    """The line of `kubectl get`: name, source, copies, ready."""
    return kubectl.quiet(f"get sharedsecrets {team} --no-headers").split()


def test_copies_follow_their_source_and_the_labels_of_namespaces(
    api: Api, space: Space, kubectl: Kubectl, operator: None, places: list[str], unique: str
) -> None:
    kubectl.quiet("apply -f -", given=documents(space, unique))
    until("there are copies", lambda: copies(api, places) == {"a": "swordfish", "b": "swordfish"})
    until("it tells", lambda: shown(kubectl, unique) == [unique, "registry", "2", "True"])
    kubectl.quiet('patch secret registry --type=merge -p {"stringData":{"password":"new"}}')
    until("copies follow", lambda: copies(api, places) == {"a": "new", "b": "new"})
    kubectl.quiet(f"label namespace {places[2]} team={unique}")
    until("a namespace joins", lambda: set(copies(api, places)) == {"a", "b", "c"})
    kubectl.quiet(f"label namespace {places[0]} team-")
    until("a namespace leaves", lambda: set(copies(api, places)) == {"b", "c"})
    kubectl.quiet(f"delete secret registry --namespace {places[1]}")
    until("a deleted copy comes back", lambda: set(copies(api, places)) == {"b", "c"})


def test_what_is_wrong_is_told_and_what_is_not_ours_is_left(
    api: Api, space: Space, kubectl: Kubectl, operator: None, places: list[str], unique: str
) -> None:
    kubectl.quiet(
        f"create secret generic registry --namespace {places[0]} --from-literal=password=theirs"
    )
    kubectl.quiet("apply -f -", given=documents(space, unique))
    until("the other is copied", lambda: copies(api, places) == {"a": "theirs", "b": "swordfish"})
    until("it tells", lambda: shown(kubectl, unique) == [unique, "registry", "1", "False"])
    message = kubectl.quiet(f"get sharedsecrets {unique} -o jsonpath={{.status.conditions[0]}}")
    assert '"reason":"NameTaken"' in message
    assert f"Secret {places[0]}/registry exists already" in message
    kubectl.quiet("label secret registry example.dev/shared-")
    until("it tells", lambda: "SourceMissing" in kubectl.quiet(f"describe shs {unique}"))
    assert copies(api, places)["b"] == "swordfish", "copies stay while the source is away"


def test_a_spec_that_its_type_forbids_is_refused_by_the_server(
    kubectl: Kubectl, operator: None, unique: str
) -> None:
    kubectl.run(
        "apply -f -",
        given="apiVersion: example.dev/v1\nkind: SharedSecret\n"
        f"metadata: {{name: {unique}}}\nspec: {{source: {{namespace: '', name: x}}}}\n",
    )
    assert "spec.source.namespace" in kubectl.transcript[-1]
    assert "(exit 1)" in kubectl.transcript[-1]
