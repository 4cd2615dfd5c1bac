"""Backups before updates and deletions: what is waited for, and what to do where that is long."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from redis_operator.api.metadata import Metadata
from redis_operator.api.redisbackup import BackupPhase, RedisBackupStatus
from redis_operator.api.redisbackupschedule import RedisBackupSchedule
from redis_operator.planning.backups.precautions import (
    LAST,
    UPDATE,
    Precaution,
    backed_up,
    precaution_backup,
    precaution_limitation,
    update_name,
)
from redis_operator.planning.backups.schedules import KEEP_ANNOTATION


def status(phase: BackupPhase | None, message: str = "", ended: str = "") -> RedisBackupStatus:
    return RedisBackupStatus(phase=phase, message=message, completion_time=ended)


@pytest.mark.parametrize("why", [UPDATE, LAST], ids=lambda why: why.word)
def test_a_backup_that_is_complete_is_all_that_is_waited_for(why: Precaution) -> None:
    done = status(BackupPhase.COMPLETED)
    assert precaution_limitation(why, "b", done, has_schedule=False) is None
    for phase in (None, BackupPhase.PENDING, BackupPhase.RUNNING):
        text = precaution_limitation(why, "b", status(phase, "slots move"), has_schedule=True)
        assert text is not None
        assert "RedisBackup b" in text
        assert "slots move" in text
        assert why.field in text


@pytest.mark.parametrize("why", [UPDATE, LAST], ids=lambda why: why.word)
def test_a_backup_that_is_to_be_verified_is_waited_for_until_it_is(why: Precaution) -> None:
    """Else volumes would go, and then their only backup turn out to be damaged."""

    def limitation(word: str) -> str | None:
        done = replace(status(BackupPhase.COMPLETED), verified=word)
        return precaution_limitation(why, "b", done, has_schedule=True, verify=True)

    assert limitation("True") is None
    for word in ("", "Unknown"):
        assert "RedisBackup b is not verified yet" in str(limitation(word))
        assert why.way_out in str(limitation(word))
    assert "RedisBackup b is damaged" in str(limitation("False"))
    assert "delete it to have another one taken" in str(limitation("False"))


@pytest.mark.parametrize("why", [UPDATE, LAST], ids=lambda why: why.word)
def test_where_none_can_be_taken_the_way_out_is_named(why: Precaution) -> None:
    failed = status(BackupPhase.FAILED, "the store is full")
    text = precaution_limitation(why, "b", failed, has_schedule=True)
    assert text is not None
    assert "the store is full" in text
    assert why.way_out in text
    text = precaution_limitation(why, "b", None, has_schedule=False)
    assert text is not None
    assert "RedisBackupSchedule" in text
    assert why.way_out in text


def test_names_fit_and_are_the_same_for_the_same_reason() -> None:
    assert LAST.name("cache", "0123abcd") == "cache-last-0123abcd"
    assert len(LAST.name("a" * 40, "0123abcd")) <= 50
    assert len(update_name(Metadata(name="a" * 40, uid="0123abcd-0", generation=99999))) <= 50


def test_the_backup_of_an_earlier_database_of_the_same_name_is_not_that_of_this_one() -> None:
    """Generations begin again with each: an update would go ahead without any backup."""
    earlier = Metadata(name="cache", uid="0123abcd-0", generation=2)
    assert update_name(earlier) == "cache-before-0123abcd-2"
    assert update_name(earlier) != update_name(replace(earlier, uid="4567cdef-0"))
    assert update_name(earlier) != update_name(replace(earlier, generation=3))


def test_the_last_backup_of_a_database_is_left_alone_by_retention() -> None:
    """A new database of the same name has backups of its own, which would push it out."""
    schedule = msgspec.convert(
        {
            "metadata": {"namespace": "ns", "name": "nightly", "uid": "u"},
            "spec": {
                "redis": "cache",
                "schedule": "0 3 * * *",
                "template": {"storage": {"claim": {"name": "backups"}}},
            },
        },
        RedisBackupSchedule,
    )
    last = precaution_backup(LAST, schedule, "cache-last")
    assert last["metadata"]["annotations"] == {KEEP_ANNOTATION: "true"}
    assert "annotations" not in precaution_backup(UPDATE, schedule, "cache-before")["metadata"]


def test_a_database_is_backed_up_while_its_newest_backup_is_good() -> None:
    assert backed_up({}).reason == "NoBackup"
    good = status(BackupPhase.COMPLETED, ended="2026-01-02T00:00:00Z")
    before = status(BackupPhase.FAILED, "no", "2026-01-01T00:00:00Z")
    after = status(BackupPhase.FAILED, "full", "2026-01-03T00:00:00Z")
    running = status(BackupPhase.RUNNING)
    fine = backed_up({"b": good, "a": before, "c": running})
    assert (fine.status, fine.reason) == ("True", "BackupCompleted")
    wrong = backed_up({"b": good, "c": after})
    assert (wrong.status, wrong.reason) == ("False", "BackupFailed")
    assert "full" in wrong.message
    assert "b of 2026-01-02" in wrong.message
