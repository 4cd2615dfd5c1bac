"""`RedisRestore`: the data of a database in use is replaced by that of a backup, once."""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import field

from .backup_storage import BackupEncryption, BackupStorage
from .metadata import Condition, Metadata, Part
from .redis import BootstrapFromBackup

__all__ = [
    "KEPT_LABEL",
    "RedisRestore",
    "RedisRestoreSpec",
    "RedisRestoreStatus",
    "RestoreDiscard",
    "RestoreKeep",
    "RestorePhase",
]


KEPT_LABEL: Final = "redisoperator.dev/kept-for"
"""On the backup of the data that a restore replaces: the uid of the `RedisRestore`."""


class RestorePhase(Enum):
    """How far a restore is. The last two phases are final."""

    PENDING = "Pending"
    CHECKING = "Checking"
    CLOSING = "Closing"
    SAVING = "Saving"
    RESTORING = "Restoring"
    ROLLING_BACK = "RollingBack"
    OPENING = "Opening"
    COMPLETED = "Completed"
    FAILED = "Failed"


class RestoreDiscard(Part, frozen=True):
    """What is discarded: all data that the database has when the restore begins."""

    database: str
    uid: str = ""


class RestoreKeep(Part, frozen=True):
    """Where the replaced data is kept."""

    storage: BackupStorage | None = None
    encryption: BackupEncryption | None = None
    verify: bool = False


class RedisRestoreSpec(Part, frozen=True, kw_only=True):
    """The database, and the backup that replaces its data."""

    redis: str
    source: BootstrapFromBackup = field(name="from")
    discard: RestoreDiscard | None = None
    keep: RestoreKeep = field(default_factory=RestoreKeep)


class RedisRestoreStatus(Part, frozen=True):
    """The observed state of a restore."""

    observed_generation: int = 0
    phase: RestorePhase | None = None
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    start_time: str = ""
    closing_time: str = ""
    closed_time: str = ""
    completion_time: str = ""
    database: str = ""
    backup: str = ""
    location: str = ""
    kept: str = ""
    kept_uid: str = ""
    kept_location: str = ""
    saves: int = 0
    attempt: int = 0
    failures: int = 0
    started: bool = False
    waiting_time: str = ""
    job: str = ""
    keys: int | None = None
    servers: str = ""
    failure: str = ""
    failure_reason: str = ""


class RedisRestore(Part, frozen=True, omit_defaults=False):
    """The data of a database in use is replaced by that of a backup."""

    spec: RedisRestoreSpec
    metadata: Metadata = field(default_factory=Metadata)
    status: RedisRestoreStatus = field(default_factory=RedisRestoreStatus)
    api_version: str = "redisoperator.dev/v1"
    kind: str = "RedisRestore"
