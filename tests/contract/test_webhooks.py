"""Admission webhooks: asked over HTTPS, heard, and done without when they fail as told."""

from __future__ import annotations

import base64
import datetime as dt
import http.server
import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from contract.driver import Api, Space, until

Answer = Callable[[dict[str, Any]], dict[str, Any]]


class Hook:
    """A webhook server of the test's own: what it was asked, and what it answers by path."""

    def __init__(self, address: str, folder: Path) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answers: dict[str, Answer] = {}
        certificate = _certificate(address)
        (folder / "pem").write_bytes(certificate)
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                review = json.loads(self.rfile.read(length))
                path = urlsplit(self.path).path
                hook.asked.append({**review["request"], "path": path, "query": self.path})
                response = hook.answers[path](review["request"])
                status = response.pop("http", 200)
                response = {"uid": review["request"]["uid"], **response}
                kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
                body = json.dumps({**kind, "response": response}).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(folder / "pem")
        self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://{address}:{self.server.server_port}"
        self.bundle = base64.b64encode(certificate.split(b"-----BEGIN PRIVATE")[0]).decode()
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def _certificate(address: str) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook")])
    now = dt.datetime.now(dt.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name)
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - dt.timedelta(hours=1))
    builder = builder.not_valid_after(now + dt.timedelta(days=1))
    builder = builder.add_extension(names, critical=False)
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    certificate = builder.add_extension(constraints, critical=True).sign(key, hashes.SHA256())
    encoded = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM) + encoded


@pytest.fixture(scope="module")
def server(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hook]:
    """Listens on the address that this machine has towards the API server."""
    connection = api.connect()
    address = connection.sock.getsockname()[0]
    connection.close()
    hook = Hook(address, tmp_path_factory.mktemp("webhook"))
    yield hook
    hook.close()


class Installer:
    """Puts webhook configurations in force, and takes them away."""

    def __init__(self, space: Space, hook: Hook, unique: str) -> None:
        self.space, self.hook, self.unique = space, hook, unique
        self.made: list[str] = []

    def __call__(self, kind: str, answer: Answer, **more: Any) -> str:
        """Install one hook for config maps of this namespace; returns its path."""
        path = f"/{self.unique}/{len(self.made)}"
        self.hook.answers[path] = answer
        resource = f"{kind}webhookconfigurations"
        rules = [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": more.pop("operations", ["CREATE", "UPDATE", "DELETE"]),
                "resources": more.pop("resources", ["configmaps"]),
            }
        ]
        url = more.pop("url", self.hook.url + path)
        hook = {
            "name": f"h{len(self.made)}.contract.test",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": url, "caBundle": self.hook.bundle},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.space.name}},
            "rules": rules,
            **more,
        }
        name = f"contract-{self.unique}-{len(self.made)}"
        self.space.create(resource, {"metadata": {"name": name}, "webhooks": [hook]})
        self.made.append(f"{resource}/{name}")
        return path

    def ready(self, path: str, **probe: Any) -> None:
        """Wait until a dry create is sent to the hook; then forget what was asked."""

        def asked() -> bool:
            body = {"metadata": {"name": "probe", **probe}}
            self.space.post("configmaps", body, dryRun="All")
            return any(each["path"] == path for each in self.hook.asked)

        until("the webhook is asked", asked)
        self.hook.asked.clear()

    def close(self) -> None:
        for what in self.made:
            self.space.delete(what)


@pytest.fixture
def install(space: Space, server: Hook, unique: str) -> Iterator[Installer]:
    installer = Installer(space, server, unique)
    server.asked.clear()
    yield installer
    installer.close()


def allow(_: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": True}


def refuse(request: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": False, "status": {"message": f"no {request['name']} here"}}


def patching(*operations: dict[str, Any]) -> Answer:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": patch}


def real(hook: Hook) -> list[dict[str, Any]]:
    """What was asked about the check's own writes; every namespace also gets a certificate."""
    return [each for each in hook.asked if each["name"] not in {"probe", "kube-root-ca.crt"}]


def test_request_describes_the_write(install: Installer, space: Space, server: Hook) -> None:
    path = install("validating", allow)
    install.ready(path)
    space.create("configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}})
    [asked] = real(server)
    assert asked["operation"] == "CREATE"
    assert asked["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert asked["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert asked["requestKind"] == asked["kind"]
    assert (asked["namespace"], asked["name"], asked["dryRun"]) == (space.name, "a", False)
    assert asked["object"]["data"] == {"k": "v"}
    assert asked["oldObject"] is None
    assert asked["userInfo"]["username"]
    assert asked["options"]["kind"] == "CreateOptions"
    assert asked["query"].endswith("?timeout=10s")


def test_update_has_the_old_object(install: Installer, space: Space, server: Hook) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}})
    install.ready(install("validating", allow))
    space.patch("configmaps/a", {"data": {"k": "w"}}).done()
    [asked] = real(server)
    assert asked["operation"] == "UPDATE"
    assert asked["object"]["data"] == {"k": "w"}
    assert asked["oldObject"]["data"] == {"k": "v"}
    assert asked["options"]["kind"] == "UpdateOptions"


def test_delete_has_only_the_old_object(install: Installer, space: Space, server: Hook) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    install.ready(install("validating", allow))
    space.delete("configmaps/a").done()
    [asked] = real(server)
    assert asked["operation"] == "DELETE"
    assert asked["object"] is None
    assert asked["oldObject"]["metadata"]["name"] == "a"


def test_refusal_reaches_the_client(install: Installer, space: Space) -> None:
    install.ready(install("validating", refuse))
    status = space.post("configmaps", {"metadata": {"name": "a"}}).refused(400)
    assert status["message"] == (
        'admission webhook "h0.contract.test" denied the request: no a here'
    )
    space.get("configmaps/a").refused(404)


def test_refusal_may_choose_its_code(install: Installer, space: Space) -> None:
    answer = {"allowed": False, "status": {"code": 403, "reason": "Forbidden", "message": "never"}}
    install.ready(install("validating", lambda _: dict(answer)))
    status = space.post("configmaps", {"metadata": {"name": "a"}}).refused(403, "Forbidden")
    assert status["message"] == 'admission webhook "h0.contract.test" denied the request: never'


def test_refusal_without_a_message(install: Installer, space: Space) -> None:
    install.ready(install("validating", lambda _: {"allowed": False}))
    status = space.post("configmaps", {"metadata": {"name": "a"}}).refused(400)
    assert status["message"] == (
        'admission webhook "h0.contract.test" denied the request without explanation'
    )


def test_refused_delete_keeps_the_object(install: Installer, space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    install.ready(install("validating", refuse))
    space.delete("configmaps/a").refused(400)
    space.read("configmaps/a")


def test_warnings_reach_the_client(install: Installer, space: Space) -> None:
    install.ready(install("validating", lambda _: {"allowed": True, "warnings": ["mind the gap"]}))
    reply = space.post("configmaps", {"metadata": {"name": "a"}})
    assert reply.status == 201
    assert reply.warnings == '299 - "mind the gap"'


def test_mutation_is_stored(install: Installer, space: Space) -> None:
    add = {"op": "add", "path": "/data", "value": {"added": "yes"}}
    install.ready(install("mutating", patching(add)))
    assert space.create("configmaps", {"metadata": {"name": "a"}})["data"] == {"added": "yes"}
    assert space.read("configmaps/a")["data"] == {"added": "yes"}


def test_validating_hooks_see_what_mutating_ones_made(
    install: Installer, space: Space, server: Hook
) -> None:
    add = {"op": "add", "path": "/data", "value": {"added": "yes"}}
    install.ready(install("mutating", patching(add)))
    path = install("validating", allow)
    install.ready(path)
    space.create("configmaps", {"metadata": {"name": "a"}})
    [asked] = [each for each in real(server) if each["path"] == path]
    assert asked["object"]["data"] == {"added": "yes"}


def test_mutation_is_validated(install: Installer, space: Space) -> None:
    bad = {"op": "add", "path": "/metadata/labels", "value": {"bad key": "x"}}
    install.ready(install("mutating", patching(bad)))
    reply = space.post("configmaps", {"metadata": {"name": "a"}})
    reply.refused(422, "Invalid")
    assert [cause[0] for cause in reply.causes()] == ["metadata.labels"]


def test_bad_patch_is_an_internal_error(install: Installer, space: Space) -> None:
    remove = {"op": "remove", "path": "/data/none"}
    install.ready(install("mutating", patching(remove)))
    space.post("configmaps", {"metadata": {"name": "a"}}).refused(500, "InternalError")


def test_mutation_by_apply_is_owned_by_the_applier(install: Installer, space: Space) -> None:
    add = {"op": "add", "path": "/metadata/annotations", "value": {"hook": "yes"}}
    install.ready(install("mutating", patching(add)))
    found = space.apply("configmaps/a", {"data": {"k": "v"}}, "one").object
    assert found["metadata"]["annotations"] == {"hook": "yes"}


def test_object_selector_narrows(install: Installer, space: Space) -> None:
    selector = {"matchLabels": {"checked": "yes"}}
    path = install("validating", refuse, objectSelector=selector)
    install.ready(path, labels={"checked": "yes"})
    space.create("configmaps", {"metadata": {"name": "free"}})
    metadata = {"name": "a", "labels": {"checked": "yes"}}
    space.post("configmaps", {"metadata": metadata}).refused(400)


def test_object_selector_looks_at_the_old_object_too(install: Installer, space: Space) -> None:
    metadata = {"name": "a", "labels": {"checked": "yes"}}
    space.create("configmaps", {"metadata": metadata})
    selector = {"matchLabels": {"checked": "yes"}}
    install.ready(install("validating", refuse, objectSelector=selector), labels={"checked": "yes"})
    space.patch("configmaps/a", {"metadata": {"labels": {"checked": None}}}).refused(400)


def test_operations_narrow(install: Installer, space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    install.ready(install("validating", refuse, operations=["CREATE"]))
    space.patch("configmaps/a", {"data": {"k": "v"}}).done()


def test_other_resources_are_not_asked_about(
    install: Installer, space: Space, server: Hook
) -> None:
    install.ready(install("validating", refuse))
    space.create("secrets", {"metadata": {"name": "a"}})
    assert real(server) == []


def test_dry_run_is_told(install: Installer, space: Space, server: Hook) -> None:
    install.ready(install("validating", allow))
    space.post("configmaps", {"metadata": {"name": "a"}}, dryRun="All").done()
    assert real(server)[-1]["dryRun"] is True


def test_hook_with_side_effects_refuses_dry_runs(install: Installer, space: Space) -> None:
    """Registered first as None to see it in force, then changed."""
    path = install("validating", allow)
    install.ready(path)
    body = {"webhooks": [{"name": "h0.contract.test", "sideEffects": "NoneOnDryRun"}]}
    [what] = install.made
    space.patch(what, body, "application/strategic-merge-patch+json").done()
    space.post("configmaps", {"metadata": {"name": "a"}}, dryRun="All").done()


def test_unreachable_hook_fails_the_write(install: Installer, space: Space) -> None:
    install("validating", allow, url="https://127.0.0.1:9/none", failurePolicy="Fail")

    def refused() -> Any:
        reply = space.post("configmaps", {"metadata": {"name": "a"}}, dryRun="All")
        return reply if reply.status == 500 else None

    status = until("the hook is called", refused).refused(500, "InternalError")
    assert status["message"].startswith(
        'Internal error occurred: failed calling webhook "h0.contract.test":'
        ' failed to call webhook: Post "https://127.0.0.1:9/none?timeout=10s": '
    )


def test_unreachable_hook_may_be_ignored(install: Installer, space: Space, server: Hook) -> None:
    install("validating", allow, url="https://127.0.0.1:9/none", failurePolicy="Ignore")
    install.ready(install("validating", allow))
    space.create("configmaps", {"metadata": {"name": "a"}})


def test_failing_hook_fails_the_write(install: Installer, space: Space) -> None:
    path = install("validating", lambda _: {"http": 500, "allowed": True})
    install.ready(path)
    status = space.post("configmaps", {"metadata": {"name": "a"}}).refused(500, "InternalError")
    assert 'failed calling webhook "h0.contract.test"' in status["message"]


def test_slow_hook_is_given_up_on(install: Installer, space: Space) -> None:
    release = threading.Event()

    def slow(request: dict[str, Any]) -> dict[str, Any]:
        if request["name"] == "a":
            release.wait(5)
        return {"allowed": True}

    install.ready(install("validating", slow, timeoutSeconds=1))
    begin = time.monotonic()
    status = space.post("configmaps", {"metadata": {"name": "a"}}).refused(500, "InternalError")
    release.set()
    assert 0.9 < time.monotonic() - begin < 4
    assert "context deadline exceeded" in status["message"]


def test_slow_hook_may_be_ignored(install: Installer, space: Space) -> None:
    release = threading.Event()

    def slow(request: dict[str, Any]) -> dict[str, Any]:
        if request["name"] == "a":
            release.wait(5)
        return {"allowed": False}

    install.ready(install("validating", slow, timeoutSeconds=1, failurePolicy="Ignore"))
    space.create("configmaps", {"metadata": {"name": "a"}})
    release.set()


def test_wrong_certificate_fails_the_write(install: Installer, space: Space, server: Hook) -> None:
    other = _certificate("127.0.0.1").split(b"-----BEGIN PRIVATE")[0]
    bundle = base64.b64encode(other).decode()
    install("validating", allow, clientConfig={"url": f"{server.url}/x", "caBundle": bundle})

    def refused() -> Any:
        reply = space.post("configmaps", {"metadata": {"name": "a"}}, dryRun="All")
        return reply if reply.status == 500 else None

    status = until("the hook is called", refused).json
    assert "tls: failed to verify certificate: x509: certificate" in status["message"]


def test_hooks_run_in_the_order_of_their_names(install: Installer, space: Space) -> None:
    first = {"op": "add", "path": "/data", "value": {"order": "1"}}
    second = {"op": "replace", "path": "/data/order", "value": "12"}
    install.ready(install("mutating", patching(first)))
    install.ready(install("mutating", patching(second)))
    assert space.create("configmaps", {"metadata": {"name": "a"}})["data"] == {"order": "12"}


def test_status_has_to_be_asked_for(install: Installer, space: Space, server: Hook) -> None:
    install.ready(install("validating", allow, resources=["configmaps", "persistentvolumeclaims"]))
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "none-such",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    space.create("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec})
    server.asked.clear()
    space.patch("persistentvolumeclaims/c/status", {"status": {"phase": "Lost"}}).done()
    assert [each for each in real(server) if each.get("subResource") == "status"] == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sideEffects": "Some"}, "webhooks[0].sideEffects"),
        ({"failurePolicy": "Odd"}, "webhooks[0].failurePolicy"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
        ({"admissionReviewVersions": []}, "webhooks[0].admissionReviewVersions"),
        ({"name": "short"}, "webhooks[0].name"),
        ({"clientConfig": {"url": "http://plain.test"}}, "webhooks[0].clientConfig.url"),
        ({"clientConfig": {}}, "webhooks[0].clientConfig"),
    ],
    ids=[
        "side effects",
        "failure policy",
        "timeout",
        "versions",
        "name",
        "plain http",
        "no client",
    ],
)
def test_bad_configuration_is_refused(space: Space, change: dict[str, Any], field: str) -> None:
    hook = {
        "name": "a.contract.test",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://hook.test"},
        **change,
    }
    body = {"metadata": {"name": f"x-{space.name}"}, "webhooks": [hook]}
    reply = space.post("validatingwebhookconfigurations", body, dryRun="All")
    reply.refused(422, "Invalid")
    assert field in {cause[0] for cause in reply.causes()}
