"""Volumes that shall be kept are there after the deletion, and are used by the next one."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.clusters import until
from e2e.redisfailover.conftest import redisfailover

pytestmark = pytest.mark.e2e
CLAIM = {"spec": {"resources": {"requests": {"storage": "100Mi"}}}}


async def test_data_are_there_again_after_deletion_and_creation(owner: Any) -> None:
    storage = {"keepAfterDeletion": True, "persistentVolumeClaim": CLAIM}
    document = redisfailover(redis={"replicas": 2, "storage": storage})
    owner.apply(document)
    owner.wait_ready()
    await owner.redis.run("SET", "kept", "yes")
    owner.kubectl("delete", "rf", owner.name)

    async def gone() -> bool:
        return "cache" not in owner.kubectl("get", "redis,pods", "-o", "name", check=False)

    await until(gone, seconds=60, what="the database to be gone", every=0.5)
    assert await owner.redis.claims() == ["data-cache-0", "data-cache-1"]
    owner.apply(document)

    # Append-only files do not tell which server was ahead: a person says whose data are kept.
    async def asked() -> bool:
        plan = owner.kubectl("get", "redis", "cache", "-o", "jsonpath={.status.plan}", check=False)
        return "switch-primary-to" in plan

    await until(asked, seconds=60, what="the question whose data are kept", every=0.3)
    owner.kubectl("annotate", "redis", "cache", "redisoperator.dev/switch-primary-to=cache-0")
    owner.wait_ready()
    assert await owner.redis.run("GET", "kept") == "yes"
