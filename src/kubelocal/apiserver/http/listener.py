"""The HTTPS front end: sockets, certificates and streams around the server core.

Everything that a client sends is bounded before it is read, and everything that it does not read
is bounded after it is written. Idle connections are closed.
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import contextlib
import ssl
from typing import Any

from kubelocal.apiserver.access.tokens import Authenticator
from kubelocal.apiserver.calls import Answer, Connect, Steps, User
from kubelocal.apiserver.http.connection import Connection
from kubelocal.apiserver.http.wire import Message
from kubelocal.apiserver.pump import Perform
from kubelocal.apiserver.server import ApiServer

__all__ = ["HttpServer"]

_IDLE = 120.0
_SWEEP = 30.0
_GOODBYE = 0.5
asyncio.sslproto.SSLProtocol.max_size = 16 * 1024
# Each TLS connection keeps a read buffer of this size (of one record); a thousand are normal here.


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
        self.perform = perform
        self.hooks = hooks
        self.connections: set[Connection] = set()
        self.failed = server.failed
        self._listening: asyncio.Server | None = None
        self._sweeping: asyncio.TimerHandle | None = None

    async def start(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Listen; return the port, which is chosen when zero is given."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(
            lambda: Connection(self), host, port, ssl=context, backlog=1024
        )
        self._sweeping = loop.call_later(_SWEEP, self._sweep)
        bound: int = self._listening.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Stop listening and end all streams."""
        if self._listening is None or self._sweeping is None:
            return
        self._listening.close()
        self._sweeping.cancel()
        for connection in tuple(self.connections):
            connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                while self.connections:  # noqa: ASYNC110 - they go one by one, without a signal
                    await asyncio.sleep(0.005)
        for connection in tuple(self.connections):
            connection.abort()
        self._listening = None

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        for connection in tuple(self.connections):
            if connection.is_idle and loop.time() - connection.last_heard > _IDLE:
                connection.close()
        self._sweeping = loop.call_later(_SWEEP, self._sweep)

    def identify(self, message: Message, certificate: Any) -> User:
        """Return the user of a request."""
        return self._authenticator.identify(dict(message.request.headers), certificate)

    def begin(self, message: Message, user: User) -> Steps[Answer]:
        """Begin to handle a request."""
        return self._server.handle(message.request, user)

    async def stream_pod(self, connection: Connection, message: Message, connect: Connect) -> None:
        """Serve a stream of a pod; its code is loaded with the first one."""
        from kubelocal.apiserver.http.streams import stream_pod  # noqa: PLC0415

        await stream_pod(connection, message, connect, self.hooks)
