"""An operator of some namespaces works with rights in these alone. X-09"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubecontroller.client.api import Client
from kubecontroller.client.errors import Forbidden, NotFound
from kubecontroller.client.objects import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NODES,
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
from redis_operator.operator.backups.wiring import add_backups, add_restores
from redis_operator.operator.settings import Settings
from redis_operator.operator.wiring import add_databases, add_failovers
from redis_operator.operator.world import REDIS_FAILOVERS, REDISES, World

CONFIG = Path(__file__).parents[2] / "config" / "rbac"
RBAC = "rbac.authorization.k8s.io"
OPERATOR = User("system:serviceaccount:team:operator", ("system:authenticated",))


def rbac(kind: str, *, namespaced: bool = True) -> Kind[Any]:
    return Kind(RBAC, "v1", kind, f"{kind.lower()}s", namespaced, dict)


def binding(kind: str, name: str, **place: str) -> dict[str, Any]:
    subject = {"kind": "User", "apiGroup": RBAC, "name": OPERATOR.name}
    return {
        "metadata": {"name": name, **place},
        "subjects": [subject],
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
    }


@pytest.fixture
async def server() -> ApiServer:
    made = ApiServer(Store(), clock=lambda: datetime.now(UTC))
    admin = Client(InProcessTransport(made), field_manager="admin")
    for definition in crds().values():
        await admin.apply(CUSTOM_RESOURCE_DEFINITIONS.plain(), definition)
    for name in ("team", "other"):
        await admin.create(NAMESPACES.plain(), {"metadata": {"name": name}})
    role = yaml.safe_load((CONFIG / "namespaced.yaml").read_text())
    role["metadata"]["namespace"] = "team"
    await admin.create(rbac("Role"), role)
    await admin.create(
        rbac("RoleBinding"), binding("Role", role["metadata"]["name"], namespace="team")
    )
    return made


@asynccontextmanager
async def operating(server: ApiServer, *namespaces: str) -> AsyncIterator[Manager]:
    """Run an operator with the rights of the account, and none of an administrator."""
    client = Client(InProcessTransport(server, user=OPERATOR), field_manager="redis-operator")
    manager = Manager(client, name="redis-operator", cache_timeout=5.0, stop_grace=1.0)
    settings = Settings(namespaces=namespaces)
    world = World(manager, namespaces)
    add_databases(manager, settings, world=world)
    add_failovers(manager, settings)
    add_backups(manager, settings, world)
    add_restores(manager, settings, world)
    running = asyncio.create_task(manager.run())
    try:
        async with asyncio.timeout(20):
            while manager.limitation() is not None and not running.done():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert not running.done() or running.result() is None
        yield manager
    finally:
        manager.request_stop()
        await running


async def test_no_right_outside_of_its_namespaces_is_needed(server: ApiServer) -> None:
    admin = Client(InProcessTransport(server), field_manager="admin")
    async with operating(server, "team") as manager:
        with pytest.raises(Forbidden):
            await manager.client.list(NODES)
        for namespace in ("team", "other"):
            await admin.create(
                REDISES,
                {
                    "apiVersion": "redisoperator.dev/v1",
                    "kind": "Redis",
                    "metadata": {"name": "cache", "namespace": namespace},
                    "spec": {"mode": "Cluster", "shards": 3},
                },
            )
        await _until_stateful(admin)
        with pytest.raises(NotFound):
            await admin.get(STATEFUL_SETS, ("other", "cache-0"))


async def test_rights_that_are_given_later_are_used(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = Client(InProcessTransport(server), field_manager="admin")
    await admin.create(NODES.plain(), {"metadata": {"name": "n1"}})
    async with operating(server, "team") as manager:
        [nodes] = [i for i in manager.informers.values() if i.kind == NODES]
        assert not nodes.has_synced
        role = yaml.safe_load((CONFIG / "operator.yaml").read_text())
        await admin.create(rbac("ClusterRole", namespaced=False), role)
        await admin.create(
            rbac("ClusterRoleBinding", namespaced=False),
            binding("ClusterRole", role["metadata"]["name"]),
        )
        async with asyncio.timeout(30):
            await nodes.wait_synced()
        assert [node.metadata.name for node in nodes.cache] == ["n1"]


async def test_an_operator_of_the_whole_cluster_needs_them(server: ApiServer) -> None:
    with pytest.raises(Exception, match=r"nodes.*forbidden"):
        async with operating(server):
            pass


def redisfailover(**redis: Any) -> dict[str, Any]:
    return {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "RedisFailover",
        "metadata": {"name": "cache", "namespace": "team"},
        "spec": {"redis": redis},
    }


async def _until_stateful(admin: Client) -> None:
    async with asyncio.timeout(20):
        while not (await admin.list(STATEFUL_SETS, namespace="team")).items:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_redisfailover_needs_no_other_right(server: ApiServer) -> None:
    admin = Client(InProcessTransport(server), field_manager="admin")
    async with operating(server, "team"):
        await admin.create(REDIS_FAILOVERS, redisfailover())
        await _until_stateful(admin)
        found = await admin.get(REDIS_FAILOVERS, ("team", "cache"))
        assert found["status"]["redis"] == "cache"


async def test_an_operator_with_the_rights_of_an_older_one_cares_for_databases(
    server: ApiServer,
) -> None:
    """Archives need a right on Deployments that others do not."""
    admin = Client(InProcessTransport(server), field_manager="admin")
    key = ("team", "redis-operator")
    role = await admin.get(rbac("Role"), key)
    less = [
        {**rule, "resources": [one for one in rule["resources"] if one != "deployments"]}
        for rule in role["rules"]
    ]
    await admin.patch(rbac("Role"), key, MergePatch({"rules": less}))
    async with operating(server, "team"):
        await admin.create(REDIS_FAILOVERS, redisfailover())
        await _until_stateful(admin)


async def test_a_redis_that_may_not_be_made_is_reported_and_made_when_it_may(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redis_operator.operator.redis_failovers._REFUSED_SECONDS", 0.1)
    admin = Client(InProcessTransport(server), field_manager="admin")
    key = ("team", "redis-operator")
    role = await admin.get(rbac("Role"), key)
    less = [
        {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "create"]}
        if rule["resources"] == ["redis"]
        else rule
        for rule in role["rules"]
    ]
    await admin.patch(rbac("Role"), key, MergePatch({"rules": less}))
    async with operating(server, "team"):
        await admin.create(REDIS_FAILOVERS, redisfailover())
        async with asyncio.timeout(20):
            found: dict[str, Any] = {}
            while not found.get("status"):
                await asyncio.sleep(0.02)
                found = await admin.get(REDIS_FAILOVERS, ("team", "cache"))
        [ready] = found["status"]["conditions"]
        assert (ready["type"], ready["status"], ready["reason"]) == (
            *("Ready", "False", "ChildRefused"),
        )
        assert "Redis cache may not be applied" in ready["message"]
        await admin.patch(rbac("Role"), key, MergePatch({"rules": role["rules"]}))
        await _until_stateful(admin)


async def test_databases_are_looked_after_where_the_kind_redisfailover_is_not_installed(
    server: ApiServer,
) -> None:
    admin = Client(InProcessTransport(server), field_manager="admin")
    kind = CUSTOM_RESOURCE_DEFINITIONS.plain()
    await admin.delete(kind, ("", "redisfailovers.redisoperator.dev"))
    async with asyncio.timeout(10):
        while True:
            try:
                await admin.list(REDIS_FAILOVERS)
            except NotFound:
                break
            await asyncio.sleep(0.02)
    async with operating(server, "team"):
        database = {
            "metadata": {"name": "cache", "namespace": "team"},
            "spec": {"mode": "Standalone"},
        }
        await admin.create(REDISES, database)
        await _until_stateful(admin)
        await admin.apply(kind, crds()["redisfailovers.yaml"])
        made = redisfailover() | {"metadata": {"name": "other", "namespace": "team"}}
        async with asyncio.timeout(20):
            while True:
                try:
                    await admin.apply(REDIS_FAILOVERS, made)
                    break
                except NotFound:
                    await asyncio.sleep(0.02)
        async with asyncio.timeout(60):  # once the kind is there, it is noticed
            key = ("team", "other")
            while not (await admin.get(REDIS_FAILOVERS, key)).get("status"):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
