"""A database that is backed up before it goes."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.clusters import until
from e2e.standalone.conftest import Alone

pytestmark = pytest.mark.e2e

ALONE: dict[str, Any] = {"mode": "Standalone", "shards": 1, "replicas": 0}


def template() -> dict[str, Any]:
    return {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "RedisBackupSchedule",
        "metadata": {"name": "nightly"},
        "spec": {
            "redis": "cache",
            "schedule": "@yearly",
            "suspend": True,
            "template": {"storage": {"claim": {"name": "backups"}}},
        },
    }


async def test_what_was_written_before_a_deletion_is_in_its_last_backup(
    database: Any, store: Any
) -> None:
    cache = Alone(await database(**ALONE, deletion={"policy": "Backup"}))
    await cache.wait_ready()
    await cache.write(100)
    uid = store.get("redis", "cache")["metadata"]["uid"]
    store.apply(template())
    kubectl, here = store.cluster.kubectl, ("-n", store.namespace)
    kubectl("delete", "redis", "cache", "--timeout=90s", *here)
    last = f"cache-last-{uid[:8]}"
    assert store.status(last)["phase"] == "Completed"
    copy = Alone(await database("copy", **ALONE, bootstrap={"fromBackup": {"name": last}}))
    await copy.wait_ready(seconds=90)
    copy.acknowledged = dict(cache.acknowledged)
    assert await copy.lost() == []
    await copy.wait_condition("Ready", "True")


async def test_a_backup_that_cannot_be_taken_is_named_and_can_be_given_up(
    database: Any, store: Any
) -> None:
    cache = Alone(await database(**ALONE, deletion={"policy": "Backup"}))
    await cache.wait_ready()
    await cache.write(10)
    kubectl, here = store.cluster.kubectl, ("-n", store.namespace)
    kubectl("delete", "redis", "cache", "--wait=false", *here)
    await cache.wait_condition("Deleting", "False", reason="BackupFirst")
    told = next(
        c["message"]
        for c in store.get("redis", "cache")["status"]["conditions"]
        if c["type"] == "Deleting"
    )
    assert "RedisBackupSchedule" in told
    assert "spec.deletion.policy" in told
    assert await cache.lost() == []  # it serves meanwhile
    change = '{"spec": {"deletion": {"policy": "Delete"}}}'
    kubectl("patch", "redis", "cache", "--type=merge", "-p", change, *here)

    async def gone() -> bool:
        return "cache" not in kubectl("get", "redis", "-o", "name", *here)

    await until(gone, seconds=60, what="the database to go", every=0.5)
