"""One database of mode Failover on a cluster: its primary, its sentinels, and changes of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from kubecontroller.client.api import Client
from kubecontroller.client.objects import ENDPOINT_SLICES, PODS, SECRETS, SERVICES
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.watch import WatchedChange
from redis_operator.cli.application import Seeds
from redis_operator.manifests.names import COMPONENT_LABEL, ROLE_LABEL, primary_name
from redis_operator.operator.wanted import PRIMARY_ANNOTATION
from redis_operator.operator.world import REDISES
from redis_operator.redis import commands, sentinel
from redis_operator.redis.connection import Address, Connection, Credentials, connect
from redis_operator.redis.errors import RedisError
from redis_operator.redis.replies import InfoReplication

__all__ = ["Replicated"]

_LONGEST = 90.0
_POLL = 0.005


class Replicated:
    """The servers and sentinels of a database, by the addresses of their pods."""

    def __init__(self, client: Client, place: str, name: str) -> None:
        self.client, self.place, self.name = client, place, name
        self.servers: dict[str, str] = {}
        self.sentinels: dict[str, str] = {}
        self._seeds = Seeds(())
        self._service = ""
        self._operator = Credentials("", "")

    async def learn(self) -> None:
        """Read the addresses and passwords; pods keep them as long as they are not recreated."""
        labels = f"redisoperator.dev/database={self.name}"
        page = await self.client.list(PODS, namespace=self.place, labels=labels)
        for pod in page.items:
            group = pod.metadata.label(COMPONENT_LABEL)
            found = self.servers if group == "server" else self.sentinels
            found[pod.metadata.name] = pod.status.pod_ip
        told = await self.client.get(SECRETS, (self.place, f"{self.name}-conn"))
        self._seeds = Seeds((), "default", (told.data or {})["password"].decode())
        users = await self.client.get(SECRETS, (self.place, f"{self.name}-users"))
        self._operator = Credentials("operator", (users.data or {})["operator"].decode())
        service = await self.client.get(SERVICES, (self.place, self.name))
        self._service = str(service.spec.cluster_ip)

    # Where an application begins

    def by_servers(self) -> Seeds:
        """Return the servers: the application finds the one that takes its writes."""
        return self._at(*self.servers.values())

    def by_service(self) -> Seeds:
        """Return the Service of the primary."""
        return self._at(self._service)

    def by_pod(self, pod: str) -> Seeds:
        """Return one server."""
        return self._at(self.servers[pod])

    def _at(self, *hosts: str) -> Seeds:
        addresses = tuple((host, 6379) for host in hosts)
        return Seeds(addresses, self._seeds.username, self._seeds.password)

    # The primary

    async def leader(self) -> str:
        """Return the pod that the status names as the primary."""
        found = await self.client.get(REDISES, (self.place, self.name))
        return str((found.get("status") or {}).get("primary", ""))

    async def role_changed(self, old: str) -> tuple[str, float]:
        """Wait until another server than the old primary leads; return it, and when that was."""
        others = [pod for pod in self.servers if pod != old]
        waiting = [asyncio.create_task(self._leads(pod)) for pod in others]
        try:
            done, _ = await asyncio.wait(
                waiting, timeout=_LONGEST, return_when=asyncio.FIRST_COMPLETED
            )
            assert done, f"no other server than {old} came to lead"
            return done.pop().result()
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _leads(self, pod: str) -> tuple[str, float]:
        while True:
            try:
                async with await self._open(self.servers[pod], 6379) as connection:
                    while not await _is_primary(connection):  # noqa: ASYNC110
                        await asyncio.sleep(_POLL)
                return pod, time.perf_counter()
            except RedisError:  # a sentinel that promotes a server ends all its connections
                await asyncio.sleep(_POLL)

    async def labelled(self, old: str) -> float:
        """Wait until another pod than the old primary's has the label; return when that was."""

        def moved(pod: Any) -> bool:
            return bool(pod.metadata.label(ROLE_LABEL) == "primary" and pod.metadata.name != old)

        return await self._watched(PODS, f"redisoperator.dev/database={self.name}", moved)

    async def served(self, old: str) -> float:
        """Wait until the Service leads to other addresses alone; return when that was."""

        def moved(found: Any) -> bool:
            ready = [e for e in found.endpoints or () if e.conditions.ready is not False]
            hosts = [host for endpoint in ready for host in endpoint.addresses or ()]
            return bool(hosts) and self.servers[old] not in hosts

        label = f"kubernetes.io/service-name={self.name}"
        return await self._watched(ENDPOINT_SLICES, label, moved)

    async def _watched(self, kind: Any, labels: str, holds: Callable[[Any], bool]) -> float:
        async with (
            asyncio.timeout(_LONGEST),
            self.client.watch(
                kind, namespace=self.place, labels=labels, resource_version="0"
            ) as events,
        ):
            async for event in events:
                if isinstance(event, WatchedChange) and holds(event.object):
                    return time.perf_counter()
        raise RuntimeError("the watch ended")

    # What is done to it

    async def switch_to(self, pod: str) -> None:
        """Ask the operator for a planned switchover."""
        change = {"metadata": {"annotations": {PRIMARY_ANNOTATION: pod}}}
        await self.client.patch(REDISES, (self.place, self.name), MergePatch(change))

    async def sentinel_failover(self) -> None:
        """Ask a sentinel to fail over, as soon as it has a replica that it would promote."""
        host = next(iter(self.sentinels.values()))
        order = sentinel.failover(primary_name(self.place, self.name))
        async with asyncio.timeout(_LONGEST), await self._open(host, 26379) as connection:
            while True:
                try:
                    await connection.run(order, timeout=10)
                except RedisError:
                    await asyncio.sleep(0.2)
                else:
                    return

    # Whether it is whole

    async def wait_whole(self) -> str:
        """Wait until it is Ready and every sentinel has all the others; return the primary."""
        async with asyncio.timeout(_LONGEST):
            while not (await self._is_ready() and await self._is_watched()):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        return await self.leader()

    async def wait_followed(self, leader: str) -> None:
        """Wait until every other server follows the primary and has its link."""
        async with asyncio.timeout(_LONGEST):
            for pod in self.servers:
                while pod != leader and not await self._follows(pod):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)

    async def _follows(self, pod: str) -> bool:
        try:
            async with await self._open(self.servers[pod], 6379) as connection:
                found: InfoReplication = await connection.run(
                    commands.info_replication(), timeout=2
                )
        except RedisError:
            return False
        return not found.is_primary and found.link_up

    async def _is_ready(self) -> bool:
        found = await self.client.get(REDISES, (self.place, self.name))
        conditions = (found.get("status") or {}).get("conditions", ())
        busy = PRIMARY_ANNOTATION in (found["metadata"].get("annotations") or {})
        return not busy and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    async def _is_watched(self) -> bool:
        name = primary_name(self.place, self.name)
        for host in self.sentinels.values():
            async with await self._open(host, 26379) as connection:
                replicas = await connection.run(sentinel.replicas(name), timeout=5)
                others = await connection.run(sentinel.sentinels(name), timeout=5)
            good = [r for r in replicas if r.priority and r.link_up]
            if len(good) != len(self.servers) - 1 or len(others) != len(self.sentinels) - 1:
                return False
        return True

    async def _open(self, host: str, port: int) -> Connection:
        return await connect(Address(host, port), credentials=self._operator, timeout=5)


async def _is_primary(connection: Connection) -> bool:
    return (await connection.run(commands.info_replication(), timeout=10)).is_primary
