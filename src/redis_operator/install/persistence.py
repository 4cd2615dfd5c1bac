"""A transport that retries while the API server is unavailable, as while it loads new kinds.

Guarantees: all requests of an installation can be sent twice: objects are applied completely,
deletions name the uid, and patches the resource version.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from kubecontroller.client import (
    APPLY_PATCH,
    CertificateRejected,
    ConnectionFailed,
    Request,
    Response,
    Transport,
)

__all__ = ["PersistentTransport"]

_AGAIN_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 60.0
"""How long a failing request is retried before it is an error."""
_PASSING: Final = frozenset({429, 500, 502, 503, 504})


class PersistentTransport:
    """Sends a request again while the error seems temporary; logs that once."""

    def __init__(self, transport: Transport, tell: Callable[[str], None]) -> None:
        self._transport = transport
        self._tell = tell
        self._told = False

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Return the final response, or raise the final error."""
        clock = asyncio.get_running_loop().time
        end = clock() + _RETRY_SECONDS
        while True:
            late = clock() >= end
            try:
                response = await self._transport.request(request, timeout=timeout)
            except CertificateRejected:
                raise
            except ConnectionFailed as error:
                if late:
                    raise
                self._say(str(error))
            else:
                if late or not _passes(request, response):
                    return response
                self._say(f"the API server responds with {response.status}")
            await asyncio.sleep(_AGAIN_SECONDS)

    def stream(
        self, request: Request, *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream, once."""
        return self._transport.stream(request, idle=idle)

    async def close(self) -> None:
        """Close the transport underneath."""
        await self._transport.close()

    def _say(self, trouble: str) -> None:
        if not self._told:
            self._tell(f"{trouble}; retrying for up to {_RETRY_SECONDS:g} s")
        self._told = True


def _passes(request: Request, response: Response) -> bool:
    """Return whether a retry of the request may succeed."""
    applied = dict(request.headers).get("content-type") == APPLY_PATCH
    deleted = request.method == "DELETE" and b"preconditions" not in request.body
    return response.status in _PASSING or (response.status == 409 and (applied or deleted))
