"""A server that no operator looks after, as people had it before, and somebody who writes there.

Its data are what a database that starts as its replica must have.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from e2e.clusters import Cluster, until
from e2e.writing import Peer, Writing
from kubecontroller.client.api import Client
from kubecontroller.client.errors import NotFound
from kubecontroller.client.objects import PODS, SECRETS
from redis_operator.api.redis import RedisSpec
from redis_operator.api.version import find_version

__all__ = ["PASSWORD", "Outside"]

PASSWORD = "of-the-old-one"
_START = (
    "exec $(command -v valkey-server || command -v redis-server) --port 6379 --bind '*' "
    "--protected-mode no --save '' --repl-diskless-sync yes --repl-diskless-sync-delay 0 "
)


class Outside(Writing):
    """A server elsewhere, and everything that it acknowledged."""

    prefix = "old"

    def __init__(self, cluster: Cluster, client: Client, namespace: str, name: str = "old") -> None:
        self.cluster, self.client, self.namespace = cluster, client, namespace
        super().__init__()
        self.name = name
        self.address = ""

    async def start(self, *options: str, image: str = "", password: str = PASSWORD) -> Outside:
        """Start the pod and wait until its server responds."""
        spec = msgspec.convert({"mode": "Standalone", **self.cluster.defaults()}, RedisSpec)
        entry = find_version(spec, [])
        assert not isinstance(entry, str)
        login = ("--requirepass", password) if password else ()
        words = " ".join((*options, *login))
        container = {
            "name": "server",
            "image": image or spec.image or entry.image,
            "command": ["sh", "-c", _START + words],
            "ports": [{"containerPort": 6379}],
        }
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": self.namespace, "name": self.name},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
        }
        await self.client.create(PODS, manifest)
        await until(lambda: self._answers(password), seconds=60, what=f"{self.name} to respond")
        return self

    async def _answers(self, password: str) -> bool:
        found = await self.client.get(PODS, (self.namespace, self.name))
        self.address = found.status.pod_ip
        if not self.address:
            return False
        try:
            peer = await self.connect(password)
        except (OSError, TimeoutError, AssertionError):
            return False
        peer.close()
        return True

    async def connect(self, password: str = PASSWORD) -> Peer:
        if password:
            return await Peer.open((self.address, 6379), "default", password)
        return Peer(*await asyncio.open_connection(self.address, 6379))

    async def secret(self, name: str = "old-login", password: str = PASSWORD) -> dict[str, Any]:
        """Make the Secret with its password; return what a spec says of the server."""
        await self.client.apply(
            SECRETS,
            {
                "metadata": {"namespace": self.namespace, "name": name},
                "stringData": {"word": password},
            },
        )
        return {
            "host": self.address,
            "port": 6379,
            "passwordSecret": {"name": name, "key": "word"},
        }

    async def stop(self) -> None:
        """Delete the pod, and wait until it is gone."""
        await self.client.delete(PODS, (self.namespace, self.name), grace_seconds=0)

        async def gone() -> bool:
            try:
                await self.client.get(PODS, (self.namespace, self.name))
            except NotFound:
                return True
            return False

        await until(gone, seconds=30, what=f"{self.name} to be gone")

    async def missing(self, peer: Peer) -> list[str]:
        """Return what it acknowledged and a database does not have."""
        return [k for k, v in self.acknowledged.items() if await peer.ask("GET", k) != v]
