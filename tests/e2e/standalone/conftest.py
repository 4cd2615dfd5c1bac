"""What tests of mode Standalone need besides: a database of one server, and somebody who writes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import hiredis
import pytest

from e2e.harness import Database, until
from redis_operator.redis.resp import encode

STORED: dict[str, Any] = {"storage": {"size": "1Gi"}, "durability": {"persistence": "aof"}}


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


class Alone:
    """One Standalone database, as an application and as its owner see it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.acknowledged: dict[str, str] = {}
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.database, name)

    @property
    def pod(self) -> str:
        return f"{self.database.name}-0"

    async def connect(self) -> Peer:
        seeds = await self.database.seeds()
        return await Peer.open(seeds.addresses[-1], seeds.username, seeds.password)

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
                key, value = f"key-{self._count}", f"value-{self._count}"
                assert await peer.ask("SET", key, value) == "OK"
                self.acknowledged[key] = value
        finally:
            peer.close()

    @asynccontextmanager
    async def under_load(self) -> Any:
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

    async def lost(self) -> list[str]:
        """Return the acknowledged writes that are not there any more."""
        peer = await self.connect()
        try:
            return [k for k, v in self.acknowledged.items() if await peer.ask("GET", k) != v]
        finally:
            peer.close()

    async def wait_new_pod(self, old: str, *, seconds: float = 60.0) -> None:
        """Wait until another pod than the one of this uid runs and the database is Ready."""

        async def other() -> bool:
            return (await self.database.uids()).get(self.pod, old) != old

        await until(other, seconds=seconds, what=f"{self.pod} to be recreated")
        await self.database.wait_ready(seconds=seconds)


@pytest.fixture
def alone(database: Any) -> Any:
    """Return a maker of Standalone databases."""

    async def make(**spec: Any) -> Alone:
        # What `apply` says for a cluster is taken back: none of it is known in this mode.
        made = await database(mode="Standalone", shards=1, replicas=0, **spec)
        return Alone(made)

    return make


@pytest.fixture
def stored() -> dict[str, Any]:
    """Return the spec of a database that keeps its data on a volume."""
    return dict(STORED)
