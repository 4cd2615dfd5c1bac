"""What an installation waits for, in words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubecontroller.client.objects import Deployment
from redis_operator.install.waiting import rollout_limitation

QUOTA = 'pods "redis-operator-1" is forbidden: exceeded quota: small'


def condition(kind: str, status: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": "", "message": message}


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ([condition("ReplicaFailure", "True", QUOTA)], f"0 of 2 new pods: {QUOTA}"),
        ([condition("ReplicaFailure", "False", QUOTA)], "0 of 2 new pods"),
        ([], "0 of 2 new pods"),
    ],
)
def test_pods_that_kubernetes_refuses_to_create_are_told_with_the_reason(
    conditions: list[dict[str, Any]], said: str
) -> None:
    raw = {
        "metadata": {"name": "redis-operator", "namespace": "redis-operator", "generation": 1},
        "spec": {"replicas": 2, "template": {"spec": {"containers": []}}},
        "status": {"observedGeneration": 1, "replicas": 2, "conditions": conditions},
    }
    found = rollout_limitation(msgspec.convert(raw, Deployment))
    assert found == f"Deployment redis-operator has {said}"
