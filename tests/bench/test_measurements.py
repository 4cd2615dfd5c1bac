from __future__ import annotations

import importlib
import json
import pkgutil

import msgspec
import pytest
from bench.pods import BASE_VERSION, pod, pod_json

import bench
from kubecontroller.client.objects import PODS

MEASUREMENTS = sorted(
    module.name
    for module in pkgutil.iter_modules(bench.__path__)
    if module.name.startswith("measure_")
)


def test_pods_are_as_large_as_those_of_a_real_cluster_and_half_of_it_is_bookkeeping() -> None:
    whole = len(pod_json(7))
    managed = len(json.dumps(pod(7)["metadata"]["managedFields"]))
    assert 9_000 < whole < 12_000
    assert managed > 0.3 * whole


def test_a_changed_pod_is_the_same_pod_in_a_later_version() -> None:
    old, new = pod(7)["metadata"], pod(7, version=BASE_VERSION + 10_000)["metadata"]
    assert (old["uid"], old["name"]) == (new["uid"], new["name"])
    assert int(new["resourceVersion"]) > int(old["resourceVersion"])


def test_the_pods_fit_the_type_our_informer_reads() -> None:
    found = msgspec.json.decode(pod_json(7), type=PODS.model)
    assert found.metadata.namespace == "namespace-00"
    assert found.status.phase == "Running"


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_every_measurement_can_be_imported_and_run(name: str) -> None:
    pytest.importorskip("psutil", reason="the peers are installed by `make bench` only")
    assert callable(importlib.import_module(f"bench.{name}").run)
