"""A new database begins with the newest backup of a schedule, and waits for the first."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.standalone.conftest import Alone

pytestmark = pytest.mark.e2e

ALONE: dict[str, Any] = {"mode": "Standalone", "shards": 1, "replicas": 0}


async def test_the_newest_backup_of_a_schedule_is_restored(database: Any, store: Any) -> None:
    cache = Alone(await database(**ALONE))
    await cache.wait_ready(seconds=90)
    await cache.write(100)
    newest = {"fromBackup": {"schedule": "nightly"}}
    copy = Alone(await database("copy", **ALONE, bootstrap=newest))
    told = await copy.wait_condition("Available", "False", reason="Restoring", seconds=90)
    assert "RedisBackupSchedule nightly has no completed backup yet" in told["message"]
    labels = {"redisoperator.dev/schedule": "nightly"}
    kind = {"apiVersion": "redisoperator.dev/v1", "kind": "RedisBackup"}
    storage = {"claim": {"name": "backups"}}
    store.apply(
        {
            **kind,
            "metadata": {"name": "nightly-1", "labels": labels},
            "spec": {"redis": "cache", "storage": storage},
        }
    )
    await copy.wait_ready(seconds=120)
    copy.acknowledged = dict(cache.acknowledged)
    assert await copy.lost() == []
    assert (await copy.status())["restore"]["backup"] == "nightly-1"
