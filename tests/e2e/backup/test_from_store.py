"""A backup is restored by where it is kept: its object, its database and its operator are gone."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import until
from e2e.standalone.conftest import Alone
from kubecontroller.client.errors import Invalid

pytestmark = pytest.mark.e2e

ALONE: dict[str, Any] = {"mode": "Standalone", "shards": 1, "replicas": 0}
ONE = "use one of name, schedule and storage"
CLAIM: dict[str, Any] = {"claim": {"name": "backups"}}


async def test_a_backup_whose_object_and_database_are_gone_is_found_in_its_store(
    database: Any, store: Any
) -> None:
    cache = Alone(await database(**ALONE))
    await cache.wait_ready(seconds=90)
    await cache.write(300)
    store.take("monday", deletionPolicy="Retain")
    path = (await store.wait("monday", "Completed"))["path"]
    for kind, name in (("redisbackup", "monday"), ("redis", "cache")):
        store.cluster.kubectl("delete", kind, name, "-n", store.namespace)
    there = {"fromBackup": {"storage": CLAIM, "path": path}}
    copy = Alone(await database("copy", **ALONE, bootstrap=there))
    await copy.wait_ready(seconds=120)
    copy.acknowledged = dict(cache.acknowledged)
    assert await copy.lost() == []
    assert (await copy.status())["restore"]["backup"] == path


async def test_what_is_not_there_is_said_and_nothing_is_served(database: Any, store: Any) -> None:
    nothing = {"fromBackup": {"storage": CLAIM, "path": "ns/cache/nothing"}}
    copy = await database("copy", **ALONE, bootstrap=nothing)

    async def told() -> bool:
        found = await copy.condition("Available")
        return "there is no manifest.json" in found.get("message", "")

    await until(told, seconds=90, what="the reason")
    assert "binding" not in await copy.status()
    for wrong, words in (
        ({"storage": CLAIM}, "fromBackup.path"),
        (
            {"name": "monday", "storage": CLAIM, "path": "a"},
            ONE,
        ),
        ({"name": "monday", "encryption": {"secretName": "keys"}}, "goes with storage"),
        ({"storage": {}, "path": "a"}, "use one of claim, s3, gcs and azure"),
        ({}, ONE),
    ):
        with pytest.raises(Invalid, match=words):
            await database("wrong", **ALONE, bootstrap={"fromBackup": wrong})
