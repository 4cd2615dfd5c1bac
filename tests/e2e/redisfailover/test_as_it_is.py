"""The manifest that people have, applied as it is, changed field by field, and deleted."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.clusters import until
from redis_operator.redis import sentinel

pytestmark = pytest.mark.e2e
EXAMPLE = yaml.safe_load(
    (Path(__file__).parents[3] / "examples" / "redis-failover.yaml").read_text()
)


def _example(owner: Any) -> dict[str, Any]:
    """Return the example, with an exporter that the nodes of a real cluster have."""
    image = os.environ.get("E2E_EXPORTER_IMAGE", "")
    if not image and not owner.cluster.is_local:
        pytest.skip("E2E_EXPORTER_IMAGE names no image of an exporter, which the example has")
    found = copy.deepcopy(EXAMPLE)
    if image:
        arguments = os.environ.get("E2E_EXPORTER_ARGS", "").split()
        found["spec"]["redis"]["exporter"] |= {"image": image, "args": arguments}
    return dict(found)


async def test_the_example_is_applied_changed_field_by_field_and_deleted(owner: Any) -> None:
    owner.apply(_example(owner))
    status = owner.wait_ready()
    assert (status["ready"], status["phase"]) == ("3/3", "Ready")
    columns = owner.kubectl("get", "rf", owner.name, "--no-headers").split()
    assert columns[:5] == ["cache", "3", "3", "3/3", "Ready"]
    pods = await owner.redis.pods()
    servers = [p for n, p in pods.items() if "sentinel" not in n]
    assert sorted(pods) == [*(f"cache-{n}" for n in range(3)), *_sentinels(3)]
    assert all(pod.metadata.label("team") == "shop" for pod in pods.values())
    assert all(len(pod.status.container_statuses) == 2 for pod in servers)  # with the exporter
    assert await owner.redis.run("CONFIG", "GET", "maxmemory-policy") == [
        *("maxmemory-policy", "allkeys-lru")
    ]
    await owner.redis.run("SET", "kept", "yes")

    # a setting goes live: no pod is replaced
    before = await owner.redis.uids()
    owner.patch({"redis": {"customConfig": ["maxmemory-policy volatile-lru", "timeout 0"]}})
    owner.wait_ready()
    found = await owner.redis.run("CONFIG", "GET", "maxmemory-policy")
    assert found[1] == "volatile-lru"
    assert await owner.redis.uids() == before

    # settings of sentinels
    owner.patch({"sentinel": {"customConfig": ["down-after-milliseconds 7000"]}})
    owner.wait_ready()
    for pod in _sentinels(3):
        async with owner.redis.sentinel(pod) as connection:
            known = await connection.run(sentinel.primary(owner.redis.primary_name), timeout=5)
        assert known.down_after_ms == 7000

    # fewer servers, more sentinels
    owner.patch({"redis": {"replicas": 2}, "sentinel": {"replicas": 5}})
    status = owner.wait_ready()
    assert status["ready"] == "2/2"

    async def as_asked() -> bool:
        return set(await owner.redis.pods()) == {"cache-0", "cache-1", *_sentinels(5)}

    await until(as_asked, seconds=60, what="the pod that is not wanted to end")
    assert await owner.redis.run("GET", "kept") == "yes"

    owner.kubectl("delete", "rf", owner.name)

    async def gone() -> bool:
        left = owner.kubectl("get", "redis,pods,svc,pvc,statefulsets", "-o", "name", check=False)
        return "cache" not in left

    await until(gone, seconds=60, what="everything to be gone", every=0.5)


def _sentinels(count: int) -> list[str]:
    return [f"cache-sentinel-{n}" for n in range(count)]
