"""What is done to verify a backup, decided by what its workers said."""

from __future__ import annotations

from typing import Any

import pytest

from planning.backups.test_backups import NOW, backup, ended
from redis_operator.planning.backups.attempts import State, Worker
from redis_operator.planning.backups.verification import Verification, plan_verification

DONE: dict[str, Any] = {
    "phase": "Completed",
    "image": "valkey/valkey:9.1",
    "parts": [{"name": "shard-0"}, {"name": "shard-1"}],
}


def decide(
    *workers: Worker, status: dict[str, Any] | None = None, **spec: Any
) -> tuple[Verification, tuple[str, str]]:
    asked = backup(status or DONE, **({"verify": True} | spec))
    plan = plan_verification(asked, workers, now=NOW)
    told = [c for c in plan.status.conditions if c.type == "Verified"]
    return plan, (told[0].status, told[0].reason) if told else ("", "")


def test_a_backup_that_is_complete_is_loaded_where_that_is_asked_for() -> None:
    plan, told = decide()
    assert (plan.start, told) == (1, ("Unknown", "Verifying"))
    assert decide(verify=False)[0].start == 0
    assert decide(status={"phase": "Running"})[0].start == 0
    assert decide(status={"phase": "Failed"})[0].start == 0
    plan, told = decide(status={"phase": "Completed"})  # of a release that did not write it down
    assert (plan.start, told) == (0, ("Unknown", "NoImage"))


def test_what_a_scratch_server_counted_is_in_the_status() -> None:
    parts = ({"name": "shard-0", "keys": 2}, {"name": "shard-1", "keys": 0})
    plan, told = decide(ended(State.SUCCEEDED, keys=2, parts=parts))
    assert told == ("True", "Loaded")
    assert (plan.status.verified, plan.status.keys) == ("True", 2)
    assert [part.keys for part in plan.status.parts] == [2, 0]
    assert plan.over == "monday-backup-1"  # its scratch server goes


def test_a_damaged_backup_is_damaged_for_good_and_names_the_part() -> None:
    worker = ended(State.FAILED, error="x.zst is damaged", reason="BackupDamaged", ago=0)
    plan, told = decide(worker)
    assert told == ("False", "BackupDamaged")
    assert plan.status.conditions[-1].message == "x.zst is damaged"
    again, _ = decide(worker, status={**DONE, "conditions": [condition("False")]})
    assert (again.start, again.again) == (0, None)
    assert decide(status={**DONE, "conditions": [condition("True")]})[0].start == 0


def condition(status: str) -> dict[str, Any]:
    return {"type": "Verified", "status": status, "reason": "X", "message": ""}


@pytest.mark.parametrize("reason", ["StoreFailed", "ScratchFailed", ""])
def test_a_worker_that_fails_for_its_own_reasons_is_followed_by_another(reason: str) -> None:
    report = {"error": "no answer", "reason": reason}
    plan, told = decide(ended(State.FAILED, ago=0, **report))
    assert told == ("Unknown", reason or "WorkerFailed")
    assert (plan.start, plan.again) == (0, 10.0)
    plan, _ = decide(ended(State.FAILED, ago=60, **report))
    assert plan.start == 2
    plan, told = decide(ended(State.FAILED, 3, ago=60, **report))
    assert (plan.start, plan.again, told[0]) == (0, None, "Unknown")
    plan, told = decide(ended(State.FAILED))  # killed without a word
    assert told == ("Unknown", "WorkerFailed")


def test_a_worker_that_does_not_start_is_shown_with_its_reason() -> None:
    plan, told = decide(Worker(1, "j", State.ACTIVE, trouble="ImagePullBackOff"))
    assert (plan.start, told) == (0, ("Unknown", "WorkerWaits"))
