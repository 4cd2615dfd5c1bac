"""The API server as one object without sockets: a request goes in, an answer comes out.

`handle` is a generator. It yields an effect when it needs the outside world (an admission
webhook), is sent the outcome, and returns the answer: a whole response, an open watch, or a
stream of a pod. The clock and the source of randomness are arguments, so the same server runs
behind HTTP and in simulated time.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from kubecontroller.client import APPLY_PATCH, Request, Response
from kubelocal.apiserver.access.rbac import Attributes, Authorizer, ensure_roles
from kubelocal.apiserver.access.tokens import Tokens
from kubelocal.apiserver.admission.chain import Admission
from kubelocal.apiserver.calls import Answer, Call, Steps, User
from kubelocal.apiserver.core import Core
from kubelocal.apiserver.describe.discovery import VERSION, Discovery
from kubelocal.apiserver.describe.openapi import OpenApi
from kubelocal.apiserver.describe.table import Tables
from kubelocal.apiserver.errors import StatusError, forbidden, internal, method_not_allowed
from kubelocal.apiserver.format.bodies import refusal
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.lifecycle.definitions import Definitions
from kubelocal.apiserver.lifecycle.namespaces import Namespaces
from kubelocal.apiserver.lifecycle.services import Addresses
from kubelocal.apiserver.objects.metadata import Bits, timestamp
from kubelocal.apiserver.storage.entries import encode
from kubelocal.apiserver.storage.store import Store
from kubelocal.apiserver.verbs.delete import Remover
from kubelocal.apiserver.verbs.read import Reader
from kubelocal.apiserver.verbs.reviews import REVIEWS, Reviews
from kubelocal.apiserver.verbs.subresources import Subresources
from kubelocal.apiserver.verbs.write import Writer

__all__ = ["ADMIN", "ApiServer", "Settings"]

ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
_log = logging.getLogger(__name__)
_RANDOM = random.Random()  # for names and uids; nothing here is a secret
_Routed = tuple[Resource, str, str, str]


class Settings(Struct, frozen=True):
    """The settings of an installation."""

    service_network: str = "127.96.0.0/16"
    root_ca: str = ""
    host: str = "127.0.0.1:6443"


class ApiServer:
    """The behaviour of a Kubernetes API server over a store."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], datetime],
        bits: Bits = _RANDOM.getrandbits,
        settings: Settings | None = None,
        token_key: bytes = b"only for a server without a network",
    ) -> None:
        self.settings = settings or Settings()
        self._answered: Counter[tuple[str, str, int]] = Counter()
        self.core = Core(store, clock=clock, bits=bits)
        self._definitions = Definitions(self.core)
        self._namespaces = Namespaces(self.core, root_ca=self.settings.root_ca)
        addresses = Addresses(self.core, self.settings.service_network)
        self._discovery = Discovery(self.core.registry)
        self._openapi = OpenApi(self.core.registry, self._discovery)
        reader = Reader(store, self.core.registry, self.core.index, Tables(clock))
        self.reader = reader
        self._authorizer = Authorizer(self.core)
        admission = Admission(self.core, self._authorizer)
        self._writer = Writer(self.core, reader, admission, addresses)
        self._remover = Remover(self.core, reader, admission)
        self.tokens = Tokens(self.core, token_key, clock)
        self._reviews = Reviews(self._authorizer, self.tokens)
        self._subresources = Subresources(
            self.core, reader, self._writer, self._remover, self.tokens
        )
        self._namespaces.ensure()
        ensure_roles(self.core)
        store.settle()

    def handle(self, request: Request, user: User = ADMIN) -> Steps[Answer]:
        """Handle one request; errors are answers too."""
        routed = self._route(request.path)
        try:
            answer = yield from self._dispatch(request, routed, user)
        except StatusError as error:
            answer = refusal(error)
        code = answer.status if isinstance(answer, Response) else 200
        # counted only for resources that exist, so that there are few labels
        self._answered[request.method, routed[0].key if routed else "", code] += 1
        return answer

    def failed(self, error: Exception, request: str) -> Response:
        """Log a failure that is a bug of the server, or of the disk, and return a 500."""
        _log.error("%s failed inside the API server", request, exc_info=error)
        return refusal(internal(f"{type(error).__name__}: {error}"))

    def _dispatch(self, request: Request, routed: _Routed | None, user: User) -> Steps[Answer]:
        headers = {name.lower(): value for name, value in request.headers}
        user = self._impersonated(user, request)
        if routed is None:
            self._authorize_path(user, request)
            return self._plain(request, headers) or self._unrouted(request.path)
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
        self._authorize(call, verb)
        return (yield from self._perform(call, verb))

    def _authorize(self, call: Call, verb: str) -> None:
        resource = call.resource
        wanted = Attributes(
            verb=verb,
            group=resource.group,
            resource=resource.plural,
            subresource=call.subresource,
            name=call.name or _selected_name(call),
            namespace=call.namespace,
        )
        if self._authorizer.reason(call.user, wanted) is None:
            raise not_allowed(call.user, wanted)

    def _exists(self, call: Call) -> bool:
        return self.core.entry(call.resource.key, call.namespace, call.name) is not None

    def _authorize_creation(self, call: Call) -> None:
        """Check the permission to create, where a write to a missing object would create it."""
        if call.request.method == "PUT" or call.headers.get("content-type", "") == APPLY_PATCH:
            self._authorize(call, "create")

    def _authorize_path(self, user: User, request: Request) -> None:
        verb = {"GET": "get", "HEAD": "head", "POST": "post"}.get(request.method, "get")
        wanted = Attributes(verb=verb, path=request.path)
        if self._authorizer.reason(user, wanted) is None:
            why = f'User "{user.name}" cannot {verb} path "{request.path}"'
            raise StatusError(403, "Forbidden", f"forbidden: {why}", details={})

    def _impersonated(self, user: User, request: Request) -> User:
        """Return the impersonated user, if the caller may impersonate it and each of the groups."""
        asked = [(name.lower(), value) for name, value in request.headers]
        name = next((value for header, value in asked if header == "impersonate-user"), "")
        groups = [
            group
            for header, value in asked
            if header == "impersonate-group"
            for group in value.split(",")
            if group
        ]
        if not name and not groups:
            return user
        if not name:
            text = f"requested groups {', '.join(groups)} without impersonating a user"
            raise internal(text)
        needed = [Attributes(verb="impersonate", resource="users", name=name)]
        implied: tuple[str, ...] = ()
        match name.split(":"):
            case ["system", "serviceaccount", namespace, account]:
                needed = [Attributes("impersonate", "", "serviceaccounts", "", account, namespace)]
                implied = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        needed += [Attributes(verb="impersonate", resource="groups", name=one) for one in groups]
        for wanted in needed:
            if self._authorizer.reason(user, wanted) is None:
                raise not_allowed(user, wanted)
        return User(name, (*groups, *implied, "system:authenticated"))

    def _unrouted(self, path: str) -> Response:
        """Handle a path that is not served: served groups respond with a Status."""
        parts = path.strip("/").split("/")
        is_core = parts[0] == "api"
        if is_core or (parts[0] == "apis" and parts[1] in self._discovery.groups()):
            raise _nowhere()
        return _text(404, "404 page not found\n")

    def _perform(self, call: Call, verb: str) -> Steps[Answer]:
        resource = call.resource
        if call.subresource and resource.subresource(call.subresource) is None:
            raise _nowhere()
        if call.subresource and call.subresource != "status":
            return (yield from self._subresources.answer(call, verb))
        if resource.kind in REVIEWS and verb == "create":
            return self._reviews.answer(call, timestamp(self.core.clock()))
        if resource.key == "bindings":
            return self._subresources.pods.bind(call)
        if verb not in resource.verbs or (call.subresource and verb in {"create", "delete"}):
            raise method_not_allowed()
        match verb:
            case "get":
                return self.reader.get(call)
            case "list":
                return self.reader.page(call)
            case "watch":
                return self.reader.watch(call)
        return (yield from self._write(call, verb))

    def _write(self, call: Call, verb: str) -> Steps[Response]:
        match verb:
            case "create":
                return (yield from self._writer.create(call))
            case "update" | "patch":
                if not self._exists(call) and not call.subresource:
                    self._authorize_creation(call)
                act = self._writer.update if verb == "update" else self._writer.patch
                return (yield from act(call))
            case "delete":
                return (yield from self._remover.delete(call))
        return (yield from self._remover.collection(call))

    def _plain(self, request: Request, headers: dict[str, str]) -> Response | None:
        """Handle the paths that are not about objects."""
        path = request.path.rstrip("/")
        if path in {"/healthz", "/readyz", "/livez"}:
            is_verbose = any(name == "verbose" for name, _ in request.query)
            checked = f"[+]ping ok\n[+]store ok\n{path[1:]} check passed\n"
            return _text(200, checked if is_verbose else "ok")
        if path == "/version":
            return _json(VERSION)
        if path == "/metrics":
            return _text(200, self._metrics())
        if path.startswith("/openapi"):
            return self._openapi.answer(path) or _text(404, "404 page not found\n")
        if path.startswith("/api"):
            if request.method not in {"GET", "HEAD"}:
                return None
            return self._discovery.answer(path, headers.get("accept", ""), self.settings.host)
        return None

    def _metrics(self) -> str:
        """Return the counters in the format of Prometheus."""
        lines = [
            "# HELP apiserver_request_total Requests by verb, resource and code.",
            "# TYPE apiserver_request_total counter",
        ]
        for (verb, resource, code), count in sorted(self._answered.items()):
            labels = f'code="{code}",resource="{resource}",verb="{verb}"'
            lines.append(f"apiserver_request_total{{{labels}}} {count}")
        lines += [
            "# HELP apiserver_storage_objects Objects kept, by resource.",
            "# TYPE apiserver_storage_objects gauge",
        ]
        for home in self.core.store.collections():
            lines.append(f'apiserver_storage_objects{{resource="{home.name}"}} {len(home.entries)}')
        lines += [
            "# HELP apiserver_longrunning_requests Watches that are open, by resource.",
            "# TYPE apiserver_longrunning_requests gauge",
        ]
        for home in self.core.store.collections():
            labels = f'resource="{home.name}",verb="WATCH"'
            lines.append(f"apiserver_longrunning_requests{{{labels}}} {len(home.wakers)}")
        return "\n".join(lines) + "\n"

    def _route(self, path: str) -> _Routed | None:
        """Return resource, namespace, name and subresource of a path."""
        parts = path.strip("/").split("/")
        if "%" in path:
            parts = [unquote(part) for part in parts]
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


def _selected_name(call: Call) -> str:
    """Return the one name that a list or watch selects: permissions may be bound to it."""
    if call.request.method == "POST":
        return ""
    for term in call.options.get("fieldSelector", "").split(","):
        field, equals, value = term.partition("=")
        if equals and field == "metadata.name":
            return value.removeprefix("=")
    return ""


def _verb(call: Call) -> str:
    """Return the Kubernetes verb of a request."""
    match call.request.method:
        case "GET":
            if call.subresource:
                return "get"
            if call.flag("watch") and not call.name:
                return "watch"
            return "get" if call.name else "list"
        case "POST":
            verb, fits = "create", bool(not call.name or call.subresource)
        case "PUT":
            verb, fits = "update", bool(call.name)
        case "PATCH":
            verb, fits = "patch", bool(call.name)
        case "DELETE":
            verb, fits = "delete" if call.name else "deletecollection", True
        case _:
            raise method_not_allowed()
    if not fits or (call.resource.namespaced and not call.namespace):
        raise method_not_allowed()
    return verb


def not_allowed(user: User, wanted: Attributes) -> StatusError:
    """Return the error for a request that a user has no permission for."""
    where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    why = (
        f'User "{user.name}" cannot {wanted.verb} resource "{wanted.target}" in API group'
        f' "{wanted.group}" {where}'
    )
    return forbidden(wanted.group, wanted.resource, wanted.name, why)


def _nowhere() -> StatusError:
    text = "the server could not find the requested resource"
    return StatusError(404, "NotFound", text, details={})


def _text(status: int, text: str) -> Response:
    headers = {"content-type": "text/plain; charset=utf-8", "cache-control": "no-cache, private"}
    return Response(status=status, headers=headers, body=text.encode())


def _json(value: dict[str, Any]) -> Response:
    return Response(status=200, headers={"content-type": "application/json"}, body=encode(value))
