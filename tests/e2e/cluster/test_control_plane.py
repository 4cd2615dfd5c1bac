"""The control plane of local mode dies under a database. L-01"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from e2e.harness import until
from kubecontroller.client.errors import KubeError

pytestmark = pytest.mark.e2e


async def test_a_database_serves_on_while_the_control_plane_is_killed_and_is_adopted_by_the_next(
    database: Any, cluster: Any
) -> None:
    if not cluster.is_local:
        pytest.skip("the control plane is not ours to kill")
    cache = await database()
    await cache.wait_ready()
    uids, restarts = await cache.uids(), await cache.restarts()
    async with cache.under_load() as application:
        for _ in range(3):
            os.kill(cluster.process("control-plane"), signal.SIGKILL)
            await asyncio.sleep(1)
            await until(lambda: _answers(cache), seconds=60, what="the API server")
        await cache.wait_ready()
    report = await application.verify()
    assert report.lost == (), report
    assert report.longest_wait_seconds < 1, report
    assert await cache.uids() == uids
    assert await cache.restarts() == restarts
    victim = await cache.primary_of(0)
    await cache.crash(victim)  # it is watched, kept and healed as before
    await cache.wait_new_primary(0, victim)
    await cache.wait_ready()


async def _answers(cache: Any) -> bool:
    try:
        await cache.pods()
    except (KubeError, OSError):
        return False
    return True
