"""A roll that cannot go on stops at one pod, which is not the primary, and can be reverted.

IN-05, IN-06, IN-07
"""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.e2e


async def _replaced(cache: Any, old: dict[str, str]) -> list[str]:
    now = await cache.uids()
    return [pod for pod in old if now.get(pod) != old[pod]]


async def test_an_image_that_does_not_exist_stops_at_one_pod_and_can_be_reverted(
    watched: Any,
) -> None:
    cache = await watched()
    primary = (await cache.wait_ready())["primary"]
    old = await cache.uids()
    image = (await cache.pods())[primary].spec.containers[0].image
    version = ".".join((await cache.status())["version"].split(".")[:2])
    async with cache.writing() as writer:
        await cache.patch(image="no-such-image:0.0.1", version=version)
        await cache.wait_condition("Degraded", "True", seconds=60)
        await writer.more(2_000)
        found = await cache.condition("Degraded")
        [pod] = await _replaced(cache, old)
        assert pod != primary
        assert pod in found["message"]
        assert "Pull" in found["message"] or "image" in found["message"].lower(), found
        assert (await cache.condition("Available"))["status"] == "True"
        await cache.patch(image=image if cache.cluster.defaults().get("image") else None)
        assert (await cache.wait_ready(seconds=120))["primary"] == primary
    assert await cache.lost(writer) == []
    assert await _replaced(cache, old) == [pod]


async def test_pods_that_fit_no_node_stop_the_roll_at_one_replica(watched: Any) -> None:
    cache = await watched()
    primary = (await cache.wait_ready())["primary"]
    old = await cache.uids()
    async with cache.writing() as writer:
        await cache.patch(resources={"requests": {"cpu": "1000"}})
        await cache.wait_condition("Degraded", "True", seconds=60)
        await writer.more(2_000)
        found = await cache.condition("Degraded")
        assert "nschedulable" in found["message"], found
        [pod] = await _replaced(cache, old)
        assert pod != primary
        await cache.patch(resources=None)
        assert (await cache.wait_ready(seconds=120))["primary"] == primary
    assert await cache.lost(writer) == []
    assert await _replaced(cache, old) == [pod]
