"""Read the snapshot of a server over the replication protocol, as a replica does.

Guarantees:
    - The server is asked for the snapshot alone (`rdb-only`) and the connection is closed after it;
      no port is announced, so that no failover can choose the worker as a replica.
    - The snapshot is complete: as long as the server announced, or up to its end mark.

Assumptions: a user that may run PSYNC, REPLCONF and PING. To a server whose RDB has another format
for older readers (Valkey 9) its own version is announced, or it would refuse data that the older
format cannot express.
Errors: `SourceError`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

from redis_operator.redis.resp import encode

from .errors import SourceError
from .task import Source

__all__ = ["Attached", "Login", "Snapshot", "attach", "introduced"]

_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 60.0  # servers send a line end every second while they prepare
_LIMIT = 1 << 20
_CHUNK = 1 << 18
_MARK = 40
_PASSING = ("NOMASTERLINK", "LOADING", "MASTERDOWN", "WRONGPASS", "NOAUTH", "NOPERM", "BUSY")


class Login(Struct, frozen=True):
    """The login of the worker at servers. Its text form hides the password."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.user!r}, ***)"


class Snapshot:
    """An RDB on its way: where in the server's history it is, and its bytes."""

    def __init__(
        self, replication_id: str, offset: int, announced: str, reader: asyncio.StreamReader
    ) -> None:
        self.replication_id = replication_id
        self.offset = offset
        self._announced = announced
        self._reader = reader

    def chunks(self) -> AsyncIterator[bytes]:
        """Return the bytes of the RDB, once."""
        if self._announced.startswith("EOF:"):
            return self._marked(self._announced.removeprefix("EOF:").encode())
        return self._counted(int(self._announced))

    async def _marked(self, mark: bytes) -> AsyncIterator[bytes]:
        kept = b""
        while True:
            kept += await _read(self._reader)
            if kept.endswith(mark):
                yield kept[:-_MARK]
                return
            if len(kept) > _MARK:
                yield kept[:-_MARK]
                kept = kept[-_MARK:]

    async def _counted(self, left: int) -> AsyncIterator[bytes]:
        while left:
            found = (await _read(self._reader))[:left]
            left -= len(found)
            yield found


class Attached:
    """A connection that was introduced as a replica's, and has not asked for a snapshot yet."""

    def __init__(
        self, source: Source, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.source = source
        self._reader = reader
        self._writer = writer

    async def ask(self, *words: str, may_refuse: bool = False) -> str:
        """Return the first line of an answer."""
        self._writer.write(encode(words))
        await self._writer.drain()
        answer = await _line(self._reader, self.source.pod)
        if answer.startswith("-") and not may_refuse:
            message = answer.removeprefix("-")
            passing = message.startswith(_PASSING)
            raise SourceError(f"{self.source.pod} refuses {words[0]}: {message}", passing=passing)
        return answer

    async def introduce(self, login: Login, version: str, *, streams: bool) -> None:
        """Log in, and announce the capabilities: a snapshot alone, as a stream or from a file."""
        await self.ask("AUTH", login.user, login.password)
        await self.ask("PING")
        await self.ask("REPLCONF", "capa", *(("eof", "capa", "psync2") if streams else ("psync2",)))
        await self.ask("REPLCONF", "version", version, may_refuse=True)
        await self.ask("REPLCONF", "rdb-only", "1", may_refuse=True)

    async def begin(self) -> tuple[str, int]:
        """Ask for the snapshot; return where in the server's history it is."""
        answer = (await self.ask("PSYNC", "?", "-1")).split()
        if len(answer) != 3 or answer[0] != "+FULLRESYNC":
            raise SourceError(f"{self.source.pod} answers PSYNC with {' '.join(answer)}")
        return answer[1], int(answer[2])

    async def snapshot(self, replication_id: str, offset: int) -> Snapshot:
        """Wait for the bytes of the snapshot that was begun."""
        pod = self.source.pod
        announced = await _line(self._reader, pod)
        if not announced.startswith("$"):
            raise SourceError(f"{pod} sends {announced} where a snapshot begins", passing=True)
        return Snapshot(replication_id, offset, announced[1:], self._reader)


@asynccontextmanager
async def introduced(
    source: Source, login: Login, version: str, *, streams: bool = True
) -> AsyncIterator[Attached]:
    """Connect to a server; the connection ends with the context.

    With `streams` a snapshot is sent while it is made, some seconds after the request: the server
    waits for other replicas (`repl-diskless-sync-delay`). Without, the server writes a file first,
    and begins to do so at once.
    """
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(source.host, source.port, limit=_LIMIT)
    except (OSError, TimeoutError) as error:
        why = str(error) or f"no connection within {_CONNECT_SECONDS:g} s"
        raise SourceError(f"{source.pod} cannot be reached: {why}", passing=True) from error
    try:
        found = Attached(source, reader, writer)
        await found.introduce(login, version, streams=streams)
        yield found
    except OSError as error:
        raise SourceError(f"{source.pod} ended the connection: {error}", passing=True) from error
    finally:
        writer.close()


@asynccontextmanager
async def attach(source: Source, login: Login, version: str) -> AsyncIterator[Snapshot]:
    """Ask a server for its snapshot; the connection ends with the context."""
    async with introduced(source, login, version) as found:
        yield await found.snapshot(*await found.begin())


async def _line(reader: asyncio.StreamReader, pod: str) -> str:
    """Return the next line that is not empty: servers send empty ones as keepalives."""
    while True:
        try:
            async with asyncio.timeout(_SILENCE_SECONDS):
                line = await reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            raise SourceError(f"{pod} ended the connection", passing=True) from error
        except TimeoutError as error:
            raise SourceError(
                f"{pod} is silent for {_SILENCE_SECONDS:g} s", passing=True
            ) from error
        if line.strip():
            return line.decode(errors="replace").strip()


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        async with asyncio.timeout(_SILENCE_SECONDS):
            found = await reader.read(_CHUNK)
    except ConnectionError as error:
        raise SourceError(f"the connection broke in the middle: {error}", passing=True) from error
    except TimeoutError as error:
        raise SourceError(
            f"nothing came for {_SILENCE_SECONDS:g} s in the middle of the snapshot", passing=True
        ) from error
    if not found:
        raise SourceError("the connection ended before the snapshot was whole", passing=True)
    return found
