"""kubectl get, describe, explain, api-resources, events, auth: the words people read."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from contract.driver import Space, until
from contract.kubectl import Kubectl

MANIFESTS = Path(__file__).parent / "manifests"
OBJECTS = (MANIFESTS / "objects.yaml").read_text()

POD = (MANIFESTS / "waiting-pod.yaml").read_text()


@pytest.fixture
def filled(kubectl: Kubectl) -> Kubectl:
    kubectl.quiet("apply -f -", given=OBJECTS)
    return kubectl


def test_get_in_all_formats(filled: Kubectl) -> None:
    for line in (
        "get configmaps -l app",
        "get cm -l app=x --show-labels",
        "get cm -l app=x -L tier",
        "get cm alpha -o yaml",
        "get cm alpha -o json",
        "get cm -l app=x -o name",
        "get cm alpha -o jsonpath={.data.k}",
        "get cm -l app=x -o jsonpath={.items[*].metadata.name}",
        "get cm -l app -o custom-columns=NAME:.metadata.name,TIER:.metadata.labels.tier",
        "get cm alpha -o go-template={{.metadata.name}}",
        "get cm -l app --sort-by=.metadata.labels.tier -o name",
        "get cm --field-selector metadata.name=beta",
        "get cm -l app --no-headers",
        "get cm,secret -l app=x",
        "get cm/alpha secret/alpha",
        f"get cm -A -l app=w --field-selector metadata.namespace={filled.namespace}",
        "get cm -l app=none",
    ):
        filled.run(line)
    filled.compare("get-formats")


def test_get_of_many_kinds(filled: Kubectl) -> None:
    for line in (
        "get secrets",
        "get svc",
        "get svc -o wide",
        "get sa robot",
        "get pvc",
        "get roles",
        "get rolebindings",
        "get rolebindings -o wide",
        "get leases",
        "get netpol",
        "get secret alpha -o yaml",
        "get svc front -o yaml",
        "get pvc data -o yaml",
    ):
        filled.run(line)
    filled.compare("get-kinds")


def test_get_what_is_not_there(kubectl: Kubectl) -> None:
    for line in (
        "get pods",
        "get cm none",
        "get cm none --ignore-not-found",
        "get nonsense",
        "get cm -l =bad",
        "get cm --field-selector spec.x=1",
        "get deployments.apps none",
        "get deployments.v1.apps none",
        "get deployments.v9.apps none",
    ):
        kubectl.run(line)
    kubectl.compare("get-nothing")


def test_get_and_describe_a_waiting_pod(kubectl: Kubectl, space: Space) -> None:
    space.post("serviceaccounts", {"metadata": {"name": "default"}})
    kubectl.quiet("apply -f -", given=POD)
    for line in (
        "get pods",
        "get po -o wide",
        "get pod waiting --show-labels",
        "describe pod waiting",
        "logs waiting",
    ):
        kubectl.run(line)
    kubectl.compare("waiting-pod")


def test_get_watches(kubectl: Kubectl, space: Space) -> None:
    space.create("secrets", {"metadata": {"name": "first"}})
    command = [kubectl.program, "-n", kubectl.namespace, "get", "secrets", "-w", "-o", "name"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=kubectl.environment()
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "secret/first\n"
        space.create("secrets", {"metadata": {"name": "second"}})
        assert process.stdout.readline() == "secret/second\n"
        space.patch("secrets/second", {"metadata": {"labels": {"x": "y"}}}).done()
        assert process.stdout.readline() == "secret/second\n"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()


def test_get_watches_a_table_with_deletions(kubectl: Kubectl, space: Space) -> None:
    line = ["get", "secrets", "--watch-only", "--output-watch-events"]
    command = [kubectl.program, "-n", kubectl.namespace, *line]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=kubectl.environment()
    )
    try:
        assert process.stdout is not None
        space.create("secrets", {"metadata": {"name": "early"}})
        # The watch starts from a list made just before, so repeat until it is seen to be open.
        heard: list[str] = []
        for number in range(200):
            space.patch("secrets/early", {"metadata": {"labels": {"n": str(number)}}}).done()
            if os.read(process.stdout.fileno(), 1) if _readable(process) else b"":
                heard.append("open")
                break
        assert heard == ["open"]
        space.delete("secrets/early").done()
        while True:
            words = process.stdout.readline().split()
            if words[:2] == ["DELETED", "early"]:
                break
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()


def _readable(process: subprocess.Popen[str]) -> bool:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], 0.1)
    return bool(ready)


def test_describe(filled: Kubectl) -> None:
    # One key each: older kubectls print them in any order.
    filled.quiet("create cm single --from-literal=k=v")
    filled.quiet("create secret generic single --from-literal=password=secret")
    for line in (
        "describe cm single",
        "describe secret single",
        "describe cm beta",
        "describe svc front",
        "describe sa robot",
        "describe role reader",
        "describe rolebinding reader",
        "describe lease leader",
        "describe netpol wall",
        "describe cm none",
    ):
        filled.run(line)
    filled.compare("describe")


def test_explain(kubectl: Kubectl) -> None:
    """Names and types of fields; the prose of the built-in kinds is not part of the contract."""
    for line in (
        "explain configmap",
        "explain pod.spec.restartPolicy",
        "explain statefulset.spec.updateStrategy --recursive",
        "explain poddisruptionbudget.spec",
        "explain lease.spec",
        "explain nonsense",
        "explain pod.nonsense",
    ):
        kubectl.run(line)
    kubectl.transcript[:] = [_without_prose(said) for said in kubectl.transcript]
    kubectl.compare("explain")


def _without_prose(said: str) -> str:
    marks = ("$", "!", "(exit", "GROUP", "KIND", "VERSION", "FIELD")
    return "\n".join(
        line for line in said.splitlines() if "\t<" in line or line.strip().startswith(marks)
    )


def test_api_resources(kubectl: Kubectl) -> None:
    for line in (
        "api-resources --api-group=policy",
        "api-resources --api-group=coordination.k8s.io -o wide",
        "api-resources --api-group=rbac.authorization.k8s.io",
        "api-resources --api-group=apiextensions.k8s.io -o name",
    ):
        kubectl.run(line)
    kubectl.compare("api-resources")


def test_events(kubectl: Kubectl, space: Space) -> None:
    about = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "name": "a",
        "namespace": space.name,
        "uid": "u1",
    }
    for name, kind, stamp in (("one", "Normal", "10"), ("two", "Warning", "20")):
        moment = f"2026-01-01T00:00:{stamp}Z"
        body = {
            "metadata": {"name": name},
            "involvedObject": about,
            "reason": f"Reason{name.title()}",
            "message": f"message {name}",
            "type": kind,
            "source": {"component": "tester"},
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 2,
        }
        space.create("events", body)
    for line in (
        "get events --sort-by=.lastTimestamp",
        "get events -o wide --sort-by=.lastTimestamp",
        "get events --field-selector type=Warning",
        "events",
        "events --types=Warning",
        "events --for=configmap/a",
    ):
        kubectl.run(line)
    kubectl.compare("events")


def test_auth_can_i(kubectl: Kubectl) -> None:
    kubectl.quiet("create sa robot")
    kubectl.quiet("create role reader --verb=get --resource=configmaps")
    kubectl.quiet(
        f"create rolebinding reader --role=reader --serviceaccount={kubectl.namespace}:robot"
    )
    account = f"system:serviceaccount:{kubectl.namespace}:robot"
    for line in (
        "auth can-i create configmaps",
        "auth can-i delete nodes -A",
        f"auth can-i get configmaps --as={account}",
        f"auth can-i delete configmaps --as={account}",
        f"get secrets --as={account}",
    ):
        kubectl.run(line)
    kubectl.compare("auth")


def test_raw(kubectl: Kubectl) -> None:
    for line in ("get --raw /healthz", "get --raw /nope", "get --raw /apis/apps"):
        kubectl.run(line)
    kubectl.compare("raw")


DEFINITION = (MANIFESTS / "gadgets.yaml").read_text()
GADGET = (MANIFESTS / "gadget.yaml").read_text()


def test_custom_resource_from_definition_to_deletion(
    kubectl: Kubectl, space: Space, unique: str
) -> None:
    """Every name has an X that is replaced by something nobody else has."""
    kubectl.words[""] = unique
    gadget = GADGET.replace("X", unique)

    def run(line: str, *words: str, given: str | None = None) -> None:
        kubectl.run(line.replace("X", unique), words=words, given=given)

    run("apply -f -", given=DEFINITION.replace("X", unique))
    run("wait --for=condition=Established crd/gadgetXs.gX.contract.test --timeout=20s")
    try:
        _wait_served(space, f"g{unique}.contract.test")
        run("apply -f -", given=gadget.replace("REPLICAS", "2"))
        run("apply -f -", given=gadget.replace("REPLICAS", "2"))
        run("apply -f -", given=gadget.replace("REPLICAS", "-1"))
        run("apply -f -", given=gadget.replace("{replicas: REPLICAS}", "{replicas: 2, odd: 1}"))
        for line in (
            "get gadgetXs.gX.contract.test",
            "get gdtX -o wide",
            "get catX",
            "get gadgetX one -o yaml",
            "scale gadgetX/one --replicas=5",
            "get gadgetX one -o jsonpath={.spec.replicas}",
            "label gadgetX one x=y",
            "describe gadgetX one",
            "api-resources --api-group=gX.contract.test",
            "explain gadgetX.spec",
        ):
            run(line)
        status = ("-p", '{"status":{"phase":"Up"}}')
        run("patch gadgetX one --subresource=status --type=merge", *status)
        for line in ("get gadgetX one", "delete gadgetX one", "get gadgetXs"):
            run(line)
    finally:
        run("delete crd gadgetXs.gX.contract.test")
    kubectl.compare("custom-resource")


def _wait_served(space: Space, group: str) -> None:
    """Until its OpenAPI is published too: a client asks for it before applying."""
    key = f"apis/{group}/v1"
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

    def discovered() -> bool:
        documents = space.api.request("GET", "/apis", accept=accept).object["items"]
        return any(each["metadata"]["name"] == group for each in documents)

    until("the group is discovered", discovered)
    until(
        "the schema is published",
        lambda: key in space.api.request("GET", "/openapi/v3").object["paths"],
    )
