"""How a new database gets the content that it begins with, and which moment of an archive."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from redis_operator.api.backup_storage import BackupStorage, ClaimStorage
from redis_operator.api.metadata import Condition
from redis_operator.api.redis import (
    Bootstrap,
    BootstrapFromBackup,
    Mode,
    Redis,
    RedisSpec,
    RestoreBound,
)
from redis_operator.api.redisbackup import (
    BackupPhase,
    BackupTemplate,
    RedisBackup,
    RedisBackupSpec,
    RedisBackupStatus,
)
from redis_operator.api.redisbackupschedule import (
    ArchiveShard,
    ArchiveWindow,
    RedisBackupSchedule,
    RedisBackupScheduleSpec,
    RedisBackupScheduleStatus,
)
from redis_operator.api.status import RedisStatus, RestoreStatus, SourceStatus
from redis_operator.backup.task import Until
from redis_operator.planning.backups.restores import (
    Way,
    archive_limitation,
    damage_limitation,
    until_of,
    way_of,
)

CLAIM = BackupStorage(claim=ClaimStorage("backups"))
BY_NAME = BootstrapFromBackup(name="monday")
BY_PLACE = BootstrapFromBackup(storage=CLAIM, path="ns/archive", at="2026-01-31T12:00:00Z")
NEWEST = BootstrapFromBackup(schedule="nightly")
AT = BootstrapFromBackup(schedule="nightly", at="2026-01-31T12:00:00Z")
POINT = BootstrapFromBackup(schedule="nightly", restore_point="release")
COPYING = RedisStatus(source=SourceStatus("10.0.0.9:6379", pod="db-0"))
WAITING = RedisStatus(source=SourceStatus("backup of schedule nightly"))
CARRYING = RedisStatus(restore=RestoreStatus("of schedule nightly"))


def redis(asked: BootstrapFromBackup, mode: Mode, status: RedisStatus | None = None) -> Redis:
    spec = RedisSpec(mode=mode, bootstrap=Bootstrap(from_backup=asked))
    return Redis(spec, status=status or RedisStatus())


def backup(shards: int, phase: BackupPhase = BackupPhase.COMPLETED) -> RedisBackup:
    spec = RedisBackupSpec(redis="cache", storage=CLAIM)
    return RedisBackup(spec, status=RedisBackupStatus(phase=phase, shards=shards))


def schedule(shards: int | None, *, continuous: bool = True) -> RedisBackupSchedule:
    names = tuple(ArchiveShard(f"shard-{n}") for n in range(shards or 0))
    window = ArchiveWindow(shards=names) if shards is not None else None
    return RedisBackupSchedule(
        RedisBackupScheduleSpec(
            redis="cache",
            schedule="@daily",
            template=BackupTemplate(storage=CLAIM),
            continuous=continuous,
        ),
        status=RedisBackupScheduleStatus(window=window),
    )


@pytest.mark.parametrize(
    ("database", "found", "archives", "way"),
    [
        (redis(BY_NAME, Mode.STANDALONE), None, None, None),
        (redis(BY_NAME, Mode.STANDALONE), backup(1, BackupPhase.RUNNING), None, None),
        (redis(BY_NAME, Mode.FAILOVER), backup(1), None, Way.COPY),
        (redis(BY_NAME, Mode.FAILOVER), backup(3), None, Way.CARRY),
        (redis(BY_NAME, Mode.CLUSTER), backup(1), None, Way.CARRY),
        (redis(NEWEST, Mode.FAILOVER), backup(1), None, Way.CARRY),
        (redis(BY_PLACE, Mode.FAILOVER), None, None, Way.CARRY),
        (redis(AT, Mode.FAILOVER), None, None, None),
        (redis(AT, Mode.FAILOVER), None, schedule(None), None),
        (redis(AT, Mode.FAILOVER), None, schedule(0), None),
        (redis(AT, Mode.FAILOVER), None, schedule(1), Way.COPY),
        (redis(POINT, Mode.STANDALONE), None, schedule(1), Way.COPY),
        (redis(POINT, Mode.STANDALONE), None, schedule(3), Way.CARRY),
        (redis(AT, Mode.CLUSTER), None, schedule(1), Way.CARRY),
        (redis(AT, Mode.CLUSTER), None, None, Way.CARRY),
        (redis(AT, Mode.FAILOVER, COPYING), None, None, Way.COPY),
        (redis(AT, Mode.FAILOVER, COPYING), None, schedule(3), Way.COPY),
        (redis(AT, Mode.FAILOVER, WAITING), None, schedule(3), Way.CARRY),
        (redis(AT, Mode.FAILOVER, CARRYING), None, schedule(1), Way.CARRY),
    ],
)
def test_who_gives_a_new_database_its_content(
    database: Redis,
    found: RedisBackup | None,
    archives: RedisBackupSchedule | None,
    way: Way | None,
) -> None:
    assert way_of(database, found, archives) is way


def test_the_moment_is_told_to_the_worker_and_to_people() -> None:
    include = BootstrapFromBackup(schedule="nightly", at=AT.at, bound=RestoreBound.INCLUDE)
    assert until_of(AT) == Until(time=AT.at, bound="notAfter")
    assert until_of(include) == Until(time=AT.at, bound="include")
    assert until_of(POINT) == Until(point="release")
    assert until_of(BY_NAME) is None
    labels = [one.label for one in (BY_NAME, BY_PLACE, NEWEST, AT, include, POINT)]
    assert len(set(labels)) == len(labels)  # another moment is another backup
    assert POINT.label == "of schedule nightly at restore point release"


def test_a_schedule_that_never_archived_is_named() -> None:
    told = archive_limitation(schedule(None, continuous=False))
    assert told is not None
    assert "spec.continuous: false" in told
    assert archive_limitation(schedule(1, continuous=False)) is None
    assert archive_limitation(schedule(None)) is None


SAVED = RedisStatus(restore=RestoreStatus("monday", keys=7))
EMPTY = RedisStatus(restore=RestoreStatus("monday", start_time="2026-01-31T12:00:00Z"))


@pytest.mark.parametrize(
    ("verified", "status", "refused"),
    [
        ("False", None, True),
        ("False", WAITING, True),
        ("False", EMPTY, True),
        ("False", COPYING, False),  # every part is compared with the manifest
        ("False", SAVED, False),
        ("True", None, False),
        ("Unknown", None, False),
        ("", None, False),
    ],
)
def test_no_database_begins_with_a_backup_that_is_known_to_be_damaged(
    verified: str, status: RedisStatus | None, refused: bool
) -> None:
    damage = Condition(type="Verified", status=verified, reason="x", message="shard-0 is damaged")
    known = RedisBackupStatus(
        phase=BackupPhase.COMPLETED, message="stored", verified=verified, conditions=(damage,)
    )
    told = damage_limitation(redis(BY_NAME, Mode.CLUSTER, status), replace(backup(1), status=known))
    assert (told is not None) is refused
    if told is not None:
        assert told.endswith("was verified and is damaged: shard-0 is damaged")
