"""Reads the snapshot of a server over the replication protocol, as a replica of it would.

Guarantees:
    - The server is asked for the snapshot alone (`rdb-only`) and the connection is closed after it;
      no port is announced, so that nobody takes the worker for a replica to fail over to.
    - What was read is whole: as long as the server said, or up to the mark that it named.

Assumptions: a user that may run PSYNC, REPLCONF and PING. A server whose RDB has another format for
older readers (Valkey 9) is told its own version, or it would refuse data that the older cannot say.
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

__all__ = ["Login", "Snapshot", "attach"]

_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 60.0  # servers send a line end every second while they prepare
_LIMIT = 1 << 20
_CHUNK = 1 << 18
_MARK = 40
_PASSING = ("NOMASTERLINK", "LOADING", "MASTERDOWN", "WRONGPASS", "NOAUTH", "NOPERM", "BUSY")


class Login(Struct, frozen=True):
    """Who the worker is for servers. Its text form hides the password."""

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


@asynccontextmanager
async def attach(source: Source, login: Login, version: str) -> AsyncIterator[Snapshot]:
    """Ask a server for its snapshot; the connection ends with the context."""
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(source.host, source.port, limit=_LIMIT)
    except (OSError, TimeoutError) as error:
        why = str(error) or f"no connection within {_CONNECT_SECONDS:g} s"
        raise SourceError(f"{source.pod} cannot be reached: {why}", passing=True) from error
    try:
        yield await _asked(source, login, version, reader, writer)
    except OSError as error:
        raise SourceError(f"{source.pod} ended the connection: {error}", passing=True) from error
    finally:
        writer.close()


async def _asked(
    source: Source,
    login: Login,
    version: str,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> Snapshot:
    async def ask(*words: str, may_refuse: bool = False) -> str:
        writer.write(encode(words))
        await writer.drain()
        answer = await _line(reader, source.pod)
        if answer.startswith("-") and not may_refuse:
            told = answer.removeprefix("-")
            passing = told.startswith(_PASSING)
            raise SourceError(f"{source.pod} refuses {words[0]}: {told}", passing=passing)
        return answer

    await ask("AUTH", login.user, login.password)
    await ask("PING")
    await ask("REPLCONF", "capa", "eof", "capa", "psync2")
    await ask("REPLCONF", "version", version, may_refuse=True)
    await ask("REPLCONF", "rdb-only", "1", may_refuse=True)
    answer = (await ask("PSYNC", "?", "-1")).split()
    if len(answer) != 3 or answer[0] != "+FULLRESYNC":
        raise SourceError(f"{source.pod} answers PSYNC with {' '.join(answer)}")
    announced = await _line(reader, source.pod)
    if not announced.startswith("$"):
        raise SourceError(f"{source.pod} sends {announced} where a snapshot begins", passing=True)
    return Snapshot(answer[1], int(answer[2]), announced[1:], reader)


async def _line(reader: asyncio.StreamReader, pod: str) -> str:
    """Return the next line that is not empty: servers send empty ones to say that they live."""
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
