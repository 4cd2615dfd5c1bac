"""Certificates of an issuer of cert-manager: asked for, waited for, trusted, and left again."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from install.managed.test_components import parts
from install.managed.test_managed import managed
from kubecontroller.client.errors import NotFound
from kubecontroller.client.objects import DEPLOYMENTS, SECRETS
from redis_operator.api.webhooks import ISSUED_SECRET, SECRET
from redis_operator.cli.install import install
from redis_operator.install.installer import InstallError
from redis_operator.install.objects import objects
from redis_operator.install.options import Issuer, Options, problems, read_issuer
from redis_operator.install.waiting import CERTIFICATES, WEBHOOK_CONFIGURATIONS, NotInForce
from support.small_cluster import SmallCluster, small_cluster

ISSUED = Options(image="redis-operator:1", issuer=Issuer("internal", "ClusterIssuer"))
OWN = Options(image="redis-operator:1")
HOME = "redis-operator"
CONFIGURATION = ("", "redis-operator")
CERTIFICATE = (HOME, "redis-operator-webhook")


def of_kind(options: Options, kind: str) -> list[dict[str, Any]]:
    return [made for made in objects(options) if made["kind"] == kind]


def test_a_certificate_is_asked_for_by_the_names_that_the_api_server_calls() -> None:
    [made] = of_kind(ISSUED, "Certificate")
    assert made["apiVersion"] == "cert-manager.io/v1"
    assert made["spec"]["secretName"] == ISSUED_SECRET
    assert made["spec"]["dnsNames"] == [
        "redis-operator-webhook.redis-operator.svc",
        "redis-operator-webhook.redis-operator.svc.cluster.local",
    ]
    assert made["spec"]["issuerRef"] == {
        "name": "internal",
        "kind": "ClusterIssuer",
        "group": "cert-manager.io",
    }
    [hooks] = of_kind(ISSUED, "ValidatingWebhookConfiguration")
    note = hooks["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
    assert note == "redis-operator/redis-operator-webhook"
    assert all("caBundle" not in hook["clientConfig"] for hook in hooks["webhooks"])
    [deployment] = of_kind(ISSUED, "Deployment")
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--webhook-certificate=issued" in arguments
    assert of_kind(OWN, "Certificate") == []


def test_the_operator_may_then_only_read_one_secret_and_write_no_configuration() -> None:
    names = {made["metadata"]["name"] for made in of_kind(ISSUED, "ClusterRole")}
    assert "redis-operator-ca-bundle" not in names
    [role] = [
        made
        for made in of_kind(ISSUED, "Role")
        if made["metadata"]["name"] == "redis-operator-certificate"
    ]
    assert role["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "verbs": ["get", "list", "watch"],
            "resourceNames": [ISSUED_SECRET],
        }
    ]


@pytest.mark.parametrize(
    ("text", "issuer"),
    [
        ("internal", Issuer("internal")),
        ("ClusterIssuer/internal", Issuer("internal", "ClusterIssuer")),
        ("Own.issuers.test/x", Issuer("x", "Own", "issuers.test")),
        ("own", None),
    ],
)
def test_an_issuer_is_named_by_kind_and_name(text: str, issuer: Issuer | None) -> None:
    assert read_issuer(text) == issuer
    assert problems(Options(issuer=issuer)) == []


@pytest.mark.parametrize("text", ["", "Not A Name", "clusterissuer/internal", "ClusterIssuer/"])
def test_what_is_not_an_issuer_is_refused(text: str) -> None:
    found = CliRunner().invoke(install, ["--print", "--certificate-issuer", text])
    assert found.exit_code == 2, found.output
    assert "--certificate-issuer: " in found.output


def test_an_issuer_without_webhooks_is_refused() -> None:
    words = ["--print", "--certificate-issuer", "internal", "--without-webhooks"]
    found = CliRunner().invoke(install, words)
    assert found.exit_code == 2, found.output
    assert "nothing to certify" in found.output


def test_the_redisoperator_says_what_the_command_was_given() -> None:
    words = ["--with-installer", "--print", "--certificate-issuer", "ClusterIssuer/internal"]
    found = CliRunner().invoke(install, words)
    assert found.exit_code == 0, found.output
    *_, said = yaml.safe_load_all(found.output)
    wanted = {"issuerRef": {"name": "internal", "kind": "ClusterIssuer"}}
    assert said["spec"]["certificates"] == wanted


async def bundles(cluster: SmallCluster) -> set[str | None]:
    found = await cluster.client.get(WEBHOOK_CONFIGURATIONS, CONFIGURATION)
    return {hook["clientConfig"].get("caBundle") for hook in found["webhooks"]}


async def secrets(cluster: SmallCluster) -> list[str]:
    page = await cluster.client.list(SECRETS, namespace=HOME)
    return sorted(found.metadata.name for found in page.items)


async def test_from_our_own_to_an_issuers_and_back() -> None:
    async with small_cluster() as cluster:
        await cluster.serve_cert_manager()
        await cluster.installer().install(OWN)
        assert await secrets(cluster) == [SECRET]
        await cluster.installer().install(ISSUED)
        assert await bundles(cluster) == {"aXNzdWVk"}
        assert await secrets(cluster) == [ISSUED_SECRET], "the key of our authority is not left"
        await cluster.installer().install(OWN)
        assert await bundles(cluster) == {"Y2E="}
        assert await secrets(cluster) == [SECRET]
        with pytest.raises(NotFound):
            await cluster.client.get(CERTIFICATES, CERTIFICATE)


async def test_the_api_server_is_not_told_to_ask_while_who_makes_the_certificate_changes() -> None:
    async with small_cluster() as cluster:
        await cluster.serve_cert_manager()
        await cluster.installer().install(OWN)
        cluster.told.clear()
        await cluster.installer().install(ISSUED)
        order = "\n".join(cluster.told)
        asking = "ValidatingWebhookConfiguration redis-operator"
        stopped, changed = order.index(f"{asking}: deleted"), order.index("Deployment redis-")
        assert stopped < changed < order.index(f"{asking}: applied")


async def test_without_cert_manager_nothing_is_written() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(OWN)
        before = await cluster.state()
        with pytest.raises(InstallError, match="install cert-manager first"):
            await cluster.installer().install(ISSUED)
        assert await cluster.state() == before


async def test_an_issuer_that_does_not_issue_is_named_and_the_operator_is_left_as_it_runs() -> None:
    async with small_cluster() as cluster:
        await cluster.serve_cert_manager()
        cluster.issues = 'clusterissuer "internal" not found'
        await cluster.installer().install(OWN)
        before = await cluster.client.get(DEPLOYMENTS.plain(), (HOME, HOME))
        with pytest.raises(NotInForce, match=r'of ClusterIssuer internal .*"internal" not found'):
            await cluster.installer(seconds=5).install(ISSUED)
        after = await cluster.client.get(DEPLOYMENTS.plain(), (HOME, HOME))
        assert after["spec"] == before["spec"]
        await cluster.installer().install(OWN)
        assert await bundles(cluster) == {"Y2E="}
        cluster.issues = ""
        await cluster.installer().install(ISSUED)
        assert await bundles(cluster) == {"aXNzdWVk"}


async def test_nothing_is_left_of_it_when_the_operator_goes() -> None:
    async with small_cluster() as cluster:
        await cluster.serve_cert_manager()
        await cluster.installer().install(ISSUED)
        await cluster.remover().uninstall(HOME)
        left = [
            name
            for name, raw in (await cluster.state()).items()
            if "redisoperator.dev/installation" in (raw["metadata"].get("labels") or {})
        ]
        assert [name for name in left if not name.startswith("customresourcedefinitions")] == []


async def test_a_redisoperator_may_name_an_issuer() -> None:
    issued = {"issuerRef": {"kind": "ClusterIssuer", "name": "internal"}}
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1", certificates=issued)
        await one.until("Failed", says="install cert-manager first")
        await one.cluster.serve_cert_manager()
        one.cluster.issues = "the issuer is away"
        await one.until("Deploying", says="the issuer is away", seconds=300)
        one.cluster.issues = ""
        status = await one.until("Deployed", seconds=300)
        assert parts(status)["admission"]["ready"] == "5/5"
        assert await secrets(one.cluster) == [ISSUED_SECRET]
