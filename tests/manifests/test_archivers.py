"""The worker that archives: what it may, where it writes, and what has it restarted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from manifests.test_build import database
from redis_operator.api.redisbackupschedule import RedisBackupSchedule
from redis_operator.backup.task import ArchiveTask, PointTask, ShardTask, Source, read_task
from redis_operator.manifests.archivers import archiver, sources
from redis_operator.manifests.objects import Object
from redis_operator.manifests.workers import point_job


def schedule(**spec: Any) -> RedisBackupSchedule:
    raw = {
        "metadata": {"namespace": "default", "name": "nightly", "uid": "u-1"},
        "spec": {
            "redis": "cache",
            "schedule": "@daily",
            "template": {"storage": {"s3": {"bucket": "b", "secretName": "store-keys"}}},
            "continuous": True,
            **spec,
        },
    }
    return msgspec.convert(raw, RedisBackupSchedule)


def made(wanted: RedisBackupSchedule | None = None, **spec: Any) -> Object:
    redis = database(**spec)
    given = wanted or schedule()
    return archiver(given, redis, path="p/archive", allow_primary=False, image="ours:1")


def test_the_worker_has_no_rights_and_a_disk_of_a_bounded_size() -> None:
    pod = made(schedule(archive={"spoolSize": "1Gi"}))["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    [container] = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    [spool] = [v["emptyDir"] for v in pod["volumes"] if v["name"] == "spool"]
    assert int(spool["sizeLimit"]) > 1 << 30
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    [login] = [v["secret"] for v in pod["volumes"] if v["name"] == "login"]
    assert login["items"] == [{"key": "backup", "path": "password"}]  # and no other user's
    assert pod["terminationGracePeriodSeconds"] > 20  # it waits so long for the store


def test_a_second_worker_begins_when_the_first_has_ended() -> None:
    assert made()["spec"]["strategy"] == {"type": "Recreate"}
    assert made()["spec"]["replicas"] == 1


def test_what_changes_with_the_servers_restarts_no_worker() -> None:
    one = ShardTask("shard-0", (Source("cache-0-0", "10.0.0.1"),))
    other = ShardTask("shard-1", (Source("cache-1-0", "10.0.0.2"),))
    files = sources(schedule(), (one, other), base="2026-01-05T03:00:00Z")
    assert msgspec.json.decode(files["data"]["shards.json"]) == {
        "shard-0": [{"pod": "cache-0-0", "host": "10.0.0.1", "port": 6379}],
        "shard-1": [{"pod": "cache-1-0", "host": "10.0.0.2", "port": 6379}],
    }
    assert files["data"]["base"] == "2026-01-05T03:00:00Z"
    assert made(shards=3) == made(shards=5)


def test_the_selector_stays_when_another_database_is_named() -> None:
    other = made(replace(schedule(), spec=replace(schedule().spec, redis="other")))
    assert other["spec"]["selector"] == made()["spec"]["selector"]
    assert other["spec"]["template"] != made()["spec"]["template"]


def test_the_task_says_how_long_to_keep_and_how_much_may_wait() -> None:
    pod = made(schedule(archive={"keepHours": 2, "spoolSize": "64Mi"}))["spec"]["template"]["spec"]
    [raw] = [e["value"] for e in pod["containers"][0]["env"] if e["name"] == "BACKUP_TASK"]
    task = read_task(raw)
    assert isinstance(task, ArchiveTask)
    assert (task.keep_seconds, task.spool_bytes, task.user) == (7200, 64 << 20, "backup")
    assert task.shards == ()  # they are in a file that is kept current


@pytest.mark.parametrize("cluster", [True, False])
def test_the_worker_of_a_restore_point_asks_for_slots_where_there_are_some(
    *, cluster: bool
) -> None:
    shards = (ShardTask("server-0", (Source("cache-0", "10.0.0.1"),)),)
    job = point_job(
        schedule(),
        path="p/archive",
        point="release",
        request="u/1",
        shards=shards,
        cluster=cluster,
        image="ours:1",
    )
    [container] = job["spec"]["template"]["spec"]["containers"]
    [raw] = [one["value"] for one in container["env"] if one["name"] == "BACKUP_TASK"]
    task = read_task(raw)
    assert isinstance(task, PointTask)
    assert task.cluster is cluster
