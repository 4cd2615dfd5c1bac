"""What end-to-end tests need of a database: to create, change, break and observe it."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from typing import Any

import pytest

from e2e.clusters import PATIENCE, Cluster, LocalCluster, RealCluster, cpu_seconds, until
from kubecontroller.client.api import Client
from kubecontroller.client.errors import AlreadyExists, NotFound
from kubecontroller.client.meta import Manifest
from kubecontroller.client.objects import PERSISTENT_VOLUME_CLAIMS, PODS, SECRETS, SERVICES, Pod
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.scheme import Kind
from redis_operator.cli.application import Application, Seeds
from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Address, Connection, Credentials, connect
from redis_operator.redis.errors import RedisError
from redis_operator.redis.replies import ClusterNode

REDISES: Kind[Manifest] = Kind("redisoperator.dev", "v1", "Redis", "redis", True, dict)


class Database:
    """One database under test."""

    def __init__(self, cluster: Cluster, client: Client, namespace: str, name: str) -> None:
        self.cluster = cluster
        self.client = client
        self.namespace = namespace
        self.name = name
        self.key = (namespace, name)

    async def apply(self, **spec: Any) -> None:
        """Apply the database whole, as `kubectl apply` does."""
        wanted = {"mode": "Cluster", "shards": 3, "replicas": 1, **self.cluster.defaults(), **spec}
        metadata = {"namespace": self.namespace, "name": self.name}
        await self.client.apply(REDISES, {"metadata": metadata, "spec": wanted})

    async def patch(self, **spec: Any) -> None:
        await self.client.patch(REDISES, self.key, MergePatch({"spec": spec}))

    async def annotate(self, **annotations: str | None) -> None:
        change = {"metadata": {"annotations": annotations}}
        await self.client.patch(REDISES, self.key, MergePatch(change))

    async def get(self) -> Manifest:
        return await self.client.get(REDISES, self.key)

    async def status(self) -> Manifest:
        return dict((await self.get()).get("status") or {})

    async def condition(self, kind: str) -> Manifest:
        conditions = (await self.status()).get("conditions") or ()
        return next((dict(c) for c in conditions if c["type"] == kind), {})

    async def wait_ready(self, *, seconds: float = 60.0, shards: int | None = None) -> Manifest:
        """Wait until the newest spec was seen and the database is Ready."""

        async def ready() -> Manifest | None:
            found = await self.get()
            status = found.get("status") or {}
            current = status.get("observedGeneration") == found["metadata"]["generation"]
            is_ready = any(
                c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ())
            )
            enough = shards is None or status.get("shardCount") == shards
            return dict(status) if current and is_ready and enough else None

        try:
            found: Manifest = await until(ready, seconds=seconds, what=f"{self.name} to be Ready")
        except AssertionError as error:
            raise AssertionError(f"{error}; status: {await self.status()}") from error
        return found

    async def wait_condition(
        self, kind: str, status: str, *, reason: str = "", seconds: float = 60.0
    ) -> Manifest:
        async def met() -> Manifest | None:
            found = await self.condition(kind)
            fits = found.get("status") == status and reason in ("", found.get("reason"))
            return found if fits else None

        what = f"{kind}={status} {reason} of {self.name}"
        try:
            found: Manifest = await until(met, seconds=seconds, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}; status: {await self.status()}") from error
        return found

    async def wait_plan(self, text: str, *, seconds: float = 30.0) -> str:
        """Wait until the plan says something; return the line that says it."""

        async def told() -> str:
            lines = (await self.status()).get("plan") or ()
            return next((str(line) for line in lines if text in line), "")

        what = f"the plan of {self.name} to say {text!r}"
        try:
            found: str = await until(told, seconds=seconds, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}; status: {await self.status()}") from error
        return found

    # Pods and servers

    async def pods(self) -> dict[str, Pod]:
        label = f"redisoperator.dev/database={self.name}"
        page = await self.client.list(PODS, namespace=self.namespace, labels=label)
        return {pod.metadata.name: pod for pod in page.items}

    async def claims(self) -> list[str]:
        label = f"redisoperator.dev/database={self.name}"
        page = await self.client.list(
            PERSISTENT_VOLUME_CLAIMS, namespace=self.namespace, labels=label
        )
        return sorted(claim.metadata.name for claim in page.items)

    async def uids(self) -> dict[str, str]:
        """Return the uid of each pod: a pod that was replaced has another."""
        return {name: pod.metadata.uid for name, pod in (await self.pods()).items()}

    async def restarts(self) -> int:
        return sum(
            status.restart_count
            for pod in (await self.pods()).values()
            for status in pod.status.container_statuses or ()
        )

    async def primary_of(self, shard: int) -> str:
        """The pod that leads a shard, as the status says; empty when nobody does."""
        shards = (await self.status())["shards"]
        return str(next(s.get("primary", "") for s in shards if s["name"] == f"shard-{shard}"))

    async def wait_new_primary(self, shard: int, old: str, *, seconds: float = 30.0) -> str:
        """Wait until another pod leads a shard, and the status says so."""

        async def other() -> str:
            shards = (await self.status()).get("shards") or ()
            leads = next((s.get("primary") for s in shards if s["name"] == f"shard-{shard}"), "")
            return str(leads) if leads and leads != old else ""

        found: str = await until(other, seconds=seconds, what=f"another primary than {old}")
        return found

    async def secret(self, name: str, key: str) -> str:
        found = await self.client.get(SECRETS, (self.namespace, name))
        return (found.data or {})[key].decode()

    @asynccontextmanager
    async def server(self, pod: str) -> Any:
        """Open an operator's connection to a pod's server."""
        address = (await self.pods())[pod].status.pod_ip
        password = await self.secret(f"{self.name}-users", "operator")
        credentials = Credentials("operator", password)
        connection: Connection = await connect(Address(address), timeout=5, credentials=credentials)
        try:
            yield connection
        finally:
            connection.close()

    async def crash(self, pod: str) -> None:
        """End a server's process without a goodbye; its container starts again."""
        async with self.server(pod) as connection:
            info = await connection.run(commands.info(), timeout=5)
            if self.cluster.is_local:
                os.kill(info.server.process_id, signal.SIGKILL)
                return
            now: Command[None] = Command(("SHUTDOWN", "NOSAVE", "NOW"), lambda _: None)
            try:
                await connection.run(now, timeout=5)
            except RedisError:
                return  # it ended instead of answering

    async def server_pid(self, pod: str) -> int:
        """Return the process of a pod's server, where pods are processes of this machine."""
        if not self.cluster.is_local:
            pytest.skip("the processes of pods are another machine's")
        async with self.server(pod) as connection:
            return int((await connection.run(commands.info(), timeout=5)).server.process_id)

    @asynccontextmanager
    async def frozen(self, *pods: str) -> Any:
        """Suspend servers for as long as the context lasts: they accept and never answer."""
        pids = [await self.server_pid(pod) for pod in pods]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    async def nodes_of(self, pod: str) -> tuple[ClusterNode, ...]:
        """Return the node table of a pod's server."""
        async with self.server(pod) as connection:
            found: tuple[ClusterNode, ...] = await connection.run(
                commands.cluster_nodes(), timeout=5
            )
        return found

    async def myself(self, pod: str) -> ClusterNode:
        """Return what a pod's server says of itself."""
        return next(node for node in await self.nodes_of(pod) if node.is_myself)

    async def delete_pods(self, *names: str, grace_seconds: int | None = None) -> None:
        """Delete pods at once."""
        await asyncio.gather(
            *(
                self.client.delete(PODS, (self.namespace, name), grace_seconds=grace_seconds)
                for name in names
            )
        )

    # Data

    async def seeds(self) -> Seeds:
        addresses = tuple((p.status.pod_ip, 6379) for p in (await self.pods()).values())
        if self.cluster.is_local:  # the Service stays when every pod has another address
            service = await self.client.get(SERVICES, self.key)
            addresses += ((service.spec.cluster_ip, 6379),)
        password = await self.secret(f"{self.name}-conn", "password")
        return Seeds(tuple(a for a in addresses if a[0]), "default", password)

    @asynccontextmanager
    async def under_load(self, *, writes_per_second: float = 300.0, resolving: bool = False) -> Any:
        """Write all the while; the application is yielded and stopped at the end.

        With `resolving` it hears of new addresses, as from DNS: it needs that when all are new.
        """
        application = Application(await self.seeds(), writes_per_second=writes_per_second)
        application.start()
        resolver = asyncio.create_task(self._resolve(application)) if resolving else None
        await asyncio.sleep(0.5)
        try:
            yield application
        finally:
            await application.stop()
            if resolver is not None:
                resolver.cancel()
                await asyncio.gather(resolver, return_exceptions=True)
        assert application.unfinished == 0, f"{application.unfinished} writes wait for ever"

    async def _resolve(self, application: Application) -> None:
        while True:
            application.hear_of((await self.seeds()).addresses)
            await asyncio.sleep(0.2)

    async def fill(self, writes: int = 300) -> Application:
        """Write some data and return the application that remembers it."""
        application = Application(await self.seeds(), writes_per_second=3000, keys_per_slot=8)
        application.start()
        await until(
            lambda: _enough(application, writes), seconds=30, what=f"{writes} writes", every=0.02
        )
        await application.stop()
        assert application.unfinished == 0
        return application

    async def check(self, application: Application) -> list[str]:
        """Return the acknowledged writes that are not there (any more)."""
        application.seeds = await self.seeds()
        return list((await application.verify()).lost)

    async def close(self) -> None:
        """Delete the database, unless the test did."""
        try:
            await self.client.delete(REDISES, self.key)
        except NotFound:
            return


async def is_back(cache: Any, kind: Any, name: str, old: str) -> bool:
    """Whether an object exists again, with another uid than the one that was deleted."""
    try:
        found = await cache.client.get(kind, (cache.namespace, name))
    except NotFound:
        return False
    return bool(found.metadata.uid != old)


async def delete_and_wait(cache: Any, kind: Any, name: str) -> None:
    """Delete an object of a database as a person does, and wait until it was made again."""
    old = await cache.client.get(kind, (cache.namespace, name))
    await cache.client.delete(kind, (cache.namespace, name))
    await until(
        lambda: is_back(cache, kind, name, old.metadata.uid),
        seconds=20,
        what=f"{name} to come back",
    )


async def _enough(application: Application, writes: int) -> bool:
    return len(application.acknowledged) >= writes


__all__ = [
    "PATIENCE",
    "REDISES",
    "AlreadyExists",
    "Cluster",
    "Database",
    "LocalCluster",
    "RealCluster",
    "cpu_seconds",
    "delete_and_wait",
    "is_back",
    "until",
]
