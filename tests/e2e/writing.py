"""An application of one server: its connection, and the writes that were acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import hiredis

from e2e.clusters import until
from redis_operator.redis.resp import encode

__all__ = ["Peer", "Writing"]


class Peer:
    """A connection of an application: it may send anything, unlike the operator's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._parser = hiredis.Reader(encoding="utf-8")

    @classmethod
    async def open(cls, address: tuple[str, int], user: str, password: str) -> Peer:
        async with asyncio.timeout(5):
            peer = cls(*await asyncio.open_connection(*address))
        try:
            assert await peer.ask("AUTH", user, password) == "OK"
        except BaseException:
            peer.close()
            raise
        return peer

    async def ask(self, *words: str, seconds: float = 5.0) -> Any:
        self._writer.write(encode(words))
        async with asyncio.timeout(seconds):
            while (answer := self._parser.gets()) is False:
                data = await self._reader.read(65536)
                if not data:
                    raise ConnectionResetError("the server closed the connection")
                self._parser.feed(data)
        return answer

    def close(self) -> None:
        self._writer.close()


class Writing:
    """A server that is written to, and everything that it acknowledged."""

    prefix = "key"

    def __init__(self) -> None:
        self.acknowledged: dict[str, str] = {}
        self._count = 0

    async def connect(self) -> Peer:
        """Open a connection as an application does."""
        raise NotImplementedError

    async def run(self, *words: str) -> Any:
        """Send one command as an application does, and return its answer."""
        peer = await self.connect()
        try:
            return await peer.ask(*words)
        finally:
            peer.close()

    async def write(self, count: int) -> None:
        """Write so many keys, one after the other; what is acknowledged is remembered."""
        peer = await self.connect()
        try:
            for _ in range(count):
                self._count += 1
                key, value = f"{self.prefix}-{self._count}", f"value-{self._count}"
                assert await peer.ask("SET", key, value) == "OK"
                self.acknowledged[key] = value
        finally:
            peer.close()

    @asynccontextmanager
    async def under_load(self) -> AsyncIterator[None]:
        """Write all the while, over every interruption."""
        task = asyncio.create_task(self._write_on())
        before = len(self.acknowledged)

        async def begun() -> bool:
            return len(self.acknowledged) > before + 50

        try:
            await until(begun, seconds=30, what="50 writes", every=0.02)
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _write_on(self) -> None:
        while True:
            try:
                await self.write(50)
            except (OSError, TimeoutError, AssertionError, hiredis.HiredisError):
                await asyncio.sleep(0.05)
