"""`RedisBackupSchedule`: backups of one database, taken repeatedly, and how long they are kept."""

from __future__ import annotations

from enum import Enum

from msgspec import field

from .metadata import Condition, Metadata, Part
from .redis import Resources
from .redisbackup import BackupPhase, BackupTemplate

__all__ = [
    "ArchiveGap",
    "ArchiveOptions",
    "ArchiveShard",
    "ArchiveWindow",
    "BackupRetention",
    "ConcurrencyPolicy",
    "RedisBackupSchedule",
    "RedisBackupScheduleSpec",
    "RedisBackupScheduleStatus",
    "RestorePoint",
    "RestorePointRequest",
    "VerifyPolicy",
]


class ConcurrencyPolicy(Enum):
    """What happens when a backup is due and an earlier one of the schedule has not ended."""

    FORBID = "Forbid"
    ALLOW = "Allow"
    REPLACE = "Replace"


class VerifyPolicy(Enum):
    """Which backups of a schedule are verified."""

    WEEKLY = "Weekly"
    ALWAYS = "Always"
    NEVER = "Never"


class BackupRetention(Part, frozen=True):
    """Which backups of a schedule are kept."""

    keep_last: int | None = None
    daily: int | None = None
    weekly: int | None = None
    monthly: int | None = None
    max_age_days: int | None = None
    keep_failed: int = 3


class ArchiveOptions(Part, frozen=True):
    """How the replication stream is archived, if it is."""

    keep_hours: int = 168
    spool_size: str = "1Gi"
    resources: Resources = field(default_factory=Resources)


class RedisBackupScheduleSpec(Part, frozen=True, kw_only=True):
    """What is backed up, when, and how long that is kept."""

    redis: str
    schedule: str
    template: BackupTemplate
    time_zone: str = "UTC"
    suspend: bool = False
    jitter_seconds: int = 0
    concurrency_policy: ConcurrencyPolicy = ConcurrencyPolicy.FORBID
    starting_deadline_seconds: int | None = None
    verify: VerifyPolicy = VerifyPolicy.WEEKLY
    retention: BackupRetention = field(default_factory=BackupRetention)
    continuous: bool = False
    archive: ArchiveOptions = field(default_factory=ArchiveOptions)


class ArchiveGap(Part, frozen=True):
    """Times that a restore cannot go back to."""

    shard: str = ""
    after: str = ""
    before: str = ""
    reason: str = ""


class ArchiveShard(Part, frozen=True):
    """The archive of one shard."""

    name: str
    oldest: str = ""
    newest: str = ""
    gaps: int = 0
    pod: str = ""
    message: str = ""


class ArchiveWindow(Part, frozen=True):
    """The times that a restore can go back to, as the worker reported last."""

    oldest: str = ""
    newest: str = ""
    lag_seconds: int | None = None
    gaps: int = 0
    last_gap: ArchiveGap | None = None
    last_base: str = ""
    spooled_bytes: int = 0
    stored_bytes: int = 0
    time: str = ""
    path: str = ""
    location: str = ""
    shards: tuple[ArchiveShard, ...] = ()


class RestorePoint(Part, frozen=True):
    """A named moment of the archive that a restore can go back to exactly."""

    name: str
    time: str = ""


class RestorePointRequest(Part, frozen=True):
    """The restore point that was asked for last, and its state."""

    name: str
    phase: BackupPhase = BackupPhase.PENDING
    start_time: str = ""
    message: str = ""


class RedisBackupScheduleStatus(Part, frozen=True):
    """The observed state of a schedule."""

    observed_generation: int = 0
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    redis: str = ""
    schedule: str = ""
    since: str = ""
    last_schedule_time: str = ""
    last_backup: str = ""
    last_success_time: str = ""
    last_success: str = ""
    last_verify_time: str = ""
    next_time: str = ""
    active: tuple[str, ...] = ()
    kept: int = 0
    window: ArchiveWindow | None = None
    restore_point: RestorePointRequest | None = None
    restore_points: tuple[RestorePoint, ...] = ()


class RedisBackupSchedule(Part, frozen=True, omit_defaults=False):
    """Backups of one database that are taken repeatedly."""

    spec: RedisBackupScheduleSpec
    metadata: Metadata = field(default_factory=Metadata)
    status: RedisBackupScheduleStatus = field(default_factory=RedisBackupScheduleStatus)
    api_version: str = "redisoperator.dev/v1"
    kind: str = "RedisBackupSchedule"
