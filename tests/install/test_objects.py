"""The objects of an installation, as one value."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from redis_operator.cli.app import app
from redis_operator.install.inventory import (
    InstallPhase,
    Inventory,
    Item,
    item_of,
    read,
    surplus,
    written,
)
from redis_operator.install.objects import INSTALLATION_LABEL, MONITORING_KINDS, objects
from redis_operator.install.options import Options, problems

SOME = Options(namespace="ops", watch_namespaces=("team", "shop"), pull_secrets=("pull",))


def of_kind(options: Options, kind: str) -> list[dict[str, Any]]:
    return [made for made in objects(options) if made["kind"] == kind]


def test_pods_run_under_restricted_pod_security() -> None:
    [deployment] = of_kind(Options(), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & {*pod}
    for container in pod["containers"]:
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["readOnlyRootFilesystem"] is True
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= {*container}
        assert container["resources"]["limits"]["memory"]
    [namespace] = of_kind(Options(), "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("options", [Options(), SOME])
def test_every_object_says_whose_it_is(options: Options) -> None:
    made = objects(options)
    assert {o["metadata"]["labels"][INSTALLATION_LABEL] for o in made} == {options.namespace}
    assert len({item_of(o) for o in made}) == len(made)


@pytest.mark.parametrize("options", [Options(), SOME])
def test_nothing_is_applied_before_what_it_needs(options: Options) -> None:
    order = [made["kind"] for made in objects(options)]
    assert order[0] == "Namespace"
    for first, then in (
        ("CustomResourceDefinition", "ClusterRole"),
        ("ServiceAccount", "ClusterRoleBinding"),
        ("RoleBinding", "Deployment"),
        ("PodDisruptionBudget", "Deployment"),
        ("Deployment", "ValidatingAdmissionPolicy"),
        ("Deployment", "ValidatingWebhookConfiguration"),
        ("Service", "Deployment"),
    ):
        last = len(order) - 1 - order[::-1].index(first)
        assert last < order.index(then)


def test_what_is_asked_of_the_operator_reaches_its_pods() -> None:
    [configuration] = of_kind(SOME, "ValidatingWebhookConfiguration")
    [deployment] = of_kind(SOME, "Deployment")
    template = deployment["spec"]["template"]
    services = {made["metadata"]["name"]: made["spec"] for made in of_kind(SOME, "Service")}
    [container] = template["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    served = container["args"][container["args"].index("--webhook-port") + 1]
    for hook in configuration["webhooks"]:
        service = hook["clientConfig"]["service"]
        spec = services[service["name"]]
        assert spec["selector"].items() <= template["metadata"]["labels"].items()
        [port] = [port for port in spec["ports"] if port["port"] == service["port"]]
        assert str(ports[port["targetPort"]]) == served
        assert hook["sideEffects"] == "None", "a dry run is judged too"
        assert "caBundle" not in hook["clientConfig"], "it is the operator's to put in"
        assert hook["timeoutSeconds"] <= 5
    [policy] = of_kind(SOME, "NetworkPolicy")
    let_in = [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]]
    assert set(let_in) == {*ports}
    assert of_kind(Options(webhooks=False), "ValidatingWebhookConfiguration") == []


def test_only_databases_that_are_looked_after_are_judged() -> None:
    [configuration] = of_kind(SOME, "ValidatingWebhookConfiguration")
    chosen = {
        hook["name"].partition(".")[0]: hook.get("namespaceSelector")
        for hook in configuration["webhooks"]
    }
    [said] = chosen["redis"]["matchExpressions"]
    assert said["values"] == ["team", "shop"]
    assert chosen["redisversions"] is None
    [configuration] = of_kind(Options(), "ValidatingWebhookConfiguration")
    assert not any("namespaceSelector" in hook for hook in configuration["webhooks"])


def test_a_write_waits_for_nobody_but_where_nothing_could_make_it_good() -> None:
    [configuration] = of_kind(Options(), "ValidatingWebhookConfiguration")
    policies = {hook["name"]: hook["failurePolicy"] for hook in configuration["webhooks"]}
    assert policies == {
        "redis.redisoperator.dev": "Ignore",
        "redisfailovers.redisoperator.dev": "Ignore",
        "redisbackupschedules.redisoperator.dev": "Ignore",
        "redisversions.redisoperator.dev": "Fail",
    }


def test_pods_of_the_operator_are_let_in_by_databases() -> None:
    [deployment] = of_kind(SOME, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert labels == {"app.kubernetes.io/name": "redis-operator"}  # the default of --pod-labels
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    given = {e["name"]: e for e in container["env"]}
    assert given["POD_NAMESPACE"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace"
    assert given["WATCH_NAMESPACES"]["value"] == "team,shop"


def test_an_operator_of_some_namespaces_may_read_no_secret_elsewhere() -> None:
    everywhere = [
        name
        for role in of_kind(SOME, "ClusterRole")
        for rule in role["rules"]
        for name in rule.get("resources", ())
    ]
    assert "nodes" in everywhere
    assert "secrets" not in everywhere
    places = [role["metadata"]["namespace"] for role in of_kind(SOME, "Role")]
    assert set(places) == {"ops", "shop", "team"}
    own = [role for role in of_kind(SOME, "Role") if role["metadata"]["namespace"] == "ops"]
    read = [
        rule.get("resourceNames")
        for role in own
        for rule in role["rules"]
        if "secrets" in rule["resources"] and rule["verbs"] != ["create"]
    ]
    assert read == [["redis-operator-webhook-tls"]], "its own certificate, and no other Secret"


def test_an_inventory_is_read_as_it_was_written() -> None:
    items = tuple(item_of(made) for made in objects(SOME))
    kept = Inventory(SOME, items, InstallPhase.INSTALLED)
    assert read(written(kept)["data"]) == kept
    assert read({"phase": "Installed", "options": "{", "objects": "[]"}) is None
    assert read(None) is None


def test_what_databases_need_is_never_surplus() -> None:
    assert [i for i in surplus(map(item_of, objects(SOME)), ()) if i.is_kept] == []
    gone = surplus(map(item_of, objects(SOME)), map(item_of, objects(Options(namespace="ops"))))
    assert [(i.kind, i.namespace) for i in gone] == [
        ("ClusterRoleBinding", ""),
        ("RoleBinding", "shop"),
        ("RoleBinding", "team"),
        ("ClusterRole", ""),
        ("Role", "shop"),
        ("Role", "team"),
    ]
    assert isinstance(gone[0], Item)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (Options(namespace="No"), "--namespace: 'No' is not a name of a namespace"),
        (Options(watch_namespaces=("a", "a")), "--watch-namespaces: 'a' is named twice"),
        (Options(watch_namespaces=("A",)), "--watch-namespaces: 'A' is not a name"),
        (Options(image="what ever"), "--image: 'what ever' is not a name of an image"),
        (Options(replicas=0), "--replicas: 0 is not between 1 and 10"),
        (Options(pull_policy="Maybe"), "--pull-policy: 'Maybe' is not one of Always"),
    ],
)
def test_a_wrong_choice_is_named_with_its_option(options: Options, said: str) -> None:
    [found] = problems(options)
    assert found.startswith(said)


def test_print_gives_the_same_objects_without_a_cluster() -> None:
    words = ["install", "--print", "--namespace", "ops", "--watch-namespaces", "team, shop"]
    words += ["--pull-secret", "pull"]
    done = CliRunner().invoke(app, [*words, "--monitoring"], catch_exceptions=False)
    assert done.exit_code == 0
    assert list(yaml.safe_load_all(done.output)) == objects(SOME)
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    found = list(yaml.safe_load_all(done.output))
    everywhere = [made for made in objects(SOME) if made["kind"] not in MONITORING_KINDS]
    assert found == everywhere, "kubectl apply would fail where nobody knows these kinds"


def test_a_wrong_option_is_refused_before_a_cluster_is_asked() -> None:
    done = CliRunner().invoke(app, ["install", "--kubeconfig", "/none", "--replicas", "99"])
    assert done.exit_code == 2
    assert "--replicas: 99 is not between 1 and 10" in done.output


@pytest.mark.parametrize("command", ["install", "upgrade", "uninstall"])
def test_a_cluster_that_cannot_be_found_is_said_in_a_sentence(command: str) -> None:
    done = CliRunner().invoke(app, [command, "--kubeconfig", "/none"])
    assert done.exit_code == 1
    assert done.output.startswith("Error: /none")
