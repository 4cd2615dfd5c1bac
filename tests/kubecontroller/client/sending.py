"""What tests of the HTTP transport send, and how."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from kubecontroller.client.access import Access
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.request import Request, Response

__all__ = ["GET", "POST", "ok", "opened", "send"]

GET = Request("GET", "/api/v1/pods")
POST = Request("POST", "/api/v1/pods", body=b"{}")


async def ok(request: web.Request) -> web.Response:
    """Answer with the path that was asked for."""
    return web.json_response({"path": request.path_qs})


@asynccontextmanager
async def opened(access: Access) -> AsyncIterator[HttpTransport]:
    """A transport that is closed at the end of the block."""
    transport = HttpTransport(access)
    try:
        yield transport
    finally:
        await transport.close()


async def send(access: Access, request: Request = GET, timeout: float = 5.0) -> Response:
    """Send one request by a transport of its own."""
    async with opened(access) as transport:
        return await transport.request(request, timeout=timeout)
