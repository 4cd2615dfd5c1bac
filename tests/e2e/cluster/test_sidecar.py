"""What runs beside the servers must not hold them up. IN-25"""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import until

pytestmark = pytest.mark.e2e


async def test_a_broken_sidecar_is_told_of_and_neither_stops_a_roll_nor_readiness(
    database: Any,
) -> None:
    cache = await database()
    await cache.wait_ready()
    old = await cache.uids()
    broken = {"name": "beside", "image": "there-is-no-such-image:1", "command": ["nothing"]}
    async with cache.under_load() as application:
        await cache.patch(pod={"sidecars": [broken]})

        async def rolled() -> bool:
            now = await cache.uids()
            return now.keys() == old.keys() and not set(now.values()) & set(old.values())

        await until(rolled, seconds=120, what="every pod to be replaced", every=0.3)
        await cache.wait_ready(seconds=60)
        found = await cache.wait_condition("Ready", "True", reason="SidecarBroken", seconds=60)
    assert "container beside" in found["message"]
    report = await application.verify()
    assert report.lost == (), report
    await cache.patch(pod={"sidecars": []})
    await cache.wait_condition("Ready", "True", reason="Reconciled", seconds=120)
