"""What API calls need: the right that a request asks for, and a transport that notes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from kubecontroller.client.errors import BadRequest
from kubecontroller.client.request import APPLY_PATCH, Request, Response
from kubecontroller.client.transport import Transport

__all__ = ["Recording", "Right", "right_of"]

Right = tuple[str, str, str]
"""Group, resource with subresource, and verb, as RBAC names them."""


def right_of(request: Request) -> Right:
    """Return the right that a request needs."""
    parts = request.path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource, named = rest[0], len(rest) > 1
    if len(rest) > 2:
        resource = f"{rest[0]}/{rest[2]}"
    watches = dict(request.query).get("watch") in {"true", "1"}
    verb = {
        "GET": "watch" if watches else "get" if named else "list",
        "POST": "create",
        "PUT": "update",
        "PATCH": "patch",
        "DELETE": "delete" if named else "deletecollection",
    }[request.method]
    return group, resource, verb


class Recording:
    """Passes everything on, and notes which rights it took."""

    def __init__(self, transport: Transport, seen: set[Right], *, streams: bool = True) -> None:
        self._transport = transport
        self._seen = seen
        self._streams = streams  # whether lists may be read as watches, as newer servers allow

    async def request(self, request: Request, *, timeout: float) -> Response:
        group, resource, verb = right_of(request)
        self._seen.add((group, resource, verb))
        response = await self._transport.request(request, timeout=timeout)
        applied = dict(request.headers).get("content-type") == APPLY_PATCH
        if applied and response.status == 201:
            self._seen.add((group, resource, "create"))  # an apply that creates needs both
        return response

    def stream(
        self, request: Request, *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        self._seen.add(right_of(request))
        if not self._streams and dict(request.query).get("sendInitialEvents"):
            raise BadRequest("unknown: sendInitialEvents", status=400, reason="BadRequest")
        return self._transport.stream(request, idle=idle)

    async def close(self) -> None:
        await self._transport.close()
