"""A new database begins with the content of a backup, and serves nothing before it has it."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import until
from e2e.standalone.conftest import Alone
from kubecontroller.client.errors import Invalid

pytestmark = pytest.mark.e2e

ALONE: dict[str, Any] = {"mode": "Standalone", "shards": 1, "replicas": 0}
STORED: dict[str, Any] = {"storage": {"size": "1Gi"}, "durability": {"persistence": "aof"}}
FROM_MONDAY: dict[str, Any] = {"bootstrap": {"fromBackup": {"name": "monday"}}}


async def backed_up(database: Any, store: Any, keys: int = 500, **spec: Any) -> Alone:
    cache = Alone(await database(**spec))
    await cache.wait_ready(seconds=90)
    await cache.write(keys)
    store.take("monday")
    await store.wait("monday", "Completed")
    return cache


@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "on a volume"])
async def test_what_one_server_held_is_in_the_next_one(
    database: Any, store: Any, kept: bool
) -> None:
    cache = await backed_up(database, store, **ALONE)
    before = dict(cache.acknowledged)
    await cache.write(10)

    more = STORED if kept else {}
    copy = Alone(await database("copy", **ALONE, **more, **FROM_MONDAY))
    await copy.wait_ready(seconds=90)
    copy.acknowledged = before
    assert await copy.lost() == []
    assert await copy.run("DBSIZE") == 500
    assert await copy.run("SET", "new", "1") == "OK"
    copy.acknowledged["new"] = "1"

    async def is_over() -> bool:
        return "copy-restore" not in store.cluster.kubectl("get", "jobs", "-n", store.namespace)

    await until(is_over, seconds=30, what="the worker to go")
    if kept:  # what was restored is on the volume, and is not restored again
        old = (await copy.uids())[copy.pod]
        await copy.delete_pods(copy.pod)
        await copy.wait_new_pod(old, seconds=90)
        assert await copy.lost() == []
    assert await cache.lost() == []
    with pytest.raises(Invalid, match="in use"):
        await cache.patch(**FROM_MONDAY)


async def test_a_primary_with_replicas_and_sentinels_begins_with_a_backup_of_another(
    database: Any, store: Any
) -> None:
    failover = {"mode": "Failover", "shards": 1, "replicas": 2}
    cache = await backed_up(database, store, **failover)
    status = store.status("monday")
    assert status["parts"][0]["pod"] != (await cache.status())["primary"]
    copy = Alone(await database("copy", **failover, **FROM_MONDAY))
    await copy.wait_ready(seconds=120)
    copy.acknowledged = dict(cache.acknowledged)
    assert await copy.lost() == []
    assert await copy.run("DBSIZE") == 500


async def test_a_damaged_backup_is_never_given_to_a_server(
    database: Any, store: Any, cluster: Any
) -> None:
    await backed_up(database, store, 50, **ALONE)
    damage(store)
    copy = await database("copy", **ALONE, **FROM_MONDAY)
    told = await copy.wait_condition("Following", "False", reason="RestoreWaits", seconds=90)
    assert "is damaged" in told["message"]
    status = await copy.status()
    assert "binding" not in status


def damage(store: Any) -> None:
    """Change one byte in the middle of the snapshot, from a pod that has the volume."""
    script = (
        "f=$(find /store -name '*.zst'); size=$(wc -c < $f); "
        "printf '\\377\\376\\375' | dd of=$f bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null"
    )
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "vandal"},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": {"runAsUser": 65532},  # whose files they are
            "containers": [
                {
                    "name": "vandal",
                    "image": store.cluster.defaults().get("image", "busybox"),
                    "command": ["sh", "-c", script],
                    "volumeMounts": [{"name": "store", "mountPath": "/store"}],
                }
            ],
            "volumes": [{"name": "store", "persistentVolumeClaim": {"claimName": "backups"}}],
        },
    }
    store.apply(pod)
    wait = ("wait", "pod/vandal", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
    store.cluster.kubectl(*wait, "-n", store.namespace)


async def test_what_cannot_be_is_refused_with_its_path(database: Any, store: Any) -> None:
    both = {**FROM_MONDAY["bootstrap"], "fromRedis": {"host": "10.0.0.1"}}
    with pytest.raises(Invalid, match=r"spec\.bootstrap\.fromBackup.*not both"):
        await database(**ALONE, bootstrap=both)
    copy = await database("copy", **ALONE, **FROM_MONDAY)
    told = await copy.wait_condition("Following", "False", reason="RestoreWaits", seconds=60)
    assert "RedisBackup monday does not exist" in told["message"]
