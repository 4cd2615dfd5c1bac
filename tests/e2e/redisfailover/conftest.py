"""What tests of RedisFailovers need besides: kubectl, and the database that one owns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import yaml

from e2e.clusters import Cluster, until
from e2e.failover.conftest import Watched
from e2e.harness import Database
from kubecontroller.client.api import Client
from kubecontroller.client.meta import Manifest

KIND = "redisfailovers.redisoperator.dev"


class Owner:
    """One RedisFailover, as its owner sees it with kubectl, and the database behind it."""

    def __init__(self, cluster: Cluster, client: Client, namespace: str, name: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.name = name
        self.redis = Watched(Database(cluster, client, namespace, name))

    def kubectl(self, *words: str, check: bool = True, stdin: str = "") -> str:
        return self.cluster.kubectl("-n", self.namespace, *words, check=check, stdin=stdin)

    def apply(self, document: Manifest, *, check: bool = True) -> str:
        """Apply a manifest as a person does; return what kubectl says."""
        spec = document["spec"]
        redis = {**self.cluster.defaults(), **spec.get("redis", {})}
        given = {**document, "spec": {**spec, "redis": redis}}
        return self.kubectl("apply", "-f", "-", check=check, stdin=yaml.safe_dump(given))

    def patch(self, spec: dict[str, Any], *, check: bool = True) -> str:
        text = msgspec.json.encode({"spec": spec}).decode()
        return self.kubectl("patch", KIND, self.name, "--type=merge", "-p", text, check=check)

    def get(self) -> Manifest:
        found: Manifest = msgspec.json.decode(self.kubectl("get", KIND, self.name, "-o", "json"))
        return found

    def condition(self, kind: str = "Ready") -> Manifest:
        found = (self.get().get("status") or {}).get("conditions") or ()
        return next((c for c in found if c["type"] == kind), {})

    def wait_ready(self, seconds: int = 90) -> Manifest:
        """Wait as people do, with kubectl, for the newest spec."""
        self.kubectl(
            "wait", "--for=condition=Ready", f"{KIND}/{self.name}", f"--timeout={seconds}s"
        )
        status: Manifest = self.get()["status"]
        return status

    async def wait_reason(self, reason: str) -> Manifest:
        async def told() -> Manifest | None:
            found = self.condition()
            return found if found.get("reason") == reason else None

        found: Manifest = await until(told, seconds=30, what=f"Ready says {reason}", every=0.3)
        return found


def redisfailover(**spec: Any) -> Manifest:
    return {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "RedisFailover",
        "metadata": {"name": "cache"},
        "spec": spec,
    }


@pytest.fixture
async def owner(cluster: Cluster, namespace: str) -> AsyncIterator[Owner]:
    """Return the RedisFailover `cache` of the test, to be applied."""
    client = cluster.client()
    yield Owner(cluster, client, namespace, "cache")
    await client.close()
