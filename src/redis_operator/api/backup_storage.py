"""The stores of backups and the keys to encrypt them, as several kinds describe them."""

from __future__ import annotations

from .metadata import Part

__all__ = [
    "AzureStorage",
    "BackupEncryption",
    "BackupStorage",
    "ClaimStorage",
    "GcsStorage",
    "S3Storage",
    "is_one_store",
]


class ClaimStorage(Part, frozen=True):
    """A folder on a volume."""

    name: str
    path: str = ""


class S3Storage(Part, frozen=True):
    """A bucket of an S3-compatible store."""

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    secret_name: str = ""
    ca_secret_name: str = ""


class GcsStorage(Part, frozen=True):
    """A bucket of Google Cloud Storage."""

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    secret_name: str = ""
    ca_secret_name: str = ""


class AzureStorage(Part, frozen=True):
    """A container of Azure Blob Storage."""

    account: str
    container: str
    prefix: str = ""
    endpoint: str = ""
    secret_name: str = ""
    ca_secret_name: str = ""


class BackupStorage(Part, frozen=True):
    """Where backups are kept: one of these."""

    claim: ClaimStorage | None = None
    s3: S3Storage | None = None
    gcs: GcsStorage | None = None
    azure: AzureStorage | None = None

    @property
    def folder(self) -> str:
        """The folder that contains all backups of this store; empty: the root of the store."""
        if self.claim is not None:
            return self.claim.path
        bucket = self.bucket
        return bucket.prefix if bucket is not None else ""

    @property
    def bucket(self) -> S3Storage | GcsStorage | AzureStorage | None:
        """The object store; None: it is a volume."""
        return self.s3 or self.gcs or self.azure


def is_one_store(storage: BackupStorage) -> bool:
    """Return whether a storage names exactly one store."""
    found = (storage.claim, storage.s3, storage.gcs, storage.azure)
    return sum(one is not None for one in found) == 1


class BackupEncryption(Part, frozen=True):
    """The keys that a backup is encrypted with."""

    secret_name: str
    key_id: str = ""
