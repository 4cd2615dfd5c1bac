"""What `redis-operator convert` writes is taken by the API server as it is."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from redis_operator.cli.app import app

pytestmark = pytest.mark.e2e
OLDER = {
    "apiVersion": "databases.spotahome.com/v1",
    "kind": "RedisFailover",
    "metadata": {"name": "cache"},
    "spec": {
        "sentinel": {"replicas": 3, "resources": {"limits": {"memory": "100Mi"}}},
        "redis": {
            "replicas": 3,
            "image": "redis:6.2.14-alpine",
            "port": 6379,
            "shutdownConfigMap": "mine",
            "customConfig": ["maxmemory-policy allkeys-lru", "rename-command KEYS x"],
            "exporter": {"enabled": True},
        },
    },
}


@pytest.mark.parametrize("kind", ["RedisFailover", "Redis"])
async def test_what_is_converted_can_be_applied(owner: Any, kind: str) -> None:
    told = CliRunner().invoke(app, ["convert", "-", "--to", kind], input=yaml.safe_dump(OLDER))
    assert told.exit_code == 1  # two things were left out
    assert "spec.redis.shutdownConfigMap" in told.stderr
    said = owner.kubectl("apply", "--dry-run=server", "-f", "-", stdin=told.stdout)
    assert "cache created (server dry run)" in said
