"""Labels of the primary's pod that somebody removed. K-27"""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import PATIENCE, until
from kubecontroller.client.objects import PODS
from kubecontroller.client.patches import MergePatch

pytestmark = pytest.mark.e2e


async def test_a_primary_s_pod_without_labels_is_not_replaced_and_gets_them_back(
    watched: Any,
) -> None:
    cache = await watched()
    primary = (await cache.wait_ready())["primary"]
    uids, key = await cache.uids(), (cache.namespace, primary)
    before = dict((await cache.pods())[primary].metadata.labels)
    ours = {name: None for name in before if name.startswith("redisoperator.dev/")}
    async with cache.writing() as writer:
        await cache.client.patch(PODS, key, MergePatch({"metadata": {"labels": ours}}))

        async def is_labelled() -> bool:
            found = (await cache.client.get(PODS, key)).metadata.labels or {}
            return bool(before.items() <= found.items())

        await until(is_labelled, seconds=60, what=f"the labels of {primary}")
        assert (await cache.wait_ready())["primary"] == primary
    assert await cache.lost(writer) == []
    assert await cache.uids() == uids
    assert writer.longest < 5.0 * PATIENCE, "the Service leads to the primary again"
