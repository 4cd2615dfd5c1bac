"""Disks that are really full: writes are refused and none is lost, and the status says why."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.disks import Disk
from e2e.harness import until
from e2e.standalone.conftest import STORED

pytestmark = pytest.mark.e2e


async def test_full_disks_are_told_and_cost_no_acknowledged_write(watched: Any, disk: Disk) -> None:
    cache = await watched(**STORED)
    await cache.wait_ready(seconds=90)
    uids = await cache.uids()
    async with cache.writing() as writer:
        disk.fill()
        told = await cache.wait_condition("Degraded", "True", reason="PersistenceFailed")
        for part in ("append-only file", "MISCONF", "data-cache-", "spec.storage.size"):
            assert part in told["message"]

        async def refused() -> bool:
            answer = await cache.run("SET", "refused", "x" * 8192)
            return "MISCONF" in str(answer)

        await until(refused, seconds=30, what="a write to be refused")
        disk.make_room()
        await writer.acknowledged_again(seconds=90)
        status = await cache.wait_ready(seconds=120)
    assert await cache.lost(writer) == []
    assert "lastDataLoss" not in status
    assert await cache.uids() == uids
