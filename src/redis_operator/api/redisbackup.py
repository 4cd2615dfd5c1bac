"""`RedisBackup`: one backup of one database, taken once and kept."""

from __future__ import annotations

from enum import Enum

from msgspec import field

from .backup_storage import (
    AzureStorage,
    BackupEncryption,
    BackupStorage,
    ClaimStorage,
    GcsStorage,
    S3Storage,
)
from .metadata import Condition, Metadata, Part
from .redis import Resources

__all__ = [
    "AzureStorage",
    "BackupDeletion",
    "BackupEncryption",
    "BackupPart",
    "BackupPhase",
    "BackupProgress",
    "BackupStorage",
    "BackupTemplate",
    "ClaimStorage",
    "Consistency",
    "GcsStorage",
    "RedisBackup",
    "RedisBackupSpec",
    "RedisBackupStatus",
    "S3Storage",
]


class BackupPhase(Enum):
    """How far a backup is. The last two phases are final."""

    PENDING = "Pending"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"


class BackupDeletion(Enum):
    """What happens to the objects in the store when their `RedisBackup` is deleted."""

    DELETE = "Delete"
    RETAIN = "Retain"


class Consistency(Enum):
    """Whether the shards of a backup are of one moment."""

    PER_SHARD = "PerShard"
    CUT = "Cut"


class BackupTemplate(Part, frozen=True, kw_only=True):
    """How a backup is taken, of any database."""

    storage: BackupStorage
    allow_primary: bool = True
    compression: int = 1
    consistency: Consistency = Consistency.PER_SHARD
    attempts: int = 3
    bandwidth: str = ""
    verify: bool = False
    encryption: BackupEncryption | None = None
    deletion_policy: BackupDeletion = BackupDeletion.DELETE
    resources: Resources = field(default_factory=Resources)


class RedisBackupSpec(BackupTemplate, frozen=True, kw_only=True):
    """What is backed up, and where to."""

    redis: str


class BackupPart(Part, frozen=True):
    """The snapshot of one shard."""

    name: str
    slots: str = ""
    pod: str = ""
    offset: int = 0
    size: int = 0
    stored: int = 0
    keys: int | None = None


class BackupProgress(Part, frozen=True):
    """The progress of a worker that reads."""

    read: int = 0
    stored: int = 0
    parts: int = 0
    time: str = ""


class RedisBackupStatus(Part, frozen=True):
    """The observed state of a backup."""

    observed_generation: int = 0
    phase: BackupPhase | None = None
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    attempt: int = 0
    job: str = ""
    start_time: str = ""
    completion_time: str = ""
    mode: str = ""
    engine: str = ""
    version: str = ""
    image: str = ""
    rdb: str = ""
    location: str = ""
    path: str = ""
    shards: int = 0
    progress: BackupProgress | None = None
    holds_slots: bool = False
    size: int = 0
    stored: int = 0
    verified: str = ""
    keys: int | None = None
    paused_milliseconds: int | None = None
    parts: tuple[BackupPart, ...] = ()


class RedisBackup(Part, frozen=True, omit_defaults=False):
    """One backup of one database."""

    spec: RedisBackupSpec
    metadata: Metadata = field(default_factory=Metadata)
    status: RedisBackupStatus = field(default_factory=RedisBackupStatus)
    api_version: str = "redisoperator.dev/v1"
    kind: str = "RedisBackup"
