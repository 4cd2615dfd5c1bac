"""What a person sets in the spec reaches the objects, and nothing else does."""

from __future__ import annotations

from typing import Any

import pytest

from redis_operator.manifests.memory import maxmemory_bytes
from redis_operator.operator.wanted import wanted_of

from .test_build import FACTS, by_kind, database, template


def server(**spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = template(database(**spec))["spec"]["containers"][0]
    return found


def pod(**options: Any) -> dict[str, Any]:
    found: dict[str, Any] = template(database(pod=options))["spec"]
    return found


def test_images_are_pulled_as_asked_and_with_the_credentials_that_were_named() -> None:
    found = pod(imagePullPolicy="Always", imagePullSecrets=[{"name": "registry"}])
    assert found["imagePullSecrets"] == [{"name": "registry"}]
    assert found["containers"][0]["imagePullPolicy"] == "Always"
    assert "imagePullSecrets" not in pod()
    assert server()["imagePullPolicy"] == "IfNotPresent"


def test_volumes_are_mounted_into_the_server() -> None:
    mount = {"name": "modules", "mountPath": "/modules", "readOnly": True}
    found = pod(volumes=[{"name": "modules", "configMap": {"name": "m"}}], volumeMounts=[mount])
    assert found["containers"][0]["volumeMounts"][-1] == mount
    assert {"name": "modules", "configMap": {"name": "m"}} in found["volumes"]


def test_a_server_has_as_long_to_end_as_the_spec_says() -> None:
    assert pod(terminationGracePeriodSeconds=60)["terminationGracePeriodSeconds"] == 60
    assert pod()["terminationGracePeriodSeconds"] == 300


def test_probes_keep_what_they_ask_and_take_the_timings() -> None:
    usual, asked = server(), server(pod={"probes": {"readiness": {"periodSeconds": 7}}})
    assert asked["readinessProbe"] == usual["readinessProbe"] | {"periodSeconds": 7}
    assert asked["livenessProbe"] == usual["livenessProbe"]
    late = server(pod={"probes": {"liveness": {"initialDelaySeconds": 9, "failureThreshold": 4}}})
    assert late["livenessProbe"]["initialDelaySeconds"] == 9
    assert late["livenessProbe"]["failureThreshold"] == 4
    assert late["startupProbe"] == usual["startupProbe"]


def test_copies_of_a_shard_never_share_a_node_where_that_is_required() -> None:
    rules = pod(antiAffinity="Required")["affinity"]["podAntiAffinity"]
    [term] = rules["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"]["redisoperator.dev/shard"] == "0"
    usual = pod()["affinity"]["podAntiAffinity"]
    assert "requiredDuringSchedulingIgnoredDuringExecution" not in usual


def test_a_runtime_class_reaches_the_pods() -> None:
    assert pod(runtimeClassName="gvisor")["runtimeClassName"] == "gvisor"
    assert "runtimeClassName" not in pod()


def test_claims_have_the_access_modes_and_labels_of_the_spec() -> None:
    storage = {"size": "1Gi", "accessModes": ["ReadWriteOncePod"], "labels": {"team": "pay"}}
    [claim] = by_kind(database(storage=storage), "StatefulSet")[0]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert claim["metadata"]["labels"]["team"] == "pay"
    assert claim["metadata"]["labels"]["redisoperator.dev/shard"] == "0"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, {"maxUnavailable": 1}),
        ({"maxUnavailable": 0}, {"maxUnavailable": 0}),
        ({"maxUnavailable": 2}, {"maxUnavailable": 2}),
        ({"minAvailable": 1}, {"minAvailable": 1}),
    ],
)
def test_a_budget_allows_what_the_spec_says(
    asked: dict[str, int], expected: dict[str, int]
) -> None:
    found = by_kind(database(disruptionBudget=asked), "PodDisruptionBudget")[0]["spec"]
    assert {n: v for n, v in found.items() if n.endswith("vailable")} == expected


def test_data_may_use_the_share_of_the_limit_that_the_spec_names() -> None:
    limits = {"limits": {"memory": "1Gi"}}
    asked = database(resources=limits, maxmemoryPercent=75).spec
    assert maxmemory_bytes(asked) == 768 * 2**20
    assert maxmemory_bytes(database(resources=limits).spec) < 768 * 2**20


def test_an_exporter_is_the_one_that_was_asked_for() -> None:
    monitoring = {
        "exporter": True,
        "exporterImage": "mine:2",
        "exporterResources": {"limits": {"memory": "64Mi"}},
        "exporterArgs": ["--check-keys=a*"],
        "exporterEnv": [{"name": "REDIS_EXPORTER_DEBUG", "value": "true"}],
    }
    exporter = template(database(monitoring=monitoring))["spec"]["containers"][1]
    assert exporter["image"] == "mine:2"
    assert exporter["resources"] == {"limits": {"memory": "64Mi"}}
    assert exporter["args"] == ["--check-keys=a*"]
    assert exporter["env"][-1] == {"name": "REDIS_EXPORTER_DEBUG", "value": "true"}
    usual = template(database(monitoring={"exporter": True}))["spec"]["containers"][1]
    assert usual["image"] == FACTS.exporter_image


def test_so_many_shards_roll_at_a_time_as_the_spec_says() -> None:
    assert wanted_of(database(update={"parallelShards": 2}), FACTS).rolling_shards == 2
    assert wanted_of(database(), FACTS).rolling_shards == 1


@pytest.mark.parametrize("where", ["sidecars", "initContainers"])
def test_containers_beside_the_server_are_admitted_where_pods_are_restricted(where: str) -> None:
    field = {"sidecars": "containers"}.get(where, where)
    plain = {"name": "beside", "image": "i"}
    found = pod(**{where: [plain]})[field][-1]
    assert found["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    asked = {"runAsUser": 1234, "capabilities": {"drop": ["NET_RAW"]}}
    found = pod(**{where: [{**plain, "securityContext": asked}]})[field][-1]
    assert found["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "runAsUser": 1234,
        "capabilities": {"drop": ["ALL"]},
    }
