"""The protocol through which requests reach an API server.

Three methods are all that the client needs, so that HTTP, an API server in the same process, and a
fault layer in front of either are interchangeable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from kubecontroller.client.request import Request, Response

__all__ = ["SILENT_SECONDS", "Transport"]

SILENT_SECONDS: Final = 60.0
"""How long a connection may be silent while a response is due, whatever the timeout of the
whole request: a large list may take long while data still arrives."""


class Transport(Protocol):
    """Carries requests to an API server."""

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send one request and return the whole response, whatever its status.

        Errors: a failure below HTTP raises `ConnectionFailed` (or a subclass), and so do `timeout`
        seconds without a response.
        """
        ...

    def stream(
        self, request: Request, *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream and yield its raw pieces, of any size, until the server ends it.

        Errors: a status other than 200 raises the typed error for it on entry; `idle` seconds
        without a byte raise `StreamStalled`. Leaving the context always frees the connection.
        """
        ...

    async def close(self) -> None:
        """Free every connection; the transport cannot be used afterwards."""
        ...
