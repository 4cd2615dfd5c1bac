"""A right that is taken from the operator is told, stops nothing else, and may come back. K-13"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import until
from kubecontroller.client.objects import EVENTS
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.scheme import Kind
from redis_operator.redis import commands
from redis_operator.redis.replies import PrimaryRole

pytestmark = pytest.mark.e2e

_RBAC = "rbac.authorization.k8s.io"
_FILE = Path(__file__).parents[3] / "config" / "rbac" / "operator.yaml"
_ROLES: Kind[Any] = Kind(_RBAC, "v1", "ClusterRole", "clusterroles", False, dict)
_BINDINGS: Kind[Any] = Kind(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False, dict)
_ACCOUNTS: Kind[Any] = Kind("", "v1", "ServiceAccount", "serviceaccounts", True, dict)


def rules(without: tuple[str, str] | None = None, verb: str = "") -> list[dict[str, Any]]:
    """Return the rights that the operator is installed with, but for one."""
    parts = (
        {
            "apiGroups": [group],
            "resources": [name],
            "verbs": [v for v in rule["verbs"] if (group, name, v) != (*(without or ()), verb)],
        }
        for rule in yaml.safe_load(_FILE.read_text())["rules"]
        for group in rule["apiGroups"]
        for name in rule["resources"]
    )
    return [part for part in parts if part["verbs"]]


class Rights:
    """The rights of an operator that has only what it needs."""

    def __init__(self, cluster: Any, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.client = cluster.client()
        self.process: subprocess.Popen[bytes] | None = None

    async def give(self) -> None:
        name = {"name": self.namespace}
        account = {"metadata": {"namespace": self.namespace, "name": "keeper"}}
        await self.client.create(_ACCOUNTS, account)
        await self.client.create(_ROLES, {"metadata": name, "rules": rules()})
        subject = {"kind": "ServiceAccount", "namespace": self.namespace, "name": "keeper"}
        role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": self.namespace}
        binding = {"metadata": name, "subjects": [subject], "roleRef": role}
        await self.client.create(_BINDINGS, binding)

    async def change(self, without: tuple[str, str] | None = None, verb: str = "") -> None:
        change = MergePatch({"rules": rules(without, verb)})
        await self.client.patch(_ROLES, ("", self.namespace), change)

    async def end(self) -> None:
        await self.client.delete(_BINDINGS, ("", self.namespace))
        await self.client.delete(_ROLES, ("", self.namespace))
        await self.client.close()

    @contextmanager
    def operator(self, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Run an operator with these rights instead of the cluster's own."""
        token = self.cluster.kubectl("-n", self.namespace, "create", "token", "keeper").strip()
        config = yaml.safe_load(self.cluster.kubeconfig.read_text())
        config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
        file = folder / "kubeconfig"
        file.write_text(yaml.safe_dump(config))
        file.chmod(0o600)
        words = ("--namespaces", self.namespace)
        with self.cluster.replaced_operator(folder / "operator.log", file, *words) as process:
            yield process


@pytest.fixture
async def rights(cluster: Any, namespace: str) -> Any:
    made = Rights(cluster, namespace)
    await made.give()
    yield made
    await made.end()


async def test_a_revoked_right_is_told_while_healing_goes_on_and_is_used_again_when_given_back(
    database: Any, rights: Rights, tmp_path: Path
) -> None:
    with rights.operator(tmp_path) as operator:
        cache = await database()
        other = await database("other")
        await cache.wait_ready()
        await other.wait_ready()
        uids = await cache.uids()
        application = await cache.fill(100)
        await rights.change(("", "services"), "patch")
        await cache.patch(service={"annotations": {"example.com/ours": "one"}})
        told = await cache.wait_condition("Degraded", "True", reason="ChildRefused", seconds=60)
        assert "services" in told["message"]
        assert "patch" in told["message"]
        assert (await cache.condition("Available"))["status"] == "True"
        # A primary that dies is replaced all the same, here and in the database beside it.
        for one in (cache, other):
            primary = await one.primary_of(0)
            await one.crash(primary)
            await one.wait_new_primary(0, primary)
        assert (await cache.condition("Degraded"))["reason"] == "ChildRefused"
        await other.wait_ready()
        await rights.change()
        await cache.wait_ready(seconds=60)
        assert operator.poll() is None, "it needed no restart"
        assert await cache.uids() == uids
        assert await cache.check(application) == []


async def test_an_operator_that_may_not_write_the_status_tells_so_in_an_event_and_works(
    database: Any, rights: Rights, tmp_path: Path
) -> None:
    with rights.operator(tmp_path) as operator:
        cache = await database()
        await cache.wait_ready()
        await rights.change(("redisoperator.dev", "redis/status"), "patch")
        primary = await cache.primary_of(1)
        await cache.crash(primary)
        replica = next(n for n in await cache.uids() if n.startswith("cache-1-") and n != primary)
        await until(lambda: _leads(cache, replica), seconds=30, what=f"{replica} to lead")
        found = await until(lambda: _event(cache, "Forbidden"), seconds=60, what="an event")
        assert "status" in found
        await rights.change()
        assert await cache.wait_new_primary(1, primary, seconds=60) == replica
        await cache.wait_ready()
        assert operator.poll() is None, "it needed no restart"


async def _leads(cache: Any, pod: str) -> bool:
    async with cache.server(pod) as connection:
        return isinstance(await connection.run(commands.role(), timeout=5), PrimaryRole)


async def _event(cache: Any, reason: str) -> str:
    fields = f"involvedObject.name={cache.name},reason={reason}"
    page = await cache.client.list(EVENTS, namespace=cache.namespace, fields=fields)
    return next((event.message for event in page.items), "")
