"""What the API server refuses of a RedisFailover, with the path and the reason."""

from __future__ import annotations

from typing import Any

import pytest

from kubelocal.apiserver.custom.cel.rules import evaluate
from redis_operator.api.crd import redisfailover_crd
from redis_operator.api.redisfailover_rules import REFUSED

SCHEMA = redisfailover_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
CLAIM = {"storage": {"persistentVolumeClaim": {"spec": {}}}}


def failover(spec: dict[str, Any], name: str = "cache") -> dict[str, Any]:
    """Return an object as it is after defaults were filled in."""
    redis = {"replicas": 3} | spec.get("redis", {})
    sentinel = {"replicas": 3} | spec.get("sentinel", {})
    whole = {**spec, "redis": redis, "sentinel": sentinel}
    return {"metadata": {"name": name}, "spec": whole}


def said(new: dict[str, Any], old: dict[str, Any] | None = None, name: str = "cache") -> list[str]:
    before = failover(old) if old is not None else None
    causes = evaluate(SCHEMA, failover(new, name), before)
    return [f"{cause.field}: {cause.message}" for cause in causes]


def test_what_can_be_followed_is_admitted() -> None:
    assert said({}) == []
    assert said({"redis": {"port": 6379, "hostNetwork": False, "dnsPolicy": "ClusterFirst"}}) == []
    assert said({"redis": CLAIM}, {"redis": CLAIM}) == []
    assert said({"sentinel": {"replicas": 5, "quorum": 5}}) == []


@pytest.mark.parametrize(
    ("spec", "path", "reason"),
    [
        ({"redis": {"replicas": 0}}, "spec.redis.replicas", "fail over"),
        ({"redis": {"replicas": 1}}, "spec.redis.replicas", "Standalone"),
        ({"sentinel": {"replicas": 1}}, "spec.sentinel.replicas", "use 3"),
        ({"sentinel": {"replicas": 4, "quorum": 2}}, "spec.sentinel.quorum", "both halves"),
        ({"sentinel": {"quorum": 4}}, "spec.sentinel.quorum", "spec.sentinel.replicas"),
        ({"redis": {"port": 7000}}, "spec.redis.port", "6379"),
        ({"redis": {"hostNetwork": True}}, "spec.redis.hostNetwork", "network"),
        ({"redis": {"command": ["x"]}}, "spec.redis.command", "script"),
        ({"sentinel": {"configCopy": {}}}, "spec.sentinel.configCopy", "remove it"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_followed_is_refused(spec: dict[str, Any], path: str, reason: str) -> None:
    [cause] = said(spec)
    assert cause.startswith(f"{path}: ")
    assert reason in cause


def test_every_row_of_the_table_has_a_rule() -> None:
    rules = SCHEMA["properties"]["spec"]["x-kubernetes-validations"]
    paths = {rule["fieldPath"].lstrip(".") for rule in rules}
    assert {row.path for row in REFUSED} <= paths


def test_volumes_are_neither_added_nor_removed() -> None:
    for new, old in (({"redis": CLAIM}, {}), ({}, {"redis": CLAIM})):
        [cause] = said(new, old)
        assert cause.startswith("spec.redis.storage.persistentVolumeClaim: ")


@pytest.mark.parametrize("name", ["cache-sentinel", "cache-replicas", "cache-0"])
def test_names_that_could_meet_other_objects_are_refused(name: str) -> None:
    [cause] = said({}, name=name)
    assert cause.startswith("metadata.name: ")
