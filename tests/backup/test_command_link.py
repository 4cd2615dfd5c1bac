"""A worker's connection to a server that stands still, and its end when it is given up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from redis_operator.backup.errors import TargetError
from redis_operator.backup.link import connect
from redis_operator.backup.replica import Login

LARGE = 64 << 20  # more than a kernel keeps for a server that does not read


class Frozen:
    """Accepts connections; reads from the moment on that it is woken, and never answers."""

    def __init__(self) -> None:
        self.port = 0
        self.received = 0
        self.woken = asyncio.Event()
        self.over = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.woken.wait()
        with contextlib.suppress(ConnectionError):
            while found := await reader.read(1 << 20):
                self.received += len(found)
        writer.close()
        self.over.set()


@pytest.fixture
async def frozen() -> AsyncIterator[Frozen]:
    found = Frozen()
    listening = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = listening.sockets[0].getsockname()[1]
    yield found
    listening.close()


async def test_a_server_that_was_given_up_does_not_receive_the_rest_when_it_wakes_up(
    frozen: Frozen,
) -> None:
    """The commands were sent again meanwhile, and clients may have written since."""
    link = await connect("db-0-0", host="127.0.0.1", port=frozen.port)
    with pytest.raises(TargetError, match=r"db-0-0 does not respond to 1 commands within 0\.2 s"):
        await link.ask_raw(bytes(LARGE), 1, timeout=0.2)
    frozen.woken.set()
    await asyncio.wait_for(frozen.over.wait(), 60)
    assert frozen.received < LARGE


async def test_a_connection_that_is_cancelled_while_it_logs_in_is_closed(frozen: Frozen) -> None:
    frozen.woken.set()
    opening = asyncio.ensure_future(
        connect("db-0-0", host="127.0.0.1", port=frozen.port, login=Login("restore", "word"))
    )
    async with asyncio.timeout(60):
        while not frozen.received:  # noqa: ASYNC110 - the stub has no event for it
            await asyncio.sleep(0.01)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await frozen.over.wait()
