"""Backups that are no longer kept: they go, and their objects in the store before them."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.clusters import until
from e2e.standalone.conftest import Alone

pytestmark = pytest.mark.e2e

ALONE: dict[str, Any] = {"mode": "Standalone", "shards": 1, "replicas": 0}
KIND = {"apiVersion": "redisoperator.dev/v1"}


def schedule(name: str = "often", **spec: Any) -> dict[str, Any]:
    template = {"storage": {"claim": {"name": "backups"}}}
    return {
        **KIND,
        "kind": "RedisBackupSchedule",
        "metadata": {"name": name},
        "spec": {
            "redis": "cache",
            "schedule": "0 0 1 1 *",
            "template": template,
            "retention": {"keepLast": 1},
            **spec,
        },
    }


def take(store: Any, name: str, labels: dict[str, str], due: str, **spec: Any) -> None:
    notes = {"redisoperator.dev/due": due}
    storage = {"claim": {"name": "backups"}}
    store.apply(
        {
            **KIND,
            "kind": "RedisBackup",
            "metadata": {"name": name, "labels": labels, "annotations": notes},
            "spec": {"redis": "cache", "storage": storage, **spec},
        }
    )


def names(store: Any) -> set[str]:
    shown = store.cluster.kubectl("get", "redisbackups", "-n", store.namespace, "-o", "name")
    return {line.partition("/")[2] for line in shown.split()}


async def test_what_retention_gives_up_goes_with_its_objects(database: Any, store: Any) -> None:
    cache = Alone(await database(**ALONE))
    await cache.wait_ready()
    await cache.write(10)
    store.apply(schedule(suspend=True))
    uid = store.get("redisbackupschedule", "often")["metadata"]["uid"]
    own = {"redisoperator.dev/schedule": "often", "redisoperator.dev/schedule-uid": uid}
    take(store, "old", own, "2026-01-01T00:00:00Z")
    await store.wait("old", "Completed")
    old = store.get("redisbackup", "old")
    assert old["metadata"]["finalizers"] == ["redisoperator.dev/backup"]
    take(store, "other", {}, "2020-01-01T00:00:00Z")  # nobody's: it stays
    take(store, "new", own, "2026-01-02T00:00:00Z")
    await store.wait("new", "Completed")
    await store.wait("other", "Completed")

    async def gone() -> bool:
        return names(store) == {"other", "new"}

    await until(gone, seconds=60, what="the older backup to go", every=0.5)

    async def swept() -> bool:
        return "old-" not in store.cluster.kubectl(
            "get", "jobs", "-n", store.namespace, "-o", "name"
        )

    await until(swept, seconds=30, what="its Jobs to go", every=0.5)
    files = volume_files(store)
    if files is not None:
        assert not any(f"/old-{old['metadata']['uid'][:8]}" in name for name in files)
        assert any("/new-" in name and name.endswith("manifest.json") for name in files)


async def test_a_backup_that_is_deleted_in_the_middle_leaves_nothing(
    database: Any, store: Any
) -> None:
    cache = Alone(await database(**ALONE))
    await cache.wait_ready()
    await cache.write(10)
    store.take("monday")
    await store.wait("monday", "Running")
    store.cluster.kubectl("delete", "redisbackup", "monday", "-n", store.namespace)
    files = volume_files(store)
    if files is not None:
        assert not any("/monday-" in name for name in files)


async def test_a_store_that_is_gone_holds_a_backup_until_its_objects_are_given_up(
    database: Any, store: Any
) -> None:
    cache = Alone(await database(**ALONE))
    await cache.wait_ready()
    store.claim("short-lived")
    store.take("monday", storage={"claim": {"name": "short-lived", "path": "a/b"}})
    await store.wait("monday", "Completed")
    kubectl, here = store.cluster.kubectl, ("-n", store.namespace)
    kubectl("delete", "jobs", "--all", *here)
    kubectl("delete", "pvc", "short-lived", *here)
    kubectl("delete", "redisbackup", "monday", "--wait=false", *here)

    async def told() -> bool:
        return "spec.deletionPolicy" in store.status("monday").get("message", "")

    await until(told, seconds=60, what="the way out to be named", every=0.5)
    change = '{"spec": {"deletionPolicy": "Retain"}}'
    kubectl("patch", "redisbackup", "monday", "--type=merge", "-p", change, *here)

    async def gone() -> bool:
        return "monday" not in names(store)

    await until(gone, seconds=30, what="the backup to go", every=0.5)


async def test_a_namespace_with_backups_can_be_deleted(
    database: Any, store: Any, cluster: Any
) -> None:
    cache = Alone(await database(**ALONE))
    await cache.wait_ready()
    store.take("monday")
    await store.wait("monday", "Completed")
    cluster.kubectl("delete", "namespace", store.namespace, "--timeout=90s")
    cluster.kubectl("create", "namespace", store.namespace)  # which the end of the test deletes


def volume_files(store: Any) -> list[str] | None:
    """Return the files of the volumes of a cluster that is on this machine."""
    folder = getattr(store.cluster, "folder", None) if hasattr(store.cluster, "name") else None
    if folder is None:
        return None
    return [str(path) for path in (folder / store.cluster.name / "node" / "volumes").rglob("*")]
