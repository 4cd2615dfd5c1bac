"""Backups around what cannot be undone: an update, a deletion, a database of the same name."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.backup.test_last_backup import template
from e2e.backup.test_restore import ALONE, FROM_MONDAY, STORED, backed_up
from e2e.clusters import until
from e2e.standalone.conftest import Alone
from e2e.versions import two_engines

pytestmark = pytest.mark.e2e


async def test_a_database_that_is_created_again_on_its_volumes_is_not_restored_again(
    database: Any, store: Any
) -> None:
    """What was written after the restore would be gone."""
    await backed_up(database, store, 50, **ALONE)
    spec = {**ALONE, **STORED, **FROM_MONDAY, "deletion": {"policy": "Retain"}}
    copy = Alone(await database("copy", **spec))
    await copy.wait_ready(seconds=90)
    await copy.write(20)
    kept = dict(copy.acknowledged)
    store.cluster.kubectl("delete", "redis", "copy", "--timeout=90s", "-n", store.namespace)
    again = Alone(await database("copy", **spec))

    async def refused() -> bool:
        plan = (await again.status()).get("plan") or ()
        return any("keys that it would lose; remove spec.bootstrap " in line for line in plan)

    await until(refused, seconds=90, what="the restore to be refused", every=0.5)
    await again.patch(bootstrap=None)
    await again.wait_ready(seconds=90)
    again.acknowledged = kept
    assert await again.lost() == []


async def test_a_namespace_that_is_deleted_does_not_wait_for_a_last_backup(
    database: Any, store: Any
) -> None:
    cache = Alone(await database(**ALONE, deletion={"policy": "Backup"}))
    await cache.wait_ready()
    kubectl, here = store.cluster.kubectl, ("-n", store.namespace)
    kubectl("delete", "redis", "cache", "--wait=false", *here)
    await cache.wait_condition("Deleting", "False", reason="BackupFirst")  # there is no schedule
    kubectl("delete", "namespace", store.namespace, "--wait=false")

    async def gone() -> bool:
        return store.namespace not in kubectl("get", "namespaces", "-o", "name")

    await until(gone, seconds=90, what="the namespace to go", every=0.5)
    kubectl("create", "namespace", store.namespace)  # which is deleted with the test


async def test_another_engine_runs_after_a_backup_has_completed(database: Any, store: Any) -> None:
    older, newer = await two_engines(store.cluster)
    cache = Alone(await database(**ALONE, **older, **STORED, update={"backupFirst": True}))
    await cache.wait_ready(seconds=90)
    await cache.write(50)
    before = (await cache.uids())[cache.pod]
    await cache.patch(**newer)
    store.apply(template())

    async def replaced() -> str:
        return "" if (await cache.uids()).get(cache.pod) == before else "yes"

    await until(replaced, seconds=120, what="the server to be replaced", every=0.1)
    names = store.cluster.kubectl("get", "redisbackups", "-o", "name", "-n", store.namespace)
    [name] = [n.rpartition("/")[2] for n in names.split() if "cache-before-" in n]
    assert store.status(name)["phase"] == "Completed"
    assert store.status(name)["version"].startswith(older["version"])
    await cache.wait_ready(seconds=90)
    assert await cache.lost() == []
