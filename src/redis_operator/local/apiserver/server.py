"""The API server as one object without sockets: a request goes in, an answer comes out.

`handle` is a generator. It yields an effect when it needs the world outside (an admission
webhook), is sent the outcome, and returns the answer: a whole response, an open watch, or a
conversation with a pod. It reads the clock and draws chance only from what it was given, so the
same server runs behind HTTP and in simulated time.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from redis_operator.kube.request import Request, Response

from .admission import Admission
from .allocation import Addresses
from .bodies import refusal
from .calls import Answer, Call, Steps, User
from .core import Core
from .crds import Definitions
from .discovery import VERSION, Discovery
from .entries import encode
from .lifecycle import Namespaces
from .metadata import Bits
from .openapi import OpenApi
from .reading import Reader
from .removing import Remover
from .resources import Resource
from .status import StatusError, bad_request, method_not_allowed
from .store import Store
from .subresources import Subresources
from .table import Tables
from .tokens import Tokens
from .writing import Writer

__all__ = ["ADMIN", "ApiServer", "Settings"]

ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
_CHANCE = random.SystemRandom()


class Settings(Struct, frozen=True):
    """What an installation chooses."""

    service_network: str = "127.96.0.0/16"
    root_ca: str = ""
    host: str = "127.0.0.1:6443"


class ApiServer:
    """A Kubernetes API server's behaviour over a store."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], datetime],
        bits: Bits = _CHANCE.getrandbits,
        settings: Settings | None = None,
        token_key: bytes = b"only for a server without a network",
    ) -> None:
        self.settings = settings or Settings()
        self.failures: deque[Exception] = deque(maxlen=100)
        self.core = Core(store, clock=clock, bits=bits)
        self._definitions = Definitions(self.core)
        self._namespaces = Namespaces(self.core, root_ca=self.settings.root_ca)
        addresses = Addresses(self.core, self.settings.service_network)
        self._discovery = Discovery(self.core.registry)
        self._openapi = OpenApi(self.core.registry, self._discovery)
        reader = Reader(store, self.core.registry, self.core.index, Tables(clock))
        self.reader = reader
        admission = Admission(self.core)
        self._writer = Writer(self.core, reader, admission, addresses)
        self._remover = Remover(self.core, reader, admission)
        self.tokens = Tokens(self.core, token_key, clock)
        self._subresources = Subresources(
            self.core, reader, self._writer, self._remover, self.tokens
        )
        self._namespaces.ensure()

    def handle(self, request: Request, user: User = ADMIN, *, lag: int = 0) -> Steps[Answer]:
        """Answer one request; refusals are answers too."""
        try:
            return (yield from self._dispatch(request, user, lag))
        except StatusError as error:
            return refusal(error)

    def report(self, error: Exception) -> None:
        """Take note of a failure that is a bug of ours."""
        self.failures.append(error)

    def _dispatch(self, request: Request, user: User, lag: int) -> Steps[Answer]:
        headers = {name.lower(): value for name, value in request.headers}
        plain = self._plain(request, headers)
        if plain is not None:
            return plain
        routed = self._route(request.path)
        if routed is None:
            return self._unrouted(request.path)
        resource, namespace, name, subresource = routed
        options: dict[str, str] = {}
        for key, value in request.query:
            options.setdefault(key, value)
        call = Call(
            request=request,
            user=user,
            resource=resource,
            namespace=namespace,
            name=name,
            subresource=subresource,
            options=options,
            headers=headers,
            warnings=[],
        )
        if resource.custom is not None and resource.custom.warning:
            call.warnings.append(resource.custom.warning)
        verb = _verb(call)
        return (yield from self._perform(call, verb, lag))

    def _unrouted(self, path: str) -> Response:
        """Answer a path that names nothing: served groups say so with a Status."""
        parts = path.strip("/").split("/")
        group, version = ("", parts[1:2]) if parts[0] == "api" else (parts[1:2], parts[2:3])
        known = self._discovery.versions(group[0] if group else "")
        if version and version[0] in known:
            raise _nowhere()
        return _text(404, "404 page not found\n")

    def _perform(self, call: Call, verb: str, lag: int) -> Steps[Answer]:
        resource = call.resource
        if call.subresource and resource.subresource(call.subresource) is None:
            raise _nowhere()
        if call.subresource and call.subresource != "status":
            return (yield from self._subresources.answer(call, verb))
        if resource.key == "bindings":
            return self._subresources.pods.bind(call)
        if verb not in resource.verbs or (call.subresource and verb in {"create", "delete"}):
            raise method_not_allowed()
        match verb:
            case "get":
                return self.reader.get(call, lag)
            case "list":
                return self.reader.page(call, lag)
            case "watch":
                return self.reader.watch(call)
        return (yield from self._write(call, verb))

    def _write(self, call: Call, verb: str) -> Steps[Response]:
        match verb:
            case "create":
                return (yield from self._writer.create(call))
            case "update":
                return (yield from self._writer.update(call))
            case "patch":
                return (yield from self._writer.patch(call))
            case "delete":
                return (yield from self._remover.delete(call))
        return (yield from self._remover.collection(call))

    def _plain(self, request: Request, headers: dict[str, str]) -> Response | None:
        """Answer the paths that are not about objects."""
        path = request.path.rstrip("/") or "/"
        if path in {"/healthz", "/readyz", "/livez"}:
            return _text(200, "ok")
        if path == "/version":
            return _json(VERSION)
        if path == "/":
            groups = [f"/apis/{group}" for group in self._discovery.groups() if group]
            paths = ["/api", "/api/v1", "/apis", *groups, "/healthz", "/livez", "/metrics"]
            return _json({"paths": [*paths, "/openapi/v2", "/openapi/v3", "/readyz", "/version"]})
        if path.startswith("/openapi"):
            return self._openapi.answer(path) or _text(404, "404 page not found\n")
        if path.startswith("/api"):
            if request.method not in {"GET", "HEAD"}:
                return None
            return self._discovery.answer(path, headers.get("accept", ""), self.settings.host)
        return None

    def _route(self, path: str) -> tuple[Resource, str, str, str] | None:
        """Return what a path is about: resource, namespace, name and subresource."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if "" in parts or any("/" in part for part in parts):
            return None
        match parts:
            case ["api", version, *rest]:
                group = ""
            case ["apis", group, version, *rest]:
                pass
            case _:
                return None
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            found = self.core.registry.find(group, version, rest[2])
            if found is not None and found.namespaced:
                namespace, rest = rest[1], rest[2:]
        if not 1 <= len(rest) <= 3:
            return None
        resource = self.core.registry.find(group, version, rest[0])
        if resource is None:
            return None
        if len(rest) > 1 and resource.namespaced and not namespace:
            return None
        name, subresource = (*rest[1:], "", "")[:2]
        return resource, namespace, name, subresource


def _verb(call: Call) -> str:
    """Return the verb Kubernetes knows a request by."""
    match call.request.method:
        case "GET" | "HEAD":
            if call.subresource:
                return "get"
            if call.flag("watch"):
                return "watch"
            return "get" if call.name else "list"
        case "POST":
            if call.name and not call.subresource:
                raise method_not_allowed()
            if call.resource.namespaced and not call.namespace:
                raise bad_request("an empty namespace may not be set during creation")
            return "create"
        case "PUT":
            return "update"
        case "PATCH":
            return "patch"
        case "DELETE":
            return "delete" if call.name else "deletecollection"
    raise method_not_allowed()


def _nowhere() -> StatusError:
    text = "the server could not find the requested resource"
    return StatusError(404, "NotFound", text, details={})


def _text(status: int, text: str) -> Response:
    headers = {"content-type": "text/plain; charset=utf-8", "cache-control": "no-cache, private"}
    return Response(status=status, headers=headers, body=text.encode())


def _json(value: dict[str, Any]) -> Response:
    return Response(status=200, headers={"content-type": "application/json"}, body=encode(value))
