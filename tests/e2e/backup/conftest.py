"""What tests of backups need: backups by kubectl, a volume for them, databases that compare."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import yaml

from e2e.clusters import Cluster, until


class Store:
    """A namespace with a volume for backups, and those who take them: kubectl."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    def apply(self, document: dict[str, Any], *, check: bool = True) -> str:
        document.setdefault("metadata", {}).setdefault("namespace", self.namespace)
        return self.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(document), check=check)

    def claim(self, name: str = "backups", size: str = "1Gi") -> None:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        }
        kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        self.apply({**kind, "metadata": {"name": name}, "spec": spec})

    def take(self, name: str, redis: str = "cache", **spec: Any) -> None:
        spec.setdefault("storage", {"claim": {"name": "backups"}})
        kind = {"apiVersion": "redisoperator.dev/v1", "kind": "RedisBackup"}
        self.apply({**kind, "metadata": {"name": name}, "spec": {"redis": redis, **spec}})

    def get(self, what: str, name: str) -> dict[str, Any]:
        text = self.cluster.kubectl("get", what, name, "-n", self.namespace, "-o", "json")
        found: dict[str, Any] = json.loads(text)
        return found

    def status(self, name: str) -> dict[str, Any]:
        return dict(self.get("redisbackup", name).get("status") or {})

    async def wait(self, name: str, phase: str, *, seconds: float = 90.0) -> dict[str, Any]:
        async def there() -> dict[str, Any] | None:
            status = self.status(name)
            return status if status.get("phase") == phase else None

        try:
            found: dict[str, Any] = await until(
                there, seconds=seconds, what=f"backup {name} to be {phase}", every=0.5
            )
        except AssertionError as error:
            raise AssertionError(f"{error}; status: {self.status(name)}") from error
        return found


@pytest.fixture
def store(cluster: Cluster, namespace: str) -> Store:
    """Return who takes backups; there is a volume for them."""
    if not cluster.is_local and "E2E_OPERATOR_IMAGE" not in os.environ:
        pytest.skip("E2E_OPERATOR_IMAGE names no image of the operator, in which workers run")
    made = Store(cluster, namespace)
    made.claim()
    return made
