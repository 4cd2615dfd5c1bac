"""Servers that are there and do not respond: suspended. ST-10, SE-23"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from e2e.harness import until
from kubecontroller.client.objects import PODS
from kubecontroller.client.patches import MergePatch

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        bool(os.environ.get("KUBECONFIG")), reason="suspends server processes of this machine"
    ),
]

_ON_WAKING = 30  # acknowledged by a primary that wakes before it hears that it was replaced
_ROLE = "redisoperator.dev/role"


async def test_a_frozen_primary_is_replaced_by_the_sentinels_and_returns_as_a_replica(
    watched: Any,
) -> None:
    cache = await watched()
    old = (await cache.wait_ready())["primary"]
    uids = await cache.uids()
    async with cache.writing() as writer:
        async with cache.frozen(old):
            new = await cache.wait_other_primary(old, seconds=60)
            await writer.acknowledged_again()
            await asyncio.sleep(3)  # more than the probes' patience
        await cache.wait_ready(seconds=90)
    assert len(await cache.lost(writer)) <= _ON_WAKING
    assert await cache.primary() == new
    assert (await cache.roles())[old] == "replica"
    assert await cache.uids() == uids
    assert await cache.restarts() == 0


async def test_two_servers_that_do_not_respond_hold_up_no_care_for_the_others(
    watched: Any,
) -> None:
    cache = await watched()
    primary = (await cache.wait_ready())["primary"]
    uids = await cache.uids()
    silent = [pod for pod, role in (await cache.roles()).items() if role == "replica"]
    async with cache.writing() as writer, cache.frozen(*silent):
        await asyncio.sleep(3)  # probes of them are under way
        change = {"metadata": {"labels": {_ROLE: "replica"}}}
        await cache.client.patch(PODS, (cache.namespace, primary), MergePatch(change))

        async def back() -> bool:
            return bool((await cache.roles())[primary] == "primary")

        await until(back, seconds=5, what="the label of the primary to be put back")
        await writer.acknowledged_again()
        await cache.wait_condition("Ready", "False", seconds=30)
    await cache.wait_ready(seconds=60)
    assert await cache.lost(writer) == []
    assert await cache.primary() == primary
    assert await cache.uids() == uids
    assert await cache.restarts() == 0
