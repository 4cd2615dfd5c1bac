"""What tests of mode Failover need besides: a database with sentinels, and somebody who writes."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import Any

import hiredis
import pytest

from e2e.harness import Database, until
from e2e.writing import Peer
from kubecontroller.client.objects import SERVICES
from redis_operator.redis import commands, sentinel
from redis_operator.redis.connection import Address, Connection, Credentials, connect

_SENTINEL_PORT = 26379


class Writer:
    """An application that writes growing numbers over the primary's Service, over every trouble.

    A write counts as acknowledged when its answer was OK. One whose answer never came may be there
    or not; its key is written again with the next number.
    """

    def __init__(self, cache: Watched) -> None:
        self._cache = cache
        self.acknowledged: dict[str, int] = {}
        self.longest = 0.0
        self._since = time.monotonic()

    async def acknowledged_again(self, *, seconds: float = 30.0) -> None:
        """Wait for the next write that is acknowledged."""
        since = self._since

        async def later() -> bool:
            return self._since > since

        await until(later, seconds=seconds, what="one more write to be acknowledged", every=0.02)

    async def more(self, count: int, *, seconds: float = 120.0) -> None:
        """Wait for so many more numbers to be written, each a millisecond or more."""
        wanted = max(self.acknowledged.values()) + count

        async def written() -> bool:
            return max(self.acknowledged.values()) >= wanted

        await until(written, seconds=seconds, what=f"{count} more writes")

    async def run(self) -> None:
        number = 0
        while True:
            try:
                peer = await self._cache.connect()
            except (OSError, TimeoutError, AssertionError, hiredis.HiredisError):
                await asyncio.sleep(0.005)
                continue
            try:
                while True:
                    number += 1
                    key = f"key-{number % 1000}"
                    if await peer.ask("SET", key, str(number)) != "OK":
                        break
                    self.acknowledged[key] = number
                    now = time.monotonic()
                    self.longest = max(self.longest, now - self._since)
                    self._since = now
                    await asyncio.sleep(0.001)
            except (OSError, TimeoutError, hiredis.HiredisError):
                pass
            finally:
                peer.close()
            await asyncio.sleep(0.005)


class Watched:
    """One Failover database, as an application and as its owner see it."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self.database, name)

    async def connect(self) -> Peer:
        """Connect as an application does: to the Service of the primary."""
        if self.database.cluster.is_local:
            service = await self._service(self.database.name)
            address = (service, 6379)
        else:
            address = (await self.labelled("primary"), 6379)
        password = await self.database.secret(f"{self.database.name}-conn", "password")
        return await Peer.open(address, "default", password)

    async def _service(self, name: str) -> str:
        found = await self.database.client.get(SERVICES, (self.database.namespace, name))
        return str(found.spec.cluster_ip)

    async def labelled(self, role: str) -> str:
        """Return the address of a pod with this role label."""
        for pod in (await self.database.pods()).values():
            if pod.metadata.label("redisoperator.dev/role") == role:
                return str(pod.status.pod_ip)
        raise AssertionError(f"no pod is labelled {role}")

    async def roles(self) -> dict[str, str]:
        """Return the role label of every server's pod."""
        return {
            name: pod.metadata.label("redisoperator.dev/role")
            for name, pod in (await self.database.pods()).items()
            if pod.metadata.label("redisoperator.dev/component") == "server"
        }

    async def primary(self) -> str:
        """Return the pod of the primary, as the status says."""
        return str((await self.database.status()).get("primary", ""))

    async def wait_other_primary(self, old: str, *, seconds: float = 60.0) -> str:
        """Wait until another pod is the primary, by the status and by its label."""

        async def other() -> str:
            found = await self.primary()
            labelled = (await self.roles()).get(found) == "primary"
            return found if found and found != old and labelled else ""

        found: str = await until(other, seconds=seconds, what=f"another primary than {old}")
        return found

    async def run(self, *words: str) -> Any:
        """Send one command as an application does, and return its answer."""
        peer = await self.connect()
        try:
            return await peer.ask(*words)
        finally:
            peer.close()

    @asynccontextmanager
    async def writing(self) -> Any:
        """Write all the while; what waits at the end is acknowledged too, and counts as long."""
        writer = Writer(self)
        task = asyncio.create_task(writer.run())

        async def begun() -> bool:
            return len(writer.acknowledged) > 50

        try:
            await until(begun, seconds=30, what="50 writes", every=0.02)
            yield writer
            await writer.acknowledged_again()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def wait_streaming(self, *, seconds: float = 10.0) -> None:
        """Wait until every replica receives what is written.

        A primary begins with that up to a second after a replica's first sync, which both report as
        ended: it waits for a response that the replica repeats every second.
        """

        async def received() -> bool:
            replicas = [name for name, role in (await self.roles()).items() if role == "replica"]
            return all([await self._received(name) for name in replicas])

        await until(received, seconds=seconds, what="every replica to have keys", every=0.05)

    async def _received(self, pod: str) -> bool:
        async with self.database.server(pod) as connection:
            return bool(await connection.run(commands.dbsize(), timeout=5))

    async def lost(self, writer: Writer) -> list[str]:
        """Return the acknowledged writes that are gone: their key is missing, or has gone back."""
        peer = await self.connect()
        try:
            gone = []
            for key, number in writer.acknowledged.items():
                found = await peer.ask("GET", key)
                if found is None or int(found) < number:
                    gone.append(f"{key}={number}, now {found}")
            return gone
        finally:
            peer.close()

    @asynccontextmanager
    async def sentinel(self, pod: str) -> Any:
        """Open an operator's connection to a sentinel."""
        ip = (await self.database.pods())[pod].status.pod_ip
        password = await self.database.secret(f"{self.database.name}-users", "operator")
        address = Address(ip, _SENTINEL_PORT)
        connection: Connection = await connect(
            address, timeout=5, credentials=Credentials("operator", password)
        )
        try:
            yield connection
        finally:
            connection.close()

    @property
    def primary_name(self) -> str:
        return f"{self.database.namespace}.{self.database.name}"

    async def named(self, pod: str) -> str:
        """Return the address that a sentinel names as the primary."""
        async with self.sentinel(pod) as connection:
            found = await connection.run(sentinel.address_of(self.primary_name), timeout=5)
        return found[0] if found else ""


@pytest.fixture
def watched(database: Any) -> Any:
    """Return a maker of Failover databases."""

    async def make(**spec: Any) -> Watched:
        found = {"mode": "Failover", "shards": 1, "replicas": 2, **spec}
        return Watched(await database(**found))

    return make
