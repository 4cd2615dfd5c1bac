"""What is done about a backup that is deleted, before it may go: a table of situations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from redis_operator.api.redisbackup import RedisBackup
from redis_operator.backup.task import Report
from redis_operator.planning.backups.attempts import State, Worker
from redis_operator.planning.backups.endings import BackupEnding, plan_backup_ending

NOW = datetime(2026, 1, 5, 3, 0, tzinfo=UTC)


def backup(**spec: Any) -> RedisBackup:
    return msgspec.convert(
        {
            "metadata": {"namespace": "ns", "name": "monday", "uid": "0123456789"},
            "spec": {"redis": "cache", "storage": {"claim": {"name": "backups"}}, **spec},
            "status": {"phase": "Completed", "location": "the volume"},
        },
        RedisBackup,
    )


def decide(
    *others: Worker,
    deleting: Worker | None = None,
    pods: int = 0,
    in_use: frozenset[str] = frozenset(),
    **spec: Any,
) -> BackupEnding:
    return plan_backup_ending(backup(**spec), others, deleting, pods=pods, in_use=in_use, now=NOW)


def worker(state: State, name: str = "monday-delete", *, ago: float = 60, **more: Any) -> Worker:
    ended = NOW - timedelta(seconds=ago) if state is not State.ACTIVE else None
    return Worker(1, name, state, ended=ended, **more)


def test_a_worker_deletes_the_objects_and_then_the_backup_goes() -> None:
    assert decide().start
    assert not decide().release
    working = decide(deleting=worker(State.ACTIVE))
    assert (working.start, working.release) == (False, False)
    done = decide(deleting=worker(State.SUCCEEDED))
    assert (done.release, done.end) == (True, ("monday-delete",))


def test_objects_that_are_retained_hold_nothing_up() -> None:
    plan = decide(worker(State.ACTIVE, "monday-backup-1"), deletionPolicy="Retain", pods=1)
    assert (plan.release, plan.start, plan.end) == (True, False, ())


def test_a_worker_that_deletes_ends_where_objects_shall_stay_after_all() -> None:
    """Else it would go on once its volume is there again, and nothing would remove its Job."""
    plan = decide(deleting=worker(State.ACTIVE), deletionPolicy="Retain")
    assert (plan.release, plan.start, plan.end) == (True, False, ("monday-delete",))


@pytest.mark.parametrize(
    ("others", "pods", "ended"),
    [
        ((worker(State.ACTIVE, "monday-backup-1"),), 1, ("monday-backup-1",)),
        ((worker(State.ACTIVE, "monday-backup-1"),), 0, ("monday-backup-1",)),
        ((worker(State.SUCCEEDED, "monday-verify-1"),), 1, ("monday-verify-1",)),
        ((), 1, ()),
    ],
)
def test_nothing_is_deleted_while_a_worker_may_still_write(
    others: tuple[Worker, ...], pods: int, ended: tuple[str, ...]
) -> None:
    plan = decide(*others, pods=pods)
    assert (plan.start, plan.release, plan.end) == (False, False, ended)
    assert plan.again is not None


def test_where_the_worker_that_deletes_is_not_made_the_way_out_is_named() -> None:
    plan = decide(deleting=worker(State.ACTIVE, made=NOW - timedelta(seconds=70)))
    assert plan.status.conditions[-1].reason == "WorkerWaits"
    assert "spec.deletionPolicy to Retain" in plan.status.message
    soon = decide(deleting=worker(State.ACTIVE, made=NOW - timedelta(seconds=10)))
    assert (soon.status.conditions[-1].reason, soon.again) == ("Deleting", 50.0)


def test_a_backup_that_a_database_is_restored_from_waits_for_it() -> None:
    plan = decide(in_use=frozenset({"monday"}))
    assert (plan.start, plan.release) == (False, False)
    assert plan.status.conditions[-1].reason == "InUse"


def test_a_store_that_refuses_is_named_with_the_way_out_and_asked_again() -> None:
    told = Report(error="volume:/x: no", reason="StoreFailed")
    failed = worker(State.FAILED, ago=10, report=told)
    plan = decide(deleting=failed)
    assert (plan.start, plan.release, plan.end) == (False, False, ())
    assert plan.again == pytest.approx(20)
    assert "volume:/x: no" in plan.status.message
    assert "spec.deletionPolicy" in plan.status.message
    assert plan.status.conditions[-1].reason == "StoreFailed"
    later = decide(deleting=worker(State.FAILED, ago=31, report=told))
    assert later.end == ("monday-delete",)
    assert decide(deleting=failed, deletionPolicy="Retain").release


def test_a_pod_that_does_not_start_is_named() -> None:
    plan = decide(deleting=worker(State.ACTIVE, trouble="pod waits: no such claim"))
    assert "no such claim" in plan.status.message
    assert "Retain" in plan.status.message


def test_what_holds_a_backup_that_is_deleted_names_the_way_out() -> None:
    """A restore that never ends, or a pod on a node that never answers, holds it for ever else."""
    used = decide(in_use=frozenset({"monday"}))
    dead = decide(pods=1)
    for plan in (used, dead):
        assert "set spec.deletionPolicy to Retain" in plan.status.message
    assert "node" in dead.status.message
    assert "--force" in dead.status.message
