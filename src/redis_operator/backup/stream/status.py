"""The state of archivers over HTTP: one JSON object, an entry for each shard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

import msgspec

from ..listening import listen
from ..task import ArchiverReport
from .archiver import Archiver

__all__ = ["ArchiverReport", "report_of", "serve_status"]

_REQUEST_SECONDS = 5.0


def report_of(archiver: Archiver) -> ArchiverReport:
    """Return the state of an archiver."""
    state = archiver.state()
    return ArchiverReport(
        attached=state.attached,
        line=state.line,
        oldest=state.oldest,
        newest=state.newest,
        sampled=state.sampled,
        received=state.received,
        spooled=state.spooled,
        trouble=state.trouble,
        based=state.based,
        stored=state.stored,
        began_empty=state.began_empty,
        gaps=state.gaps,
    )


@asynccontextmanager
async def serve_status(
    reports: Callable[[], Mapping[str, ArchiverReport]], host: str, port: int
) -> AsyncIterator[int]:
    """Reply to every request with the state; yields the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
            async with asyncio.timeout(_REQUEST_SECONDS):
                await reader.readuntil(b"\r\n\r\n")
                body = msgspec.json.encode(reports())
                head = (
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                )
                writer.write(head.encode() + body)
                await writer.drain()

    server = await listen(answer, host, port)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
