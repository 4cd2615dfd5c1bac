"""The connection to a server's stream loses no byte, however late the worker reads."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest

from redis_operator.backup.errors import SourceError
from redis_operator.backup.stream.link import StreamLink
from redis_operator.backup.task import Source

SHORT = 0.005  # seconds


@pytest.fixture
def ends() -> Iterator[tuple[StreamLink, socket.socket]]:
    ours, server = socket.socketpair()
    ours.setblocking(False)
    link = StreamLink(Source("pod", "host"), "a", 1, ours, b"", silent=True)
    yield link, server
    link.close()
    server.close()


async def read_all(link: StreamLink) -> bytes:
    found = b""
    while piece := await link.read(timeout=SHORT):
        found += piece
    return found


async def test_what_arrives_when_the_time_of_a_read_is_over_is_not_lost(
    ends: tuple[StreamLink, socket.socket],
) -> None:
    """A worker without a processor for a while finds both: bytes, and that its time is over."""
    link, server = ends
    reading = asyncio.create_task(link.read(timeout=SHORT))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    server.sendall(b"*1\r\n$4\r\nPING\r\n")
    time.sleep(SHORT * 3)  # noqa: ASYNC251 - the worker stands still
    found = await reading
    found += await read_all(link)
    assert found == b"*1\r\n$4\r\nPING\r\n"
    assert link.received == len(found)


@pytest.mark.parametrize("turns", range(1, 5))
async def test_a_reader_that_is_cancelled_leaves_what_has_arrived_to_the_next(
    ends: tuple[StreamLink, socket.socket], turns: int
) -> None:
    link, server = ends
    reading = asyncio.create_task(link.read(timeout=60))
    await asyncio.sleep(0)
    server.sendall(b"first")
    for _ in range(turns):  # of the event loop
        await asyncio.sleep(0)
    reading.cancel()
    [outcome] = await asyncio.gather(reading, return_exceptions=True)
    found = outcome if isinstance(outcome, bytes) else b""
    assert found + await read_all(link) == b"first"


async def test_nothing_is_an_empty_read_and_the_end_an_error(
    ends: tuple[StreamLink, socket.socket],
) -> None:
    link, server = ends
    assert await link.read(timeout=SHORT) == b""
    server.sendall(b"last")
    server.close()
    assert await link.read(timeout=60) == b"last"
    with pytest.raises(SourceError, match="pod ended the stream"):
        await link.read(timeout=60)
