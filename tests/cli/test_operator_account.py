"""The operator of a local cluster may do what it may do on Kubernetes, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubecontroller.client.api import Client
from kubecontroller.client.config import load
from kubecontroller.client.errors import Forbidden
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.objects import NODES, PODS, SECRETS, STATEFUL_SETS
from kubecontroller.client.scheme import Kind
from kubelocal import control_plane
from kubelocal.apiserver.daemon import Daemon
from kubelocal.control_plane import _serve
from kubelocal.instance import Instance, Settings
from kubelocal.loopback import held_number
from redis_operator.cli.local_cluster import INSTANCES, children_of
from redis_operator.operator.world import REDIS_VERSIONS, REDISES

_RBAC = "rbac.authorization.k8s.io"
_ROLES: Kind[Any] = Kind(_RBAC, "v1", "ClusterRole", "clusterroles", False, dict)
_BINDINGS: Kind[Any] = Kind(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False, dict)
_REVIEWS: Kind[Any] = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False, dict
)
FILE = Path(__file__).parents[2] / "config" / "rbac" / "operator.yaml"


async def in_cluster(
    instance: Instance, monkeypatch: pytest.MonkeyPatch, work: Callable[[Client], Awaitable[None]]
) -> None:
    """Do something as the operator of a cluster that has started."""
    stopping = asyncio.Event()
    whole = control_plane._control

    async def control(daemon: Daemon, *given: Any) -> None:
        controlling = asyncio.create_task(whole(daemon, *given))
        try:
            while not instance.operator_kubeconfig.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            client = Client(HttpTransport(load(file=instance.operator_kubeconfig)))
            await work(client)
            await client.close()
            stopping.set()
            await asyncio.Event().wait()
        finally:
            controlling.cancel()

    monkeypatch.setattr(control_plane, "_control", control)
    async with asyncio.timeout(60):
        settings = Settings(network=held_number())
        await _serve(instance, settings, stopping, INSTANCES.distribution, instance.folder)


async def test_the_operator_works_under_an_account_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = Instance("test", tmp_path)
    [operator, _] = children_of(instance, Settings(network=20))
    named = operator.arguments[operator.arguments.index("--kubeconfig") + 1]
    assert named == str(instance.operator_kubeconfig) != str(instance.kubeconfig)

    async def work(client: Client) -> None:
        for kind in (REDISES, REDIS_VERSIONS, PODS, SECRETS, NODES):
            await client.list(kind)
        for kind in (_ROLES, _BINDINGS):
            with pytest.raises(Forbidden, match="system:serviceaccount:redis-operator:"):
                await client.list(kind)
        pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": []}}
        with pytest.raises(Forbidden):
            await client.create(PODS, pod)
        with pytest.raises(Forbidden):
            await client.delete(NODES, ("", "node1"))
        with pytest.raises(Forbidden):
            await client.delete_collection(STATEFUL_SETS, namespace="default")
        review = await client.create(_REVIEWS, {"spec": {"namespace": "default"}})
        found = review["status"]["resourceRules"]
        wanted = yaml.safe_load(FILE.read_text())["rules"]
        assert all(rule in found for rule in wanted)
        others = [rule for rule in found if rule not in wanted]
        assert {rule["apiGroups"][0] for rule in others} <= {
            "authorization.k8s.io",
            "authentication.k8s.io",
        }

    await in_cluster(instance, monkeypatch, work)
    assert instance.operator_kubeconfig.stat().st_mode & 0o777 == 0o600
