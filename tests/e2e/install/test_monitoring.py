"""Monitoring as it is installed: made where its kinds are served, of figures that are served."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import Cluster, until
from e2e.install.conftest import Person
from install.monitoring.test_monitoring import (
    EXPRESSIONS,
    MONITORS,
    OF_PROMETHEUS,
    RULES,
    definition,
    names,
)

pytestmark = pytest.mark.e2e


def scraped(cluster: Cluster) -> list[str]:
    """Return what each pod of the operator serves."""
    words = ("get", "pods", "-n", "redis-operator", "-l", "app.kubernetes.io/name=redis-operator")
    pods = json.loads(cluster.kubectl(*words, "-o", "json"))["items"]
    found = []
    for pod in pods:
        address = f"http://{pod['status']['podIP']}:8080/metrics"
        with urllib.request.urlopen(address, timeout=5) as answer:
            found.append(answer.read().decode())
    return found


async def test_alerts_and_dashboard_ask_for_what_an_installed_operator_serves(
    cluster: Cluster, person: Person, database: Any, tmp_path: Path
) -> None:
    if not cluster.is_local:
        pytest.skip("pods are not reached from here, and kinds would be added for everybody")
    for kind in (MONITORS, RULES):
        file = tmp_path / f"{kind.plural}.json"
        made = definition(kind)
        version = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        file.write_text(json.dumps({**version, **made}))
        cluster.kubectl("apply", "-f", str(file))
    await person.run("install", "--image", person.images[0], "--monitoring-label", "release=x")
    listed = cluster.kubectl("get", "servicemonitors,prometheusrules", "-A", "-l", "release=x")
    assert "redis-operator-exporters" in listed
    assert "prometheusrule" in listed
    cache = await database("cache", mode="Standalone", shards=1, replicas=0)
    await cache.wait_ready(seconds=120)

    async def looked() -> bool:
        return any("redis_operator_server_up{" in text for text in scraped(cluster))

    await until(looked, seconds=60, what="figures of the server")
    texts = scraped(cluster)
    assert len(texts) == 2
    served = {
        name + suffix
        for text in texts
        for name in re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE)
        for suffix in ("", "_bucket", "_count", "_sum")
    }
    wanted = set().union(*map(names, EXPRESSIONS)) - OF_PROMETHEUS
    assert wanted - served == set()
    leads = re.compile(r'^leader_election_master_status{name="redis-operator"} 1', re.MULTILINE)
    assert sum(bool(leads.search(text)) for text in texts) == 1
    await person.run("install", "--image", person.images[0], "--without-monitoring")
    left = cluster.kubectl("get", "servicemonitors,prometheusrules", "-A", "-o", "name")
    assert "redis-operator" not in left
    await person.run("uninstall")
