"""The connection of an archiver to a server: a replica that reads the stream and has no data.

Guarantees: every byte that is taken from the connection is returned by a read, also where its time
is over or it is cancelled meanwhile. It announces no port, and acknowledges what it has received
unless it is `silent`. Errors: `SourceError`.
"""

from __future__ import annotations

import asyncio
import socket
import time

from redis_operator.redis.resp import encode

from ..errors import SourceError
from ..replica import Login
from ..task import Source
from .follow import Continue

__all__ = ["StreamLink", "attach_stream"]

_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 20.0
_ACK_SECONDS = 1.0
_CHUNK = 4 << 20
_RECEIVE_BUFFER = 1 << 20


class StreamLink:
    """An attached stream. `replication_id` is the history that the next bytes belong to."""

    def __init__(
        self,
        source: Source,
        replication_id: str,
        first: int,
        connection: socket.socket,
        rest: bytes,
        *,
        silent: bool = False,
    ) -> None:
        self.source = source
        self._silent = silent
        self.replication_id = replication_id
        self.received = first - 1
        self._socket = connection
        self._rest = rest
        self._acknowledged = 0.0

    async def read(self, *, timeout: float) -> bytes:
        """Return the bytes that have arrived; empty after `timeout` without any.

        Raises `SourceError` where the server has ended the stream.
        """
        await self._acknowledge()
        if self._rest:
            found, self._rest = self._rest, b""
        else:
            try:
                await self._wait_readable(timeout)
                found = self._socket.recv(_CHUNK)
            except BlockingIOError:
                return b""
            except OSError as error:
                raise SourceError(f"{self.source.pod}: {error}", passing=True) from error
            if not found:
                raise SourceError(f"{self.source.pod} ended the stream", passing=True)
        self.received += len(found)
        return found

    async def _wait_readable(self, timeout: float) -> None:
        """Wait for bytes without reading any, and `timeout` at most.

        A receive that is cancelled when its time is over may have taken bytes already, which are
        then lost: the archive would lack them without a sign of it.
        """
        loop, place = asyncio.get_running_loop(), self._socket.fileno()
        arrived: asyncio.Future[None] = loop.create_future()

        def notice() -> None:
            if not arrived.done():
                arrived.set_result(None)

        loop.add_reader(place, notice)
        try:
            await asyncio.wait([arrived], timeout=timeout)
        finally:
            loop.remove_reader(place)

    async def _acknowledge(self) -> None:
        now = time.monotonic()
        if self._silent or now - self._acknowledged < _ACK_SECONDS:
            return
        self._acknowledged = now
        words = encode(("REPLCONF", "ACK", self.received))
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, words)
        except OSError as error:
            raise SourceError(f"{self.source.pod}: {error}", passing=True) from error

    def close(self) -> None:
        """Close it. Harmless when repeated."""
        self._socket.close()


async def attach_stream(
    wanted: Continue, login: Login, version: str, *, silent: bool = False
) -> StreamLink:
    """Attach where `wanted` says. Raises `SourceError`, also for a full resync.

    `silent`: nothing is acknowledged, so that WAIT does not count the worker.
    """
    source = wanted.source
    connection = await _connect(source)
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            answer, rest = await _ask(connection, wanted, login, version)
    except TimeoutError as error:
        connection.close()
        text = f"{source.pod} does not respond within {_ANSWER_SECONDS:g} s"
        raise SourceError(text, passing=True) from error
    except OSError as error:
        connection.close()
        raise SourceError(f"{source.pod}: {error}", passing=True) from error
    except BaseException:
        connection.close()
        raise
    history = answer or wanted.replication_id
    return StreamLink(source, history, wanted.first, connection, rest, silent=silent)


async def _connect(source: Source) -> socket.socket:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            found = await loop.getaddrinfo(source.host, source.port, type=socket.SOCK_STREAM)
            family, kind, protocol, _, address = found[0]
            connection = socket.socket(family, kind, protocol)
            try:
                connection.setblocking(False)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
                await loop.sock_connect(connection, address)
            except BaseException:
                connection.close()
                raise
            return connection
    except (OSError, TimeoutError) as error:
        why = str(error) or f"no connection within {_CONNECT_SECONDS:g} s"
        raise SourceError(f"{source.pod} cannot be reached: {why}", passing=True) from error


async def _ask(
    connection: socket.socket, wanted: Continue, login: Login, version: str
) -> tuple[str, bytes]:
    """Return the new history in which the server continues, if any, and bytes after the reply."""
    loop = asyncio.get_running_loop()
    kept = b""

    async def line() -> str:
        nonlocal kept
        while True:
            found, mark, after = kept.partition(b"\n")
            if mark:
                kept = after
                if found.strip():
                    return found.decode(errors="replace").strip()
                continue
            more = await loop.sock_recv(connection, 65536)
            if not more:
                raise SourceError(f"{wanted.source.pod} ended the connection", passing=True)
            kept += more

    async def ask(*words: str | int, may_refuse: bool = False) -> str:
        await loop.sock_sendall(connection, encode(words))
        answer = await line()
        if answer.startswith("-") and not may_refuse:
            message = answer.removeprefix("-")
            raise SourceError(f"{wanted.source.pod} refuses {words[0]}: {message}", passing=True)
        return answer

    await ask("AUTH", login.user, login.password)
    await ask("REPLCONF", "capa", "eof", "capa", "psync2")
    await ask("REPLCONF", "version", version, may_refuse=True)
    answer = (await ask("PSYNC", wanted.replication_id, wanted.first)).split()
    if answer[0] != "+CONTINUE":
        raise SourceError(
            f"{wanted.source.pod} does not continue the history {wanted.replication_id} from byte "
            f"{wanted.first}: {' '.join(answer)}",
            passing=True,
        )
    return (answer[1] if len(answer) > 1 else ""), kept
