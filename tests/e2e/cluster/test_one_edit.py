"""Edits that ask for several things at once, and rolls with little room. CL-35, CL-37"""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.harness import until

pytestmark = pytest.mark.e2e


async def _is_blue(cache: Any, pods: int) -> bool:
    found = (await cache.pods()).values()
    blue = [pod.metadata.annotation("example.com/team") == "blue" for pod in found]
    return len(blue) == pods and all(blue)


async def test_no_replicas_and_new_pods_in_one_edit_end_well(database: Any) -> None:
    cache = await database(storage={"size": "1Gi"}, durability={"persistence": "aof"})
    await cache.wait_ready(seconds=90)
    before = await cache.fill(300)
    said: set[str] = set()

    async def done() -> bool:
        said.add(json.dumps(await cache.status()))
        return await _is_blue(cache, 3)

    await cache.patch(replicas=0, pod={"annotations": {"example.com/team": "blue"}})
    await until(done, seconds=180, what="three blue pods", every=0.2)
    await cache.wait_ready(seconds=90)
    assert not [status for status in said if "this is a bug" in status]
    assert await cache.check(before) == []


async def test_a_roll_that_would_leave_too_few_replicas_goes_on_serving_or_says_so_first(
    database: Any,
) -> None:
    cache = await database(durability={"minReplicasToWrite": 1})
    await cache.wait_ready()
    async with cache.under_load() as application:
        await cache.patch(pod={"annotations": {"example.com/team": "blue"}})
        await until(lambda: _is_blue(cache, 6), seconds=180, what="six blue pods", every=0.2)
        await cache.wait_ready(seconds=90)
    report = await application.verify()
    assert report.lost == (), report
    assert report.longest_wait_seconds < 5, report
