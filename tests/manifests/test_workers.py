"""The pods of workers: what they may reach, are given, and are not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from manifests.test_build import FACTS, by_kind, database
from redis_operator.api.backup_storage import BackupStorage
from redis_operator.api.redis import Redis
from redis_operator.api.redisbackup import RedisBackup
from redis_operator.backup.task import (
    TASK,
    AzurePlace,
    FillTarget,
    GcsPlace,
    S3Place,
    ShardTask,
    Source,
    Store,
    TakeTask,
    read_task,
)
from redis_operator.manifests.names import archiver_labels, reader_labels, worker_labels
from redis_operator.manifests.objects import Object
from redis_operator.manifests.workers import fill_job, restore_job, take_job, verify_job

CLAIM: dict[str, Any] = {"claim": {"name": "backups"}}
BUCKET: dict[str, Any] = {"s3": {"bucket": "b-1", "secretName": "store-keys"}}
GOOGLE: dict[str, Any] = {"gcs": {"bucket": "b_1", "secretName": "store-keys"}}
AZURE: dict[str, Any] = {
    "azure": {"account": "ours", "container": "b-1", "secretName": "store-keys"}
}


def job(storage: dict[str, Any]) -> Object:
    backup = msgspec.convert(
        {
            "metadata": {"namespace": "default", "name": "monday", "uid": "backup-uid"},
            "spec": {"redis": "cache", "storage": storage},
        },
        RedisBackup,
    )
    shards = (ShardTask("shard-0", (Source("cache-0-1", "10.0.0.1"),), "0-100"),)
    return take_job(
        backup, database(), attempt=2, shards=shards, cut=False, path="p", image="ours:1"
    )


@pytest.mark.parametrize(
    "storage", [CLAIM, BUCKET, GOOGLE, AZURE], ids=["claim", "s3", "gcs", "azure"]
)
def test_a_worker_has_no_rights_and_its_secrets_are_files(storage: dict[str, Any]) -> None:
    made = job(storage)
    pod = made["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    [container] = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert not any("valueFrom" in e and "secretKeyRef" in e["valueFrom"] for e in container["env"])
    secrets = [v["secret"] for v in pod["volumes"] if "secret" in v]
    assert secrets[0]["items"] == [{"key": "backup", "path": "password"}]  # and no other user's
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize(
    ("storage", "keys", "place"),
    [
        (
            BUCKET,
            ["accessKeyId", "secretAccessKey"],
            Store("p", s3=S3Place("b-1", keys=True)),
        ),
        (GOOGLE, ["credentials.json"], Store("p", gcs=GcsPlace("b_1", keys=True))),
        (AZURE, ["accountKey"], Store("p", azure=AzurePlace("ours", "b-1", keys=True))),
    ],
    ids=["s3", "gcs", "azure"],
)
def test_a_worker_is_told_of_its_bucket_and_given_its_keys(
    storage: dict[str, Any], keys: list[str], place: Store
) -> None:
    made = job({name: {**one, "caSecretName": "ours"} for name, one in storage.items()})
    pod = made["spec"]["template"]["spec"]
    given = {v["name"]: v["secret"] for v in pod["volumes"] if "secret" in v}
    assert [item["key"] for item in given["keys"]["items"]] == keys
    assert given["authority"]["secretName"] == "ours"
    [container] = pod["containers"]
    told = read_task(next(e["value"] for e in container["env"] if e["name"] == TASK)).store
    wanted = [replace(b, ca=True) for b in (place.s3, place.gcs, place.azure) if b is not None]
    assert [b for b in (told.s3, told.gcs, told.azure) if b is not None] == wanted
    bare = job({name: {**one, "secretName": ""} for name, one in storage.items()})
    volumes = bare["spec"]["template"]["spec"]["volumes"]
    assert "keys" not in {volume["name"] for volume in volumes}  # the pod's own identity


def test_keys_of_encryption_are_files_and_a_secret_that_is_missing_is_told_by_the_worker() -> None:
    raw = {
        "metadata": {"namespace": "default", "name": "monday", "uid": "backup-uid"},
        "spec": {"redis": "cache", "storage": CLAIM, "encryption": {"secretName": "words"}},
        "status": {"image": "valkey/valkey:9.1", "engine": "valkey"},
    }
    backup = msgspec.convert(raw, RedisBackup)
    shards = (ShardTask("shard-0", (Source("cache-0-1", "10.0.0.1"),)),)
    restored = restore_job(
        database(), backup.spec.storage, "p", image="i", encryption=backup.spec.encryption
    )
    for made in (
        take_job(backup, database(), attempt=1, shards=shards, cut=False, path="p", image="ours:1"),
        verify_job(backup, None, attempt=1, path="p", image="ours:1"),
        restored,
    ):
        pod = made["spec"]["template"]["spec"]
        [volume] = [v for v in pod["volumes"] if v["name"] == "encryption"]
        assert volume["secret"]["secretName"] == "words"
        assert volume["secret"]["optional"] is True
        held = [c["name"] for c in pod["containers"] if has(c, "encryption")]
        assert held == ["worker"]  # a scratch server is not given keys


def has(container: Object, volume: str) -> bool:
    return any(mount["name"] == volume for mount in container["volumeMounts"])


def test_one_job_is_one_attempt_and_goes_with_its_backup() -> None:
    made = job(CLAIM)
    assert made["metadata"]["name"] == "monday-backup-2"
    assert made["spec"]["backoffLimit"] == 0
    [owner] = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("RedisBackup", "backup-uid")
    [container] = made["spec"]["template"]["spec"]["containers"]
    task = read_task(next(e["value"] for e in container["env"] if e["name"] == "BACKUP_TASK"))
    assert isinstance(task, TakeTask)
    assert (task.attempt, task.shards[0].slots, task.user) == ("2", "0-100", "backup")


def test_a_worker_that_hangs_ends_after_a_day() -> None:
    assert job(CLAIM)["spec"]["activeDeadlineSeconds"] == 86_400


def test_no_service_of_a_database_leads_to_a_worker() -> None:
    labels = job(CLAIM)["spec"]["template"]["metadata"]["labels"]
    assert "redisoperator.dev/database" not in labels
    storage = msgspec.convert(CLAIM, type(job_storage()))
    restore = restore_job(database(), storage, "p", image="ours:1")
    assert "redisoperator.dev/database" not in restore["spec"]["template"]["metadata"]["labels"]
    assert restore["metadata"]["ownerReferences"][0]["kind"] == "Redis"


def job_storage() -> Any:
    raw = {"metadata": {}, "spec": {"redis": "cache", "storage": CLAIM}}
    return msgspec.convert(raw, RedisBackup).spec.storage


def test_workers_are_let_in_where_not_everybody_is() -> None:
    named = {"networkPolicy": {"clients": [{"podSelector": {"matchLabels": {"app": "web"}}}]}}
    backed_up = replace(FACTS, passwords=replace(FACTS.passwords, backup="word"))

    def peers(facts: Any, **spec: Any) -> list[Any]:
        [policy] = by_kind(database(**spec), "NetworkPolicy", facts)
        return [peer for rule in policy["spec"]["ingress"] for peer in rule.get("from", ())]

    ours = {"podSelector": {"matchLabels": reader_labels("cache")}}
    for labels in (worker_labels("cache"), archiver_labels("cache", "hourly")):
        assert labels.items() >= reader_labels("cache").items()
    assert ours in peers(backed_up, **named)
    without = replace(FACTS, passwords=replace(FACTS.passwords, backup=""))
    assert ours not in peers(without, **named)
    assert worker_labels("cache").items() <= (
        job(CLAIM)["spec"]["template"]["metadata"]["labels"].items()
    )


@pytest.mark.parametrize(
    ("spec", "limits"),
    [
        ({"mode": "Cluster", "shards": 3, "resources": {"limits": {"memory": "1Gi"}}}, 3 << 30),
        ({"mode": "Standalone", "resources": {"limits": {"memory": "500M"}}}, 500_000_000),
        ({"mode": "Standalone"}, None),
    ],
    ids=["Cluster", "Standalone", "no limit"],
)
def test_a_server_that_loads_a_backup_has_the_memory_of_the_new_database_and_no_more(
    spec: dict[str, Any], limits: int | None
) -> None:
    """It may be given a part that is larger than one shard; on its node it is not alone."""
    raw = {"metadata": {"namespace": "default", "name": "copy", "uid": "u"}, "spec": spec}
    target = FillTarget("copy-0", "10.0.0.1", "r")
    made = fill_job(
        msgspec.convert(raw, Redis),
        msgspec.convert(CLAIM, BackupStorage),
        "p",
        targets=(target,),
        image="ours:1",
        server_image="valkey:9.1",
    )
    server = made["spec"]["template"]["spec"]["containers"][1]
    found = server["resources"].get("limits", {}).get("memory")
    assert found == (str(limits) if limits else None)
