"""The HTTPS front end: sockets, certificates and streams around the server core.

Everything a client sends is bounded before it is read, and everything it does not read is bounded
after it is written: a stream whose client takes nothing for a while is cut off.
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

from aiohttp import web

from redis_operator.kube.request import Request, Response

from .authenticate import Authenticator
from .bodies import LIMIT, refusal
from .calls import Answer, Connect
from .conversations import converse
from .pump import Perform, drive, pump
from .server import ApiServer
from .status import StatusError, internal, too_large
from .watch import Watch

__all__ = ["HttpServer"]

_STALLED = 60.0
asyncio.sslproto.SSLProtocol.max_size = 32 * 1024
# Each TLS connection keeps a read buffer of this size; a thousand watchers are normal here.


class HttpServer:
    """Serves an `ApiServer` on one address."""

    def __init__(
        self,
        server: ApiServer,
        authenticator: Authenticator,
        *,
        perform: Perform,
        hooks: Any = None,
    ) -> None:
        self._server = server
        self._authenticator = authenticator
        self._perform = perform
        self.hooks = hooks
        self._runner: web.ServerRunner | None = None

    async def start(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Listen; return the port, which is chosen when zero is given."""
        runner = web.ServerRunner(
            web.Server(self._handle, handler_cancellation=True, access_log=None),
            shutdown_timeout=0.5,
        )
        await runner.setup()
        site = web.TCPSite(runner, host, port, ssl_context=context)
        await site.start()
        self._runner = runner
        bound: int = runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        """Stop listening and end all streams."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            request = await _read(http)
            user = self._authenticator.identify(
                {name.lower(): value for name, value in request.headers},
                http.transport.get_extra_info("peercert") if http.transport else None,
            )
            answer = await drive(self._server.handle(request, user), self._perform)
        except StatusError as error:
            answer = refusal(error)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # the pass dies, not the server
            self._server.report(error)
            answer = refusal(internal(f"{type(error).__name__}: {error}"))
        return await self._send(http, answer)

    async def _send(self, http: web.BaseRequest, answer: Answer) -> web.StreamResponse:
        match answer:
            case Response():
                headers = {**answer.headers, "audit-id": str(uuid4())}
                return web.Response(status=answer.status, headers=headers, body=answer.body)
            case Watch():
                return await _stream(http, pump(answer))
            case Connect():
                return await converse(http, answer, self.hooks)


async def _read(http: web.BaseRequest) -> Request:
    length = http.content_length
    if length is not None and length > LIMIT:
        raise too_large(LIMIT)
    body = b""
    if http.body_exists:
        chunks: list[bytes] = []
        size = 0
        async for chunk in http.content.iter_any():
            size += len(chunk)
            if size > LIMIT:
                raise too_large(LIMIT)
            chunks.append(chunk)
        body = b"".join(chunks)
    return Request(
        method=http.method,
        path=http.rel_url.raw_path,
        query=tuple(http.query.items()),
        headers=tuple(http.headers.items()),
        body=body,
    )


async def _stream(http: web.BaseRequest, chunks: AsyncIterator[bytes]) -> web.StreamResponse:
    response = web.StreamResponse(
        headers={
            "content-type": "application/json",
            "cache-control": "no-cache, private",
            "audit-id": str(uuid4()),
        }
    )
    response.enable_chunked_encoding()
    try:
        await response.prepare(http)
        async for chunk in chunks:
            async with asyncio.timeout(_STALLED):
                await response.write(chunk)
        await response.write_eof()
    except (ConnectionError, TimeoutError):
        if http.transport is not None:
            http.transport.abort()
    finally:
        with contextlib.suppress(AttributeError):
            await chunks.aclose()  # type: ignore[attr-defined]  # an async generator
    return response
