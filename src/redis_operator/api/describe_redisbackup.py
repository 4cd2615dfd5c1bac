"""The description and the limits of the fields of `RedisBackup`. See `describe`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .limits import described, named
from .quantity import QUANTITY_PATTERN
from .redisbackup import RedisBackupSpec

__all__ = ["FOLDER", "ONE_STORE", "ONE_STORE_RULE", "REDISBACKUP_FIELDS"]

FOLDER: Final = r"^([A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)?$"
ONE_STORE: Final = "use one of claim, s3, gcs and azure"
ONE_STORE_RULE: Final = (
    "[has(self.claim), has(self.s3), has(self.gcs), has(self.azure)].filter(one, one).size() == 1"
)
_BUCKET: Final = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"
_ENDPOINT: Final = r"^https?://[A-Za-z0-9._:\[\]-]+(/[A-Za-z0-9._/-]*)?$"
_KEY: Final = r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$"
_REGION: Final = r"^[a-zA-Z0-9-]+$"

_SAME: Final = " && ".join(
    f"has(self.{name}) == has(oldSelf.{name}) && "
    f"(!has(self.{name}) || self.{name} == oldSelf.{name})"
    for field in msgspec.structs.fields(RedisBackupSpec)
    if (name := field.encode_name) != "deletionPolicy"
)

_CA: Final = (
    "Name of a Secret in the same namespace whose key ca.crt has CA certificates, in PEM, that"
    " the store's certificate may be signed by, beside those of the image."
)

REDISBACKUP_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "RedisBackup.spec": described(
        "What is backed up, and where to. Only deletionPolicy can be changed: a backup is taken "
        "once.",
        rules=[(_SAME, "a backup is taken once; create another one")],
    ),
    "RedisBackup.status": described("The observed state. Only the operator writes it."),
    "RedisBackupSpec.redis": named("Name of a Redis in the same namespace."),
    "BackupTemplate.storage": described(
        "Where the backup is kept.",
        rules=[(ONE_STORE_RULE, ONE_STORE)],
    ),
    "BackupTemplate.allow_primary": described(
        "Whether a primary may be read from, where a shard has no replica at all. It counts the "
        "worker as a replica meanwhile."
    ),
    "BackupTemplate.compression": described(
        "Level of zstd: higher is smaller and slower.", minimum=1, maximum=19
    ),
    "BackupTemplate.attempts": described(
        "How many workers may fail before the backup has failed.", minimum=1, maximum=10
    ),
    "BackupTemplate.consistency": described(
        "PerShard: each shard is of a moment of its own, seconds apart. Cut: all shards are of one "
        "moment; writes are paused on all primaries until every snapshot has begun, some "
        "milliseconds and at most 3 s, and servers make a file of it first, for which there must "
        "be room beside their data."
    ),
    "BackupTemplate.bandwidth": described(
        "Bytes per second that are read from the servers, all shards together, such as 50Mi; at "
        "least 64Ki. The snapshot process of a server runs until it is read. Absent: no "
        "limit.",
        pattern=QUANTITY_PATTERN,
        maxLength=40,
    ),
    "BackupTemplate.verify": described(
        "Whether the backup is loaded into a scratch server of the same image once it is complete: "
        "condition Verified has the result. It needs the memory of the largest shard."
    ),
    "BackupTemplate.encryption": described(
        "Parts are encrypted with AES-256-GCM by a key of a Secret, and the manifest is signed "
        "with it. Without the key there is no backup. Absent: nothing is encrypted."
    ),
    "BackupEncryption.secret_name": named(
        "Name of a Secret in the same namespace. Each entry is a key: its name is the key's id, "
        "its value 32 bytes in base64. Keep the keys of all backups that are to stay readable."
    ),
    "BackupEncryption.key_id": described(
        "Id of the key to encrypt with. Absent: the one that the entry current of the Secret "
        "names, or else the only one.",
        pattern=_KEY,
        maxLength=64,
    ),
    "BackupTemplate.deletion_policy": described(
        "What happens to the objects in the store when the RedisBackup is deleted, by a person or "
        "by a schedule. Delete: they are deleted before it goes. Retain: they stay."
    ),
    "BackupTemplate.resources": described(
        "Resources of the worker. Absent: 100m CPU and 128Mi, at most 512Mi."
    ),
    "BackupStorage.claim": described("A folder on the volume of a PersistentVolumeClaim."),
    "BackupStorage.s3": described("A bucket of an S3-compatible store."),
    "BackupStorage.gcs": described("A bucket of Google Cloud Storage."),
    "BackupStorage.azure": described("A container of Azure Blob Storage."),
    "ClaimStorage.name": named("Name of a PersistentVolumeClaim in the same namespace."),
    "ClaimStorage.path": described(
        "Folder on the volume; absent: the volume itself.", pattern=FOLDER, maxLength=512
    ),
    "S3Storage.bucket": described("Name of the bucket.", pattern=_BUCKET, maxLength=63),
    "S3Storage.prefix": described("Prefix of every object's name.", pattern=FOLDER, maxLength=512),
    "S3Storage.endpoint": described(
        "Address of the store, such as https://minio.store:9000. Absent: AWS.",
        pattern=_ENDPOINT,
        maxLength=512,
    ),
    "S3Storage.region": described("Region of the bucket.", pattern=_REGION, maxLength=63),
    "S3Storage.secret_name": named(
        "Name of a Secret in the same namespace with the keys accessKeyId and secretAccessKey. "
        "Absent: the identity of the worker's pod."
    ),
    "S3Storage.ca_secret_name": named(_CA),
    "GcsStorage.bucket": described(
        "Name of the bucket.", pattern="^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$", maxLength=222
    ),
    "GcsStorage.prefix": described("Prefix of every object's name.", pattern=FOLDER, maxLength=512),
    "GcsStorage.endpoint": described(
        "Address of the store, where it is not Google's own.", pattern=_ENDPOINT, maxLength=512
    ),
    "GcsStorage.secret_name": named(
        "Name of a Secret in the same namespace whose key credentials.json has the key of a "
        "service account. Absent: the identity of the worker's pod."
    ),
    "GcsStorage.ca_secret_name": named(_CA),
    "AzureStorage.account": described(
        "Name of the storage account.", pattern="^[a-z0-9]{3,24}$", maxLength=24
    ),
    "AzureStorage.container": described(
        "Name of the container.", pattern="^[a-z0-9](-?[a-z0-9])+$", maxLength=63
    ),
    "AzureStorage.prefix": described(
        "Prefix of every object's name.", pattern=FOLDER, maxLength=512
    ),
    "AzureStorage.endpoint": described(
        "Address of the account, where it is not https://ACCOUNT.blob.core.windows.net.",
        pattern=_ENDPOINT,
        maxLength=512,
    ),
    "AzureStorage.secret_name": named(
        "Name of a Secret in the same namespace whose key accountKey has a key of the account. "
        "Absent: the identity of the worker's pod."
    ),
    "AzureStorage.ca_secret_name": named(_CA),
    "BackupPart.name": described("Name of the shard."),
    "BackupPart.slots": described("Its slots, in mode Cluster."),
    "BackupPart.pod": described("Pod that it was read from."),
    "BackupPart.offset": described("Where in the shard's history the snapshot is."),
    "BackupPart.size": described("Bytes of the snapshot."),
    "BackupPart.stored": described("Bytes that are stored."),
    "BackupPart.keys": described("Keys that a scratch server had when it was verified."),
    "BackupProgress.read": described("Bytes of snapshots that were read."),
    "BackupProgress.stored": described("Bytes that were sent to the store, compressed."),
    "BackupProgress.time": described("When the worker was asked."),
    "BackupProgress.parts": described("Parts that are complete."),
    "RedisBackupStatus.observed_generation": described("The generation that was observed."),
    "RedisBackupStatus.phase": described("How far it is. Completed and Failed are final."),
    "RedisBackupStatus.message": described("The state in one sentence."),
    "RedisBackupStatus.conditions": described(
        "Conditions in the standard format of Kubernetes.", listKey="type"
    ),
    "RedisBackupStatus.attempt": described("Number of the worker that runs or ran last."),
    "RedisBackupStatus.job": described("Name of that worker's Job."),
    "RedisBackupStatus.start_time": described("When the first worker was started."),
    "RedisBackupStatus.completion_time": described("When it ended."),
    "RedisBackupStatus.mode": described("Mode of the database."),
    "RedisBackupStatus.engine": described("Engine that wrote the snapshots."),
    "RedisBackupStatus.version": described("Version that wrote the snapshots."),
    "RedisBackupStatus.image": described("Image of the servers that it was read from."),
    "RedisBackupStatus.rdb": described("Format of the snapshots, from their header."),
    "RedisBackupStatus.location": described("Where it is, in readable form."),
    "RedisBackupStatus.path": described("Its folder in the store."),
    "RedisBackupStatus.shards": described("Number of snapshots."),
    "RedisBackupStatus.progress": described(
        "How far the worker is, as it reports every ten seconds while it reads."
    ),
    "RedisBackupStatus.holds_slots": described(
        "Slots of the database do not begin to move while it is read; for an hour at most."
    ),
    "RedisBackupStatus.size": described("Bytes of all snapshots."),
    "RedisBackupStatus.stored": described("Bytes that are stored."),
    "RedisBackupStatus.verified": described(
        "Whether a scratch server has loaded it: status of condition Verified."
    ),
    "RedisBackupStatus.keys": described(
        "Keys of all parts that a scratch server had when it was verified."
    ),
    "RedisBackupStatus.paused_milliseconds": described(
        "How long writes waited for the snapshots of all shards to begin, with consistency Cut."
    ),
    "RedisBackupStatus.parts": described(
        "The snapshots; absent if they do not fit into the termination message of the worker.",
        listKey="name",
    ),
}
