"""A listed namespace ends although the operator's rights in it end first. K-13

Where the operator manages a list of namespaces, its Role in one of them is deleted with the rest of
it, in any order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from install.calls import Recording, Right
from kubecontroller.client.api import Client
from kubecontroller.client.errors import NotFound
from kubecontroller.client.objects import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    STATEFUL_SETS,
)
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.manager import Manager
from kubelocal.apiserver.calls import User
from kubelocal.apiserver.inprocess import InProcessTransport
from kubelocal.apiserver.server import ApiServer
from kubelocal.apiserver.storage.store import Store
from redis_operator.api.crd import crds
from redis_operator.install.installer import kind_of
from redis_operator.install.inventory import item_of
from redis_operator.install.objects import Stage, stages
from redis_operator.install.options import Options
from redis_operator.install.rights import RELEASE_RIGHTS
from redis_operator.operator.ended_namespaces import spare_ended
from redis_operator.operator.releases import add_releases
from redis_operator.operator.settings import Settings
from redis_operator.operator.wiring import add_all
from redis_operator.operator.world import REDIS_BACKUPS, REDIS_RESTORES, REDISES

HOME = "redis-operator"
WATCHED = ("shop", "team")
RBAC = "rbac.authorization.k8s.io"
ROLES: Kind[Any] = Kind(RBAC, "v1", "Role", "roles", True, dict)
OPERATOR = User(
    f"system:serviceaccount:{HOME}:redis-operator",
    ("system:serviceaccounts", f"system:serviceaccounts:{HOME}", "system:authenticated"),
)
RIGHTS = [
    made
    for made in stages(Options(namespace=HOME, watch_namespaces=WATCHED))[Stage.RIGHTS]
    if made["kind"] != "ServiceAccount"
]


class Cluster:
    """An API server that enforces the rights of an installation for two namespaces."""

    def __init__(self) -> None:
        self.server = ApiServer(Store(), clock=lambda: datetime.now(UTC))
        self.admin = Client(InProcessTransport(self.server), field_manager="admin")

    async def prepare(self) -> None:
        for definition in crds().values():
            await self.admin.apply(CUSTOM_RESOURCE_DEFINITIONS.plain(), definition)
        for name in (HOME, "other", *WATCHED):
            await self.admin.create(NAMESPACES.plain(), {"metadata": {"name": name}})
        await self.give()

    async def give(self) -> None:
        for made in RIGHTS:
            await self.admin.apply(kind_of(item_of(made)), made)

    async def create(self, kind: Kind[Any], namespace: str, name: str, **more: Any) -> None:
        document = {
            "apiVersion": "redisoperator.dev/v1",
            "kind": kind.kind,
            "metadata": {"name": name, "namespace": namespace, **more.pop("metadata", {})},
            **more,
        }
        await self.admin.create(kind, document)

    async def database(self, namespace: str, **spec: Any) -> None:
        await self.create(REDISES, namespace, "cache", spec={"mode": "Standalone", **spec})

    async def end(self, namespace: str) -> None:
        """Delete a namespace; the rights in it are the first to be deleted."""
        await self.admin.delete(ROLES, (namespace, "redis-operator"))
        await self.admin.delete(NAMESPACES, ("", namespace))

    async def gone(self, namespace: str, *, within: float = 15.0) -> None:
        async with asyncio.timeout(within):
            while True:
                try:
                    await self.admin.get(NAMESPACES, ("", namespace))
                except NotFound:
                    return
                await asyncio.sleep(0.05)

    async def managed(self, namespace: str, *, within: float = 15.0) -> None:
        """Return once a database of a namespace has its objects."""
        async with asyncio.timeout(within):
            while not (await self.admin.list(STATEFUL_SETS, namespace=namespace)).items:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


@pytest.fixture
async def cluster() -> Cluster:
    made = Cluster()
    await made.prepare()
    return made


@asynccontextmanager
async def operating(cluster: Cluster) -> AsyncIterator[Manager]:
    client = Client(
        InProcessTransport(cluster.server, user=OPERATOR), field_manager="redis-operator"
    )
    manager = Manager(client, name="redis-operator", cache_timeout=5.0, stop_grace=1.0)
    settings = Settings(namespaces=WATCHED, namespace=HOME)
    add_all(manager, settings)
    await spare_ended(manager, settings.namespaces)
    running = asyncio.create_task(manager.run())
    try:
        async with asyncio.timeout(20):
            while manager.limitation() is not None and not running.done():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        if running.done():
            await running
        yield manager
    finally:
        manager.request_stop()
        await asyncio.gather(running, return_exceptions=True)


async def held(cluster: Cluster, namespace: str) -> None:
    """Create one object of each kind that has a finalizer of the operator."""
    await cluster.database(namespace)
    storage = {"claim": {"name": "backups"}}
    await cluster.create(
        REDIS_BACKUPS,
        namespace,
        "nightly",
        metadata={"finalizers": ["redisoperator.dev/backup"]},
        spec={"redis": "cache", "storage": storage, "deletionPolicy": "Delete"},
    )
    await cluster.create(
        REDIS_RESTORES,
        namespace,
        "yesterday",
        metadata={"finalizers": ["redisoperator.dev/restore"]},
        spec={
            "redis": "cache",
            "from": {"name": "nightly"},
            "discard": {"database": "cache"},
        },
    )


async def has_finalizers(cluster: Cluster, namespace: str) -> None:
    async with asyncio.timeout(15):
        while True:
            found = await cluster.admin.get(REDISES, (namespace, "cache"))
            if found["metadata"].get("finalizers"):
                return
            await asyncio.sleep(0.02)


async def test_a_listed_namespace_ends_though_the_rights_in_it_are_deleted_first(
    cluster: Cluster,
) -> None:
    async with operating(cluster):
        await held(cluster, "team")
        await has_finalizers(cluster, "team")
        await cluster.end("team")
        await cluster.gone("team")
        await cluster.database("shop")
        await cluster.managed("shop")


async def test_an_object_that_waited_for_the_operator_already_does_not_keep_its_namespace(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redis_operator.operator.releases._LOOK_SECONDS", 0.2)
    async with operating(cluster):
        await cluster.database("team")
        await has_finalizers(cluster, "team")
        await cluster.admin.delete(ROLES, ("team", "redis-operator"))
        await cluster.admin.delete(REDISES, ("team", "cache"))
        await asyncio.sleep(1.0)
        found = await cluster.admin.get(REDISES, ("team", "cache"))
        assert found["metadata"]["finalizers"], "only a namespace that ends releases it"
        await cluster.admin.delete(NAMESPACES, ("", "team"))
        await cluster.gone("team")


async def test_a_namespace_that_is_not_on_the_list_any_more_ends_too(cluster: Cluster) -> None:
    finalizers = {"finalizers": ["example.com/other", "redisoperator.dev/database"]}
    spec = {"mode": "Standalone"}
    await cluster.create(REDISES, "other", "cache", metadata=finalizers, spec=spec)
    async with operating(cluster):
        await cluster.admin.delete(NAMESPACES, ("", "other"))
        async with asyncio.timeout(15):
            while True:
                found = await cluster.admin.get(REDISES, ("other", "cache"))
                if found["metadata"]["finalizers"] == ["example.com/other"]:
                    break
                await asyncio.sleep(0.05)
        change = MergePatch({"metadata": {"finalizers": None}})
        await cluster.admin.patch(REDISES, ("other", "cache"), change)
        await cluster.gone("other")


async def test_a_protected_database_stays_until_its_protection_is_lifted(cluster: Cluster) -> None:
    async with operating(cluster):
        await cluster.database("team", deletion={"protected": True})
        await has_finalizers(cluster, "team")
        await cluster.end("team")
        await asyncio.sleep(1.0)
        change = MergePatch({"spec": {"deletion": {"protected": False}}})
        await cluster.admin.patch(REDISES, ("team", "cache"), change)
        await cluster.gone("team")


async def test_an_operator_starts_although_a_listed_namespace_ends(cluster: Cluster) -> None:
    async with operating(cluster):
        await held(cluster, "team")
        await has_finalizers(cluster, "team")
    await cluster.end("team")
    async with operating(cluster):
        await cluster.gone("team")
        await cluster.database("shop")
        await cluster.managed("shop")


async def test_an_operator_starts_although_a_listed_namespace_is_gone(cluster: Cluster) -> None:
    await cluster.end("team")
    await cluster.gone("team")
    async with operating(cluster):
        await cluster.database("shop")
        await cluster.managed("shop")
        # Created again, with rights again, it is managed without a restart.
        await cluster.admin.create(NAMESPACES.plain(), {"metadata": {"name": "team"}})
        await cluster.database("team")
        await cluster.give()
        await cluster.managed("team", within=60.0)


async def test_rights_that_are_missing_in_a_namespace_that_exists_still_stop_an_upgrade(
    cluster: Cluster,
) -> None:
    await cluster.admin.delete(ROLES, ("team", "redis-operator"))
    with pytest.raises(Exception, match=r"redis.*forbidden"):
        async with operating(cluster):
            pass


async def released(*, streams: bool) -> set[Right]:
    """Return the rights that are used while a namespace with an object of each kind ends."""
    seen: set[Right] = set()
    cluster = Cluster()
    await cluster.prepare()
    transport = InProcessTransport(cluster.server, user=OPERATOR)
    manager = Manager(Client(Recording(transport, seen, streams=streams)), stop_grace=1.0)
    add_releases(manager)
    await held(cluster, "team")
    change = MergePatch({"metadata": {"finalizers": ["redisoperator.dev/database"]}})
    await cluster.admin.patch(REDISES, ("team", "cache"), change)
    running = asyncio.create_task(manager.run())
    await cluster.end("team")
    await cluster.gone("team")
    manager.request_stop()
    await running
    return seen


async def test_the_rights_in_the_whole_cluster_are_those_that_are_used() -> None:
    granted = {
        (group, resource, verb)
        for rule in RELEASE_RIGHTS
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert await released(streams=True) | await released(streams=False) == granted
