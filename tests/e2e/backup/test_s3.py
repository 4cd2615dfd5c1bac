"""A backup goes to a bucket of a real S3 server, and comes back from it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.clusters import LocalCluster
from e2e.standalone.conftest import Alone
from s3_server import S3Server

pytestmark = pytest.mark.e2e

ALONE: dict[str, Any] = {"mode": "Standalone", "shards": 1, "replicas": 0}


@pytest.fixture
def s3(cluster: Any, tmp_path: Path) -> Iterator[S3Server]:
    """Return a server that workers on this machine reach."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip("pods of a real cluster do not reach a process of this machine")
    made = S3Server(tmp_path)
    yield made
    made.stop()


async def test_a_bucket_keeps_what_another_database_begins_with(
    database: Any, store: Any, s3: S3Server
) -> None:
    keys = {"accessKeyId": "ours", "secretAccessKey": "hidden-word"}
    store.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "store-keys"},
            "data": {name: b64encode(value.encode()).decode() for name, value in keys.items()},
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
    store.take("monday", storage={"s3": {**place, "secretName": "store-keys"}})
    status = await store.wait("monday", "Completed")
    assert status["location"].startswith("s3://backups/production/")

    copy = Alone(await database("copy", **ALONE, bootstrap={"fromBackup": {"name": "monday"}}))
    await copy.wait_ready(seconds=90)
    copy.acknowledged = dict(cache.acknowledged)
    assert await copy.lost() == []
    everything = store.cluster.kubectl(
        "get", "pods,jobs,events,rdb", "-o", "yaml", "-n", store.namespace
    )
    assert "hidden-word" not in everything
