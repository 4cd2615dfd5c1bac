"""A thin HTTP driver: what the contract suite says to an API server, and what it hears.

It knows nothing of the package under test: requests are raw, answers are kept whole, and the
only help is that paths and `apiVersion`/`kind` are filled in from one table of resources.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import ssl
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

__all__ = ["APPLY", "JSON_PATCH", "MERGE", "STRATEGIC", "Api", "Reply", "Space", "Stream", "until"]

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
DEADLINE = float(os.environ.get("CONTRACT_DEADLINE", "20"))

RESOURCES: dict[str, tuple[str, str, bool]] = {
    # resource: (group/version, kind, namespaced)
    "namespaces": ("v1", "Namespace", False),
    "nodes": ("v1", "Node", False),
    "persistentvolumes": ("v1", "PersistentVolume", False),
    "configmaps": ("v1", "ConfigMap", True),
    "endpoints": ("v1", "Endpoints", True),
    "events": ("v1", "Event", True),
    "persistentvolumeclaims": ("v1", "PersistentVolumeClaim", True),
    "pods": ("v1", "Pod", True),
    "resourcequotas": ("v1", "ResourceQuota", True),
    "secrets": ("v1", "Secret", True),
    "serviceaccounts": ("v1", "ServiceAccount", True),
    "services": ("v1", "Service", True),
    "controllerrevisions": ("apps/v1", "ControllerRevision", True),
    "deployments": ("apps/v1", "Deployment", True),
    "replicasets": ("apps/v1", "ReplicaSet", True),
    "statefulsets": ("apps/v1", "StatefulSet", True),
    "jobs": ("batch/v1", "Job", True),
    "poddisruptionbudgets": ("policy/v1", "PodDisruptionBudget", True),
    "leases": ("coordination.k8s.io/v1", "Lease", True),
    "endpointslices": ("discovery.k8s.io/v1", "EndpointSlice", True),
    "storageclasses": ("storage.k8s.io/v1", "StorageClass", False),
    "roles": ("rbac.authorization.k8s.io/v1", "Role", True),
    "rolebindings": ("rbac.authorization.k8s.io/v1", "RoleBinding", True),
    "clusterroles": ("rbac.authorization.k8s.io/v1", "ClusterRole", False),
    "clusterrolebindings": ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", False),
    "networkpolicies": ("networking.k8s.io/v1", "NetworkPolicy", True),
    "mutatingwebhookconfigurations": (
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        False,
    ),
    "validatingwebhookconfigurations": (
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        False,
    ),
    "customresourcedefinitions": ("apiextensions.k8s.io/v1", "CustomResourceDefinition", False),
    "tokenreviews": ("authentication.k8s.io/v1", "TokenReview", False),
    "subjectaccessreviews": ("authorization.k8s.io/v1", "SubjectAccessReview", False),
    "selfsubjectaccessreviews": ("authorization.k8s.io/v1", "SelfSubjectAccessReview", False),
    "selfsubjectrulesreviews": ("authorization.k8s.io/v1", "SelfSubjectRulesReview", False),
}


def until(what: str, probe: Callable[[], Any], *, seconds: float = DEADLINE) -> Any:
    """Poll until the probe gives something true, and return it; say what was awaited if not."""
    deadline = time.monotonic() + seconds
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.02)


@dataclass(frozen=True)
class Reply:
    """One answer of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def object(self) -> dict[str, Any]:
        """The object in a successful answer."""
        assert self.status in (200, 201, 202), f"{self.status}: {self.text}"
        answer: dict[str, Any] = self.json
        return answer

    def done(self) -> None:
        """Insist that it succeeded, where the answer itself does not matter."""
        assert self.status in (200, 201, 202), f"{self.status}: {self.text}"

    def refused(self, code: int, reason: str | None = None) -> dict[str, Any]:
        """The Status of an answer that must be this refusal."""
        assert self.status == code, f"{self.status}, wanted {code}: {self.text}"
        answer: dict[str, Any] = self.json
        assert answer["kind"] == "Status", answer
        assert answer["apiVersion"] == "v1", answer
        assert answer["status"] == "Failure", answer
        assert answer["code"] == code, answer
        if reason is not None:
            assert answer["reason"] == reason, answer
        return answer

    def causes(self) -> set[tuple[str, str, str]]:
        """(field, reason, message) of each cause of a 422 or 409."""
        details = self.json["details"]
        return {
            (cause.get("field", ""), cause.get("reason", ""), cause.get("message", ""))
            for cause in details.get("causes", [])
        }

    def faults(self) -> set[tuple[str, str]]:
        """(field, reason) of each cause: what programs read of a refusal."""
        return {(field, reason) for field, reason, _ in self.causes()}

    @property
    def warnings(self) -> str:
        return self.headers.get("warning", "")


class Stream:
    """A watch that is open; events come one by one, each awaited with a deadline."""

    def __init__(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> None:
        self._connection = connection
        self._response = response
        self.headers = {name.lower(): value for name, value in response.getheaders()}

    def next(self, seconds: float = DEADLINE) -> dict[str, Any]:
        """The next event of any type."""
        event = self.next_or_end(seconds)
        assert event is not None, "the watch ended where an event was due"
        return event

    def next_or_end(self, seconds: float = DEADLINE) -> dict[str, Any] | None:
        """The next event, or nothing when the server ended the stream."""
        if self._connection.sock is not None:
            self._connection.sock.settimeout(seconds)
        try:
            line = self._response.readline()
        except TimeoutError:
            raise AssertionError(f"no event within {seconds:g} s") from None
        return json.loads(line) if line.strip() else None

    def rest(self, seconds: float = DEADLINE) -> list[dict[str, Any]]:
        """All events until the server ends the stream."""
        return list(iter(lambda: self.next_or_end(seconds), None))

    def seen(self, count: int) -> list[tuple[str, str]]:
        """(type, name) of the next events."""
        events = [self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"]["name"]) for event in events]

    def close(self) -> None:
        self._response.close()
        self._connection.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class Api:
    """One server and one way to prove who we are."""

    server: str
    context: ssl.SSLContext
    ca: bytes
    token: str | None = None
    keep_open: bool = True
    _connection: http.client.HTTPSConnection | None = field(default=None, repr=False)

    @classmethod
    def from_kubeconfig(cls, path: str) -> Api:
        """The current context of a kubeconfig with inline or file certificates or a token."""
        config = yaml.safe_load(Path(path).read_text())
        context = _named(config, "contexts", config["current-context"])["context"]
        cluster = _named(config, "clusters", context["cluster"])["cluster"]
        user = _named(config, "users", context["user"])["user"]
        folder = Path(path).parent
        ca = _material(cluster, "certificate-authority", folder)
        assert ca is not None, "the kubeconfig names no certificate authority"
        tls = ssl.create_default_context(cadata=ca.decode())
        certificate = _material(user, "client-certificate", folder)
        key = _material(user, "client-key", folder)
        if certificate and key:
            with tempfile.NamedTemporaryFile() as pem:
                pem.write(certificate + b"\n" + key)
                pem.flush()
                tls.load_cert_chain(pem.name)
        return cls(cluster["server"], tls, ca, user.get("token"))

    def bearing(self, token: str | None) -> Api:
        """The same server for the bearer of a token (or nobody), without our certificate."""
        tls = ssl.create_default_context(cadata=self.ca.decode())
        return Api(self.server, tls, self.ca, token, keep_open=False)

    def connect(self) -> http.client.HTTPSConnection:
        address = urllib.parse.urlsplit(self.server)
        assert address.hostname is not None
        connection = http.client.HTTPSConnection(
            address.hostname, address.port or 443, context=self.context, timeout=40
        )
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: str = "application/json",
        accept: str = "application/json",
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Reply:
        """Send one request and read the whole answer."""
        payload = None if body is None else body if isinstance(body, bytes) else _encode(body)
        sent = self._headers(accept, headers)
        if payload is not None:
            sent["Content-Type"] = content
        target = path + _query(query)
        for attempt in (1, 2):
            if self._connection is None:
                self._connection = self.connect()
            try:
                self._connection.request(method, target, payload, sent)
                response = self._connection.getresponse()
                data = response.read()
            except (http.client.HTTPException, OSError):
                self.close()
                if attempt == 2:
                    raise
                continue
            lower = {name.lower(): value for name, value in response.getheaders()}
            if response.will_close or not self.keep_open:
                self.close()
            return Reply(response.status, lower, data)
        raise AssertionError("unreachable")

    def watch(self, path: str, *, accept: str = "application/json", **query: Any) -> Stream:
        """Open a watch; the answer must be 200."""
        connection = self.connect()
        target = path + _query({"watch": "true", **query})
        connection.request("GET", target, headers=self._headers(accept, None))
        response = connection.getresponse()
        if response.status != 200:
            text = response.read().decode()
            connection.close()
            raise AssertionError(f"watch {target}: {response.status} {text}")
        return Stream(connection, response)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _headers(self, accept: str, more: Mapping[str, str] | None) -> dict[str, str]:
        sent = {"Accept": accept, "User-Agent": "contract/1", **(more or {})}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        return sent


def _encode(body: Any) -> bytes:
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def _query(query: Mapping[str, Any]) -> str:
    words = []
    for name, value in query.items():
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                text = str(each).lower() if isinstance(each, bool) else str(each)
                words.append((name, text))
    return "?" + urllib.parse.urlencode(words) if words else ""


def _named(config: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    entry: dict[str, Any] = next(each for each in config[section] if each["name"] == name)
    return entry


def _material(entry: dict[str, Any], name: str, folder: Path) -> bytes | None:
    if f"{name}-data" in entry:
        return base64.b64decode(entry[f"{name}-data"])
    return (folder / entry[name]).read_bytes() if name in entry else None


@dataclass(frozen=True)
class Space:
    """One namespace of a test's own; `configmaps/a/status` is a path in it."""

    api: Api
    name: str
    kinds: dict[str, tuple[str, str, bool]] = field(default_factory=lambda: dict(RESOURCES))

    def bearing(self, token: str | None) -> Space:
        return Space(self.api.bearing(token), self.name, self.kinds)

    def learn(self, resource: str, version: str, kind: str, *, namespaced: bool = True) -> None:
        """Add a custom resource to the table."""
        self.kinds[resource] = (version, kind, namespaced)

    def path(self, what: str) -> str:
        resource, _, rest = what.partition("/")
        version, _, namespaced = self.kinds[resource]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        middle = f"/namespaces/{self.name}" if namespaced else ""
        return f"{root}{middle}/{what}" if rest else f"{root}{middle}/{resource}"

    def whole(self, what: str, body: Any) -> Any:
        """The body with the apiVersion and kind of its resource, where it has none."""
        resource, _, rest = what.partition("/")
        if not isinstance(body, dict) or rest.count("/"):
            return body
        version, kind, _ = self.kinds[resource]
        return {"apiVersion": version, "kind": kind, **body}

    def create(self, what: str, body: dict[str, Any], **query: Any) -> dict[str, Any]:
        """Create, and insist on 201."""
        reply = self.post(what, body, **query)
        assert reply.status == 201, f"{reply.status}: {reply.text}"
        return reply.object

    def post(self, what: str, body: Any, **options: Any) -> Reply:
        return self.api.request("POST", self.path(what), self.whole(what, body), **options)

    def put(self, what: str, body: Any, **options: Any) -> Reply:
        return self.api.request("PUT", self.path(what), self.whole(what, body), **options)

    def get(self, what: str, **options: Any) -> Reply:
        return self.api.request("GET", self.path(what), **options)

    def read(self, what: str, **options: Any) -> dict[str, Any]:
        return self.get(what, **options).object

    def delete(self, what: str, body: Any = None, **options: Any) -> Reply:
        return self.api.request("DELETE", self.path(what), body, **options)

    def patch(self, what: str, body: Any, content: str = MERGE, **options: Any) -> Reply:
        return self.api.request("PATCH", self.path(what), body, content=content, **options)

    def apply(self, what: str, body: Any, manager: str | None = "one", **options: Any) -> Reply:
        """Server-side apply by a manager; `force=True` and the like are query parameters."""
        intent = self.whole(what, body)
        if isinstance(intent, dict) and "metadata" not in intent and what.count("/") == 1:
            intent = {**intent, "metadata": {"name": what.split("/")[1]}}
        return self.patch(what, intent, APPLY, fieldManager=manager, **options)

    def watch(self, what: str, **query: Any) -> Stream:
        return self.api.watch(self.path(what), **query)

    def names(self, what: str, **query: Any) -> list[str]:
        return [item["metadata"]["name"] for item in self.read(what, **query)["items"]]

    def pages(self, what: str, limit: int, **query: Any) -> Iterator[dict[str, Any]]:
        """Every page of a list."""
        token: str | None = None
        while True:
            page = self.read(what, limit=limit, **{"continue": token}, **query)
            yield page
            token = page["metadata"].get("continue")
            if not token:
                return
