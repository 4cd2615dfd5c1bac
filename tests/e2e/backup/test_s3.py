"""A backup goes to a bucket of a real S3 server, and comes back from it."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from e2e.backup.s3_pod import S3Pod
from e2e.standalone.conftest import Alone
from support.s3_server import S3Server

pytestmark = pytest.mark.e2e

ALONE: dict[str, Any] = {"mode": "Standalone", "shards": 1, "replicas": 0}


KEYS = {"accessKeyId": "ours", "secretAccessKey": "hidden-word"}


@pytest.fixture
async def s3(cluster: Any, store: Any, tmp_path: Path) -> AsyncIterator[S3Server | S3Pod]:
    """Return a server that workers reach: a process of this machine, or a pod of a real cluster."""
    if cluster.is_local:
        made = S3Server(tmp_path)
        yield made
        made.stop()
        return
    if "E2E_S3_IMAGE" not in os.environ or "image" not in cluster.defaults():
        pytest.skip("E2E_S3_IMAGE names no S3 server that runs in the cluster")
    pod = S3Pod(store, os.environ["E2E_S3_IMAGE"], KEYS)
    await pod.start()
    yield pod


async def test_a_bucket_keeps_what_another_database_begins_with(
    database: Any, store: Any, s3: S3Server | S3Pod
) -> None:
    store.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "store-keys"},
            "data": {name: b64encode(value.encode()).decode() for name, value in KEYS.items()},
        }
    )
    cache = Alone(await database(**ALONE))
    await cache.wait_ready()
    await cache.write(300)
    place = {"bucket": s3.bucket, "prefix": "production", "endpoint": s3.endpoint}
    store.take(
        "lost",
        storage={"s3": {**place, "bucket": "missing", "secretName": "store-keys"}},
        attempts=1,
    )
    failed = await store.wait("lost", "Failed")
    assert failed["conditions"][0]["reason"] == "StoreFailed"
    assert "s3://missing/production/" in failed["message"]
    assert "NoSuchBucket" in failed["message"]  # said by the store itself
    store.take("monday", storage={"s3": {**place, "secretName": "store-keys"}})
    status = await store.wait("monday", "Completed")
    assert status["location"].startswith("s3://backups/production/")

    copy = Alone(await database("copy", **ALONE, bootstrap={"fromBackup": {"name": "monday"}}))
    await copy.wait_ready(seconds=90)
    copy.acknowledged = dict(cache.acknowledged)
    assert await copy.lost() == []
    everything = store.cluster.kubectl(
        *("get", "pods,jobs,events,rdb", "-o", "yaml", "-n", store.namespace),
        *("--field-selector", "metadata.name!=s3"),  # the server itself, where it is a pod
    )
    assert "hidden-word" not in everything
