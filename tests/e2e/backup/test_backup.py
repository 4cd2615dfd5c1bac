"""A backup of a database that is in use, read from a replica where there is one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.clusters import until
from e2e.standalone.conftest import Alone
from kubecontroller.client.errors import Invalid
from kubecontroller.client.patches import MergePatch
from redis_operator.operator.world import REDIS_BACKUPS

pytestmark = pytest.mark.e2e

EXAMPLES = Path(__file__).parents[3] / "examples"


async def test_the_example_is_a_backup_and_a_database_that_begins_with_it(
    database: Any, store: Any
) -> None:
    scratch = Alone(await database("scratch", mode="Standalone", shards=1, replicas=0))
    await scratch.wait_ready()
    await scratch.write(100)
    for document in yaml.safe_load_all((EXAMPLES / "backup.yaml").read_text()):
        if document["kind"] == "Redis":
            document["spec"] |= scratch.cluster.defaults()
        store.apply(document)
    status = await store.wait("scratch-monday", "Completed")
    assert (status["shards"], len(status["parts"])) == (1, 1)
    assert status["parts"][0]["pod"] == "scratch-0"
    assert 0 < status["stored"] < status["size"]
    assert status["location"].startswith("persistentvolumeclaim/backups:/")
    assert status["conditions"][0]["status"] == "True"
    shown = store.cluster.kubectl("get", "rdb", "-n", store.namespace)
    assert "Completed" in shown
    assert str(status["size"]) in shown

    copy = Alone(
        await database(
            "copy",
            mode="Standalone",
            shards=1,
            replicas=0,
            bootstrap={"fromBackup": {"name": "scratch-monday"}},
        )
    )
    await copy.wait_ready(seconds=90)
    copy.acknowledged = dict(scratch.acknowledged)
    assert await copy.lost() == []

    assert await scratch.run("FLUSHALL") == "OK"
    store.apply(yaml.safe_load((EXAMPLES / "restore.yaml").read_text()))

    async def replaced() -> bool:
        words = ("get", "redisrestore", "scratch-back", "-n", store.namespace)
        return store.cluster.kubectl(*words, "-o", "jsonpath={.status.phase}") == "Completed"

    # A kubelet takes up to ninety seconds to show a changed Secret to its containers.
    await until(replaced, seconds=180, what="the restore to complete", every=0.5)
    await scratch.wait_ready()
    assert await scratch.lost() == []


async def test_every_shard_of_a_cluster_is_read_from_a_replica(database: Any, store: Any) -> None:
    cache = await database(shards=3, replicas=1)
    await cache.wait_ready(seconds=90)
    replicas = {
        replica["pod"]
        for shard in (await cache.status())["shards"]
        for replica in shard["replicas"]
    }
    store.take("monday")
    status = await store.wait("monday", "Completed")
    assert {part["pod"] for part in status["parts"]} <= replicas
    assert sorted(part["name"] for part in status["parts"]) == ["shard-0", "shard-1", "shard-2"]
    assert all(part["slots"] for part in status["parts"])


async def test_what_cannot_work_is_said_and_waited_for(database: Any, store: Any) -> None:
    store.take("early", storage={"claim": {"name": "missing"}})
    status = await store.wait("early", "Pending")
    await asyncio.sleep(1)
    assert "there is no Redis cache" in store.status("early")["message"]
    cache = await database(mode="Standalone", shards=1, replicas=0)
    await cache.wait_ready()
    status = await store.wait("early", "Running")
    assert status["attempt"] == 1

    store.claim("missing")  # the worker's pod has waited for it
    await store.wait("early", "Completed")
    change = MergePatch({"spec": {"redis": "other"}})
    with pytest.raises(Invalid, match="a backup is taken once"):
        await cache.client.patch(REDIS_BACKUPS, (store.namespace, "early"), change)
    both = {"claim": {"name": "missing"}, "s3": {"bucket": "b-1"}}
    told = store.apply(
        {
            "apiVersion": "redisoperator.dev/v1",
            "kind": "RedisBackup",
            "metadata": {"name": "both"},
            "spec": {"redis": "cache", "storage": both},
        },
        check=False,
    )
    assert "spec.storage" in told
    assert "use one of claim, s3, gcs and azure" in told
