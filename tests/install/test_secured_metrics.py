"""Metrics for some accounts only, with the rights that an installation gives."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from kubecontroller.client.api import Client
from kubecontroller.client.objects import NAMESPACES, SERVICE_ACCOUNTS
from kubecontroller.client.request import JSON, Request, object_path
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.secured import AccessReviews
from kubelocal.apiserver.calls import User
from kubelocal.apiserver.inprocess import InProcessTransport
from kubelocal.apiserver.server import ApiServer
from kubelocal.apiserver.storage.store import Store
from redis_operator.cli.install import install
from redis_operator.install import rights
from redis_operator.install.monitoring.objects import monitoring
from redis_operator.install.objects import objects
from redis_operator.install.options import MonitoringOptions, Options
from redis_operator.operator.settings import read_settings

SECURED = Options(monitoring=MonitoringOptions(secured=True))
ROLES: Kind[Any] = Kind(rights.RBAC, "v1", "ClusterRole", "clusterroles", False, dict)
BINDINGS: Kind[Any] = Kind(
    rights.RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False, dict
)


def of_kind(options: Options, kind: str) -> dict[str, dict[str, Any]]:
    return {o["metadata"]["name"]: o for o in objects(options) if o["kind"] == kind}


def test_who_scrapes_is_led_to_the_port_that_the_operator_is_told_to_serve() -> None:
    template = of_kind(SECURED, "Deployment")["redis-operator"]["spec"]["template"]
    [container] = template["spec"]["containers"]
    served = read_settings(container["args"][1:], {}).secured_metrics_port
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    [scraped] = of_kind(SECURED, "Service")["redis-operator-metrics"]["spec"]["ports"]
    assert served == scraped["port"] == ports[scraped["targetPort"]]
    assert template["metadata"]["annotations"]["prometheus.io/port"] == str(served)
    assert template["metadata"]["annotations"]["prometheus.io/scheme"] == "https"
    policy = of_kind(SECURED, "NetworkPolicy")["redis-operator"]
    assert policy["spec"]["ingress"][0]["ports"][0]["port"] == scraped["targetPort"]
    assert container["livenessProbe"]["httpGet"]["port"] == "metrics", "a kubelet has no token"
    [endpoint] = monitoring(SECURED)[1]["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["port"] == scraped["name"]


def test_an_open_installation_has_no_right_to_ask_who_anybody_is() -> None:
    resources = [
        resource
        for made in objects(Options())
        for rule in made.get("rules", ())
        for resource in rule.get("resources", ())
    ]
    assert not {"tokenreviews", "subjectaccessreviews"} & {*resources}


def test_an_installer_in_the_cluster_is_told_so_in_its_redisoperator() -> None:
    done = CliRunner().invoke(install, ["--with-installer", "--secured-metrics", "--print"])
    assert done.exit_code == 0, done.output
    [told] = [o for o in yaml.safe_load_all(done.output) if o["kind"] == "RedisOperator"]
    assert told["spec"]["components"]["monitoring"] == {"secured": True}


async def test_the_rights_of_an_installation_are_enough_to_let_a_reader_in() -> None:
    server = ApiServer(Store(), clock=lambda: datetime.now(UTC))
    admin = Client(InProcessTransport(server), field_manager="test")
    for name in ("redis-operator", "monitoring"):
        await admin.create(NAMESPACES.plain(), {"metadata": {"name": name}})
    for role in ("redis-operator-metrics-reviews", "redis-operator-metrics-reader"):
        await admin.create(ROLES, of_kind(SECURED, "ClusterRole")[role])
    binding = of_kind(SECURED, "ClusterRoleBinding")["redis-operator-metrics-reviews"]
    await admin.create(BINDINGS, binding)
    place = {"namespace": "monitoring", "name": "prometheus"}
    await admin.create(SERVICE_ACCOUNTS.plain(), {"metadata": place})
    path = object_path("", "v1", "serviceaccounts", **place, subresource="token")
    asked = Request("POST", path, headers=(("content-type", JSON),), body=b'{"spec": {}}')
    answer = await admin.transport.request(asked, timeout=10)
    shown = f"Bearer {msgspec.json.decode(answer.body)['status']['token']}"
    operator = User("system:serviceaccount:redis-operator:redis-operator")
    client = Client(InProcessTransport(server, user=operator), field_manager="test")
    refusal = await AccessReviews(client).refusal(shown, "/metrics")
    assert refusal is not None
    assert refusal.status == 403
    assert "system:serviceaccount:monitoring:prometheus may not get /metrics" in refusal.reason
    bound = rights.bound(rights.metrics_reader_role(), namespace="monitoring", account="prometheus")
    await admin.create(BINDINGS, bound)
    assert await AccessReviews(client).refusal(shown, "/metrics") is None
    forged = await AccessReviews(client).refusal(shown + "x", "/metrics")
    assert forged is not None
    assert forged.status == 401


@pytest.mark.parametrize(("given", "secured"), [("--secured-metrics", True), ("", False)])
def test_what_was_chosen_reaches_the_objects(given: str, secured: bool) -> None:
    done = CliRunner().invoke(install, [*([given] if given else []), "--print"])
    assert done.exit_code == 0
    assert ("--secured-metrics-port" in done.output) is secured
