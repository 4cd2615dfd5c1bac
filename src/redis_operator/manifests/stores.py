"""Stores of backups in the format of a worker's task. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from redis_operator.api.backup_storage import (
    AzureStorage,
    BackupEncryption,
    BackupStorage,
    GcsStorage,
    S3Storage,
)
from redis_operator.backup.task import (
    AzurePlace,
    Encryption,
    GcsPlace,
    Identity,
    S3Place,
    Store,
)

__all__ = ["keys_of", "store_of"]


def store_of(
    storage: BackupStorage,
    path: str,
    asked: BackupEncryption | None,
    identity: Identity | None = None,
) -> Store:
    """Return a folder of a store in the format of a worker's task."""
    encryption = Encryption(asked.secret_name, asked.key_id) if asked is not None else None
    made = Store(path, encryption=encryption, identity=identity)
    match storage.bucket:
        case S3Storage() as s3:
            place = S3Place(s3.bucket, endpoint=s3.endpoint, region=s3.region, **_given(s3))
            return replace(made, s3=place)
        case GcsStorage() as gcs:
            return replace(made, gcs=GcsPlace(gcs.bucket, endpoint=gcs.endpoint, **_given(gcs)))
        case AzureStorage() as azure:
            found = AzurePlace(
                azure.account, azure.container, endpoint=azure.endpoint, **_given(azure)
            )
            return replace(made, azure=found)
        case None:
            return made


def _given(bucket: S3Storage | GcsStorage | AzureStorage) -> dict[str, bool]:
    """Return whether a worker gets keys of a store, and certificates to trust."""
    return {"keys": bool(bucket.secret_name), "ca": bool(bucket.ca_secret_name)}


def keys_of(bucket: S3Storage | GcsStorage | AzureStorage) -> tuple[str, ...]:
    """Return the keys of the Secret that has the credentials of a store."""
    match bucket:
        case S3Storage():
            return ("accessKeyId", "secretAccessKey")
        case GcsStorage():
            return ("credentials.json",)
        case AzureStorage():
            return ("accountKey",)
