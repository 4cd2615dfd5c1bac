"""The transport without a network: requests go straight to an API server in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from kubecontroller.client import NoAnswer, Request, Response, StreamStalled, error_from_response
from kubelocal.apiserver.calls import CallWebhook, Connect, Outcome, User, WebhookFailed
from kubelocal.apiserver.pump import Perform, drive, pump
from kubelocal.apiserver.server import ADMIN, ApiServer
from kubelocal.apiserver.storage.watch import Watch

__all__ = ["InProcessTransport"]


async def no_webhooks(effect: CallWebhook) -> Outcome:
    """Fail every webhook: a server without a network reaches none."""
    return WebhookFailed(f'Post "{effect.url}": webhooks cannot be reached from this process')


class InProcessTransport:
    """Sends requests as one user to an API server in the same process and event loop."""

    def __init__(
        self, server: ApiServer, *, user: User = ADMIN, perform: Perform = no_webhooks
    ) -> None:
        self._server = server
        self._user = user
        self._perform = perform

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Return the whole response to one request."""
        try:
            async with asyncio.timeout(timeout):
                answer = await drive(self._server.handle(request, self._user), self._perform)
        except TimeoutError:
            raise NoAnswer(f"no response within {timeout:g} s", host="in-process") from None
        except Exception as error:  # as over the network: a bug here does not end its caller
            return self._server.failed(error, f"{request.method} {request.path}")
        if isinstance(answer, Watch):
            answer.close()
            raise TypeError(f"{request.path} is a watch: open it with stream()")
        if isinstance(answer, Connect):
            raise TypeError(f"{request.path} needs the HTTP front end")
        return answer

    def stream(
        self, request: Request, *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch and yield its raw pieces."""
        return self._stream(request, idle)

    @asynccontextmanager
    async def _stream(self, request: Request, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        try:
            answer = await drive(self._server.handle(request, self._user), self._perform)
        except Exception as error:
            answer = self._server.failed(error, f"{request.method} {request.path}")
        if isinstance(answer, Response):
            if answer.status != 200:
                raise error_from_response(answer, ref=request.path)
            yield _once(answer.body)
            return
        if isinstance(answer, Connect):
            raise TypeError(f"{request.path} needs the HTTP front end")
        chunks = pump(answer)
        try:
            yield _lively(chunks, idle)
        finally:
            await chunks.aclose()  # type: ignore[attr-defined]  # an async generator

    async def close(self) -> None:
        """Do nothing: there is no connection."""


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _lively(chunks: AsyncIterator[bytes], idle: float) -> AsyncIterator[bytes]:
    """Pass chunks on, and raise when none arrive for too long."""
    while True:
        try:
            async with asyncio.timeout(idle):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise StreamStalled(f"no byte for {idle:g} s") from None
        yield chunk
