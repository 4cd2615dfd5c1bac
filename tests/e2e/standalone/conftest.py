"""What tests of mode Standalone need besides: a database of one server, and somebody who writes."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import Database, until
from e2e.writing import Peer, Writing

STORED: dict[str, Any] = {"storage": {"size": "1Gi"}, "durability": {"persistence": "aof"}}


class Alone(Writing):
    """One Standalone database, as an application and as its owner see it."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self.database, name)

    @property
    def pod(self) -> str:
        return f"{self.database.name}-0"

    async def connect(self) -> Peer:
        seeds = await self.database.seeds()
        address = seeds.addresses[-1]  # of the Service
        if not self.database.cluster.is_local:
            pods = await self.database.pods()
            role = "redisoperator.dev/role"  # by which the Service finds the primary
            leads = (n for n, pod in pods.items() if pod.metadata.label(role) == "primary")
            address = (pods[next(leads, self.pod)].status.pod_ip, 6379)
        return await Peer.open(address, seeds.username, seeds.password)

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
