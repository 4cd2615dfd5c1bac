"""A backup that is held back to a bandwidth says how far it is."""

from __future__ import annotations

import os
from typing import Any

import pytest

from e2e.harness import until
from e2e.standalone.conftest import Alone

pytestmark = pytest.mark.e2e


async def test_how_far_a_slow_backup_is_can_be_seen(database: Any, store: Any) -> None:
    cache = Alone(await database(mode="Standalone", shards=1, replicas=0))
    await cache.wait_ready()
    for number in range(40):
        await cache.run("SET", f"big:{number}", os.urandom(25_000).hex())
    store.take("monday", bandwidth="64Ki")

    async def told() -> dict[str, Any] | None:
        found = store.status("monday").get("progress")
        return found if found and found.get("read") else None

    progress = await until(told, seconds=60, what="progress", every=0.5)
    assert 0 < progress["read"] < 2_100_000
    status = await store.wait("monday", "Completed", seconds=120)
    assert "progress" not in status
    assert status["size"] > progress["read"]
    assert status["attempt"] == 1
