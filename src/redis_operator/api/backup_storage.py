"""Where backups are kept, and with which keys; what several kinds say of it."""

from __future__ import annotations

from .metadata import Part

__all__ = ["BackupEncryption", "BackupStorage", "ClaimStorage", "S3Storage"]


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


class BackupStorage(Part, frozen=True):
    """Where backups are kept: one of these."""

    claim: ClaimStorage | None = None
    s3: S3Storage | None = None


class BackupEncryption(Part, frozen=True):
    """The keys that a backup is encrypted with."""

    secret_name: str
    key_id: str = ""
