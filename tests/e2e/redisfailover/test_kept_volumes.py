"""Volumes that shall be kept are there after the deletion, and are used by the next one.

Append-only files do not tell which server was ahead: the volume of the last primary does.
"""

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
    owner.kubectl("annotate", "redis", "cache", "redisoperator.dev/switch-primary-to=cache-1")

    async def leads() -> bool:
        path = "jsonpath={.status.primary}"
        return owner.kubectl("get", "redis", "cache", "-o", path, check=False) == "cache-1"

    await until(leads, seconds=60, what="cache-1 to lead", every=0.3)
    owner.wait_ready()
    await owner.redis.run("SET", "kept", "yes")
    owner.kubectl("delete", "rf", owner.name)

    async def gone() -> bool:
        return "cache" not in owner.kubectl("get", "redis,pods", "-o", "name", check=False)

    await until(gone, seconds=60, what="the database to be gone", every=0.5)
    assert await owner.redis.claims() == ["data-cache-0", "data-cache-1"]
    owner.apply(document)
    owner.wait_ready()
    assert await leads(), "the volume of cache-1 is the one of the last primary"
    assert await owner.redis.run("GET", "kept") == "yes"
