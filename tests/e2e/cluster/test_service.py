"""Annotations of the client Service come, change and go; those of others stay. IN-01"""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import until
from kubecontroller.client.objects import SERVICES
from kubecontroller.client.patches import MergePatch

pytestmark = pytest.mark.e2e


async def test_annotations_of_the_service_follow_the_spec_and_leave_those_of_others(
    database: Any,
) -> None:
    cache = await database()
    await cache.wait_ready()
    uids = await cache.uids()
    key = (cache.namespace, "cache")
    foreign = MergePatch({"metadata": {"annotations": {"example.com/by-hand": "yes"}}})
    await cache.client.patch(SERVICES, key, foreign)

    async def has(value: str | None) -> bool:
        found = await cache.client.get(SERVICES.plain(), key)
        annotations = found["metadata"].get("annotations") or {}
        assert annotations.get("example.com/by-hand") == "yes"
        return bool(annotations.get("example.com/ours") == value)

    for value in ("one", "two", None):
        await cache.patch(service={"annotations": {"example.com/ours": value}})
        await until(lambda v=value: has(v), seconds=20, what=f"the annotation to be {value}")
    await cache.wait_ready()
    assert await cache.uids() == uids
