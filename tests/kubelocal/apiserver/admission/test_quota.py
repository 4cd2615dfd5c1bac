"""A namespace with a quota holds no more than it says."""

from __future__ import annotations

from typing import Any

import pytest

SPACE = "/api/v1/namespaces/default"
PODS = f"{SPACE}/pods"
MAPS = f"{SPACE}/configmaps"


def limit(cluster: Any, **hard: str) -> None:
    named = {name.replace("__", "/").replace("_", "."): value for name, value in hard.items()}
    body = {"metadata": {"name": "q"}, "spec": {"hard": named}}
    cluster.post(f"{SPACE}/resourcequotas", body)


def pod(name: str, **resources: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


@pytest.fixture(autouse=True)
def _account(cluster: Any) -> None:
    cluster.ask("POST", f"{SPACE}/serviceaccounts", {"metadata": {"name": "default"}})


def test_one_pod_too_many_is_refused_with_the_numbers_and_room_lets_it_in(cluster):
    limit(cluster, pods="1")
    cluster.post(PODS, pod("a"))
    refused = cluster.bad(cluster.ask("POST", PODS, pod("b")))
    assert refused["code"] == 403
    assert refused["message"] == (
        'pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )
    cluster.delete(f"{PODS}/a", gracePeriodSeconds=0)
    cluster.post(PODS, pod("b"))


def test_requests_are_summed_over_pods_and_must_be_said(cluster):
    limit(cluster, requests_memory="1Gi")
    cluster.post(PODS, pod("a", requests={"memory": "768Mi"}))
    refused = cluster.bad(cluster.ask("POST", PODS, pod("b", requests={"memory": "512Mi"})))
    assert "exceeded quota: q, requested: requests.memory=" in refused["message"]
    silent = cluster.bad(cluster.ask("POST", PODS, pod("c")))
    assert silent["message"].endswith("failed quota: q: must specify requests.memory")
    cluster.post(PODS, pod("d", requests={"memory": "256Mi"}))


@pytest.mark.parametrize("name", ["configmaps", "count__configmaps"])
def test_objects_are_counted_by_kind_in_their_own_namespace(cluster, name):
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
    held = len(cluster.get(MAPS)["items"])
    limit(cluster, **{name: str(held + 1)})
    cluster.post(MAPS, {"metadata": {"name": "a"}})
    assert "exceeded quota" in cluster.bad(
        cluster.ask("POST", MAPS, {"metadata": {"name": "b"}})
    )["message"]  # fmt: skip
    cluster.post("/api/v1/namespaces/other/configmaps", {"metadata": {"name": "b"}})
    cluster.merge(f"{MAPS}/a", {"data": {"k": "v"}})


def test_a_pod_that_ended_takes_no_room(cluster):
    limit(cluster, pods="1")
    cluster.post(PODS, pod("a"))
    cluster.merge(f"{PODS}/a/status", {"status": {"phase": "Failed"}})
    cluster.post(PODS, pod("b"))
    assert {found["metadata"]["name"] for found in cluster.get(PODS)["items"]} == {"a", "b"}
