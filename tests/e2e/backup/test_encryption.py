"""A backup is encrypted with a key of a Secret, and a database begins with it by the same key."""

from __future__ import annotations

import os
from base64 import b64encode
from typing import Any

import pytest

from e2e.backup.test_verify import verified
from e2e.standalone.conftest import Alone

pytestmark = pytest.mark.e2e

ALONE: dict[str, Any] = {"mode": "Standalone", "shards": 1, "replicas": 0}


def keys(store: Any, **values: str) -> None:
    made = {name: b64encode(value.encode()).decode() for name, value in values.items()}
    kind = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "words"}}
    store.apply({**kind, "data": made})


async def test_only_who_has_the_key_gets_anything(database: Any, store: Any) -> None:
    old, new = (b64encode(os.urandom(32)).decode() for _ in range(2))
    cache = Alone(await database(**ALONE))
    await cache.wait_ready()
    await cache.write(200)
    store.take("lost", encryption={"secretName": "words"}, attempts=1)
    failed = await store.wait("lost", "Failed")
    assert failed["conditions"][0]["reason"] == "KeyMissing"
    assert "Secret words (spec.encryption.secretName) does not exist" in failed["message"]

    keys(store, old=old)
    store.take("monday", encryption={"secretName": "words"}, verify=True)
    await verified(store, "monday", "True")
    keys(store, old=old, new=new, current="new")
    copy = Alone(await database("copy", **ALONE, bootstrap={"fromBackup": {"name": "monday"}}))
    await copy.wait_ready(seconds=90)
    copy.acknowledged = dict(cache.acknowledged)
    assert await copy.lost() == []

    store.cluster.kubectl("delete", "secret", "words", "-n", store.namespace)
    keys(store, new=new)
    third = await database("third", **ALONE, bootstrap={"fromBackup": {"name": "monday"}})
    told = await third.wait_condition("Following", "False", reason="RestoreWaits", seconds=90)
    assert "has no key old; it has new" in told["message"]
    everything = store.cluster.kubectl(
        "get", "pods,jobs,events,rdb", "-o", "yaml", "-n", store.namespace
    )
    assert old not in everything
    assert new not in everything
