"""The Helm chart as helm renders it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from redis_operator.install.inventory import item_of
from redis_operator.install.objects import MONITORING_KINDS, objects
from redis_operator.install.options import Issuer, MonitoringOptions, Options

pytestmark = pytest.mark.e2e
CHART = Path(__file__).parents[3] / "charts" / "redis-operator"
SOME = Options(
    namespace="ops",
    image="own/operator:2",
    pull_policy="Always",
    pull_secrets=("pull",),
    watch_namespaces=("team", "123"),
    replicas=3,
    arguments=("--workers=4",),
    resources={"limits": {"memory": "1Gi"}},
    monitoring=MonitoringOptions(
        labels={"release": "prom"},
        runbook_url="https://wiki.test/redis/",
        scrape_namespaces=("metrics", "7"),
        secured=True,
    ),
)
WITHOUT = Options(
    namespace="ops",
    webhooks=False,
    monitoring=MonitoringOptions(install=False, scrape_namespaces=("*",)),
)


def helm(*words: str, check: bool = True) -> str:
    program = shutil.which("helm")
    if program is None:
        pytest.skip("there is no helm on PATH")
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def rendered(options: Options, values: dict[str, Any]) -> list[dict[str, Any]]:
    policy = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
    monitor = "monitoring.coreos.com/v1/ServiceMonitor"
    words = ["template", "operator", str(CHART), "--namespace", options.namespace]
    words += ["--api-versions", policy, "--api-versions", monitor, "--kube-version", "1.30"]
    for name, value in values.items():
        words += ["--set-json", f"{name}={json.dumps(value)}"]
    return [found for found in yaml.safe_load_all(helm(*words)) if found]


def plain(made: dict[str, Any]) -> dict[str, Any]:
    notes = made["metadata"].get("annotations") or {}
    kept = {name: text for name, text in notes.items() if not name.startswith("helm.sh/")}
    return {**made, "metadata": {**made["metadata"], "annotations": kept}}


@pytest.mark.parametrize(
    ("options", "values"),
    [
        (Options(namespace="ops"), {}),
        (
            SOME,
            {
                "image": {"repository": "own/operator", "tag": "2", "pullPolicy": "Always"},
                "imagePullSecrets": ["pull"],
                "watchNamespaces": ["team", "123"],
                "replicas": 3,
                "arguments": ["--workers=4"],
                "resources": {"limits": {"memory": "1Gi"}, "requests": None},
                "monitoring": {
                    "labels": {"release": "prom"},
                    "runbookUrl": "https://wiki.test/redis/",
                    "scrapeNamespaces": ["metrics", "7"],
                    "secured": True,
                },
            },
        ),
        (
            WITHOUT,
            {
                "admission": {"install": False},
                "monitoring": {"install": False, "scrapeNamespaces": ["*"]},
            },
        ),
        (
            Options(namespace="ops", issuer=Issuer("internal", "ClusterIssuer")),
            {"admission": {"issuer": {"name": "internal", "kind": "ClusterIssuer"}}},
        ),
    ],
    ids=["all", "some", "without", "issuer"],
)
def test_the_chart_gives_the_same_objects_as_the_program(
    options: Options, values: dict[str, Any]
) -> None:
    found = rendered(options, values)
    wanted = [made for made in objects(options) if made["kind"] != "Namespace"]
    if not options.webhooks:  # the chart's switch has the protection go too
        wanted = [made for made in wanted if "AdmissionPolicy" not in made["kind"]]
    assert sorted(map(plain, found), key=item_of) == sorted(map(plain, wanted), key=item_of)


def test_wrong_values_are_refused_by_their_schema() -> None:
    words = ("template", "operator", str(CHART), "--set", "replicas=0", "--set", "what=ever")
    said = helm(*words, check=False)
    assert "replicas" in said
    assert "what" in said


def test_kinds_that_the_cluster_does_not_serve_are_left_out() -> None:
    words = ("template", "operator", str(CHART), "--namespace", "ops", "--kube-version", "1.30")
    found = yaml.safe_load_all(helm(*words))
    kinds = {made["kind"] for made in found if made}
    assert not kinds & MONITORING_KINDS
    assert "ConfigMap" in kinds
