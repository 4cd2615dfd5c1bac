"""What is done about a schedule of backups, decided by what is there: tables and properties."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redis_operator.api.cron import Cron, read_cron
from redis_operator.api.metadata import Condition, Metadata
from redis_operator.api.redisbackup import BackupPhase, RedisBackup, RedisBackupStatus
from redis_operator.api.redisbackup_validation import load_redisbackup
from redis_operator.api.redisbackupschedule import BackupRetention, RedisBackupSchedule
from redis_operator.api.redisbackupschedule_validation import load_schedule
from redis_operator.planning.backups.retention import Taken, surplus
from redis_operator.planning.backups.schedules import (
    DUE_ANNOTATION,
    KEEP_ANNOTATION,
    Scheduled,
    SchedulePlan,
    backup_of,
    is_good,
    plan_schedule,
)

NOW = datetime(2026, 1, 5, 12, 0, 30, tzinfo=UTC)
CREATED = "2026-01-01T00:00:00Z"


def schedule(status: dict[str, Any] | None = None, **spec: Any) -> RedisBackupSchedule:
    raw = {
        "metadata": {
            "namespace": "ns",
            "name": "nightly",
            "uid": "u-1",
            "generation": 1,
            "creationTimestamp": CREATED,
        },
        "spec": {
            "redis": "cache",
            "schedule": "0 3 * * *",
            "template": {"storage": {"claim": {"name": "backups"}}},
            **spec,
        },
        "status": status or {},
    }
    found = load_schedule(raw)
    assert isinstance(found, RedisBackupSchedule), found
    return found


def text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def taken(
    name: str, days: float = 1.0, phase: BackupPhase | None = BackupPhase.COMPLETED, **more: Any
) -> Scheduled:
    moment = NOW - timedelta(days=days)
    notes = {DUE_ANNOTATION: text(moment), **more.pop("annotations", {})}
    ended = phase in (BackupPhase.COMPLETED, BackupPhase.FAILED)
    return Scheduled(
        Metadata(name=name, creation_timestamp=text(moment), annotations=notes, **more),
        RedisBackupStatus(phase=phase, completion_time=text(moment) if ended else ""),
    )


def decide(
    what: RedisBackupSchedule,
    *backups: Scheduled,
    now: datetime = NOW,
    in_use: frozenset[str] = frozenset(),
) -> SchedulePlan:
    cron = read_cron(what.spec.schedule, what.spec.time_zone)
    assert isinstance(cron, Cron)
    return plan_schedule(what, cron, backups, in_use=in_use, now=now)


def told(plan: SchedulePlan, **spec: Any) -> RedisBackupSchedule:
    """Return the schedule as the next pass sees it."""
    return schedule(msgspec.to_builtins(plan.status), **spec)


def reason(plan: SchedulePlan) -> str:
    return next(c.reason for c in plan.status.conditions if c.type == "Scheduled")


def test_of_several_times_that_were_missed_the_last_is_made_up_once() -> None:
    plan = decide(schedule())
    assert plan.create is not None
    assert plan.create.name == "nightly-202601050300"
    assert plan.status.next_time == "2026-01-06T03:00:00Z"
    assert plan.again == pytest.approx(14 * 3600 + 59 * 60 + 30)
    after = decide(told(plan))
    assert after.create is None
    assert reason(after) == "Scheduled"


def test_nothing_is_due_before_the_schedule_was_there() -> None:
    plan = decide(schedule(), now=datetime(2026, 1, 1, 2, 0, tzinfo=UTC))
    assert plan.create is None


def test_an_operator_that_died_before_it_said_so_creates_no_second_one() -> None:
    first = decide(schedule())
    assert first.create is not None
    made = taken(first.create.name, 0, None)
    made = msgspec.structs.replace(
        made,
        metadata=msgspec.structs.replace(
            made.metadata, annotations={DUE_ANNOTATION: text(first.create.time)}
        ),
    )
    again = decide(schedule(), made, now=NOW + timedelta(minutes=1))
    assert (again.create, again.delete) == (None, ())
    # also while that one is being deleted
    going = msgspec.structs.replace(
        made, metadata=msgspec.structs.replace(made.metadata, deletion_timestamp=text(NOW))
    )
    assert decide(schedule(), going).create is None


def test_a_backup_is_what_the_template_says() -> None:
    what = schedule(template={"storage": {"s3": {"bucket": "b-1"}}, "attempts": 5})
    plan = decide(what)
    assert plan.create is not None
    made = load_redisbackup(backup_of(what, plan.create))
    assert not isinstance(made, tuple), made
    assert (made.spec.redis, made.spec.attempts) == ("cache", 5)
    assert made.metadata.labels["redisoperator.dev/schedule-uid"] == "u-1"


def test_while_it_is_suspended_nothing_is_created_and_that_is_not_made_up() -> None:
    plan = decide(schedule(suspend=True))
    assert plan.create is None
    assert reason(plan) == "Suspended"
    assert plan.status.next_time == ""
    resumed = decide(told(plan), now=NOW + timedelta(days=3))
    assert resumed.create is None
    later = decide(told(resumed), now=NOW + timedelta(days=4))
    assert later.create is not None


def test_another_schedule_does_not_begin_with_what_it_would_have_missed() -> None:
    first = decide(schedule())
    changed = decide(told(first, schedule="0 11 * * *"))
    assert changed.create is None
    assert changed.status.next_time == "2026-01-06T11:00:00Z"


@pytest.mark.parametrize(("seconds", "created"), [(3600, False), (10 * 3600, True)])
def test_what_is_too_late_is_left_out_and_said(seconds: int, created: bool) -> None:
    plan = decide(schedule(startingDeadlineSeconds=seconds))
    assert (plan.create is not None) is created
    assert (plan.missed is None) is created
    assert decide(told(plan, startingDeadlineSeconds=seconds)).missed is None


@pytest.mark.parametrize(
    ("policy", "created", "deleted"),
    [("Forbid", False, ()), ("Allow", True, ()), ("Replace", True, ("before",))],
)
def test_what_happens_while_one_is_still_running(
    policy: str, created: bool, deleted: tuple[str, ...]
) -> None:
    running = taken("before", 1, BackupPhase.RUNNING)
    plan = decide(schedule(concurrencyPolicy=policy), running)
    assert (plan.create is not None) is created
    assert plan.delete == deleted
    if policy == "Forbid":
        assert reason(plan) == "StillRunning"
        assert "before" in plan.status.message
        ended = decide(told(plan), taken("before", 1))
        assert ended.create is not None
        assert ended.create.name == "nightly-202601050300"


def test_jitter_is_the_same_each_time_and_moves_no_name() -> None:
    what = schedule(jitterSeconds=3600)
    plan = decide(what)
    start = datetime.fromisoformat(plan.status.next_time)
    assert timedelta() <= start - datetime(2026, 1, 6, 3, tzinfo=UTC) <= timedelta(hours=1)
    known = told(plan, jitterSeconds=3600)
    before = decide(known, now=start - timedelta(seconds=1))
    at = decide(known, now=start)
    assert before.create is None
    assert at.create is not None
    assert at.create.name == "nightly-202601060300"


def verified(backup: Scheduled, word: str) -> Scheduled:
    """Return a backup that is to be verified, and what is known of that."""
    status = msgspec.structs.replace(backup.status, verified=word)
    if word:
        found = Condition(type="Verified", status=word, reason="x", message="")
        status = msgspec.structs.replace(status, conditions=(found,))
    return msgspec.structs.replace(backup, status=status, verify=True)


@pytest.mark.parametrize("word", ["", "Unknown"])
def test_a_backup_that_is_not_verified_yet_does_not_push_out_the_last_that_is(word: str) -> None:
    what = schedule(retention={"keepLast": 1, "keepFailed": 0, "maxAgeDays": 1})
    known = [verified(taken(f"b-{n}", n), "True") for n in (2, 3)]
    plan = decide(what, verified(taken("b-1", 1), word), *known)
    assert plan.delete == ("b-3",)
    after = decide(what, verified(taken("b-1", 1), "True"), *known)
    assert after.delete == ("b-3", "b-2")
    damaged = decide(what, verified(taken("b-1", 1), "False"), *known)
    assert damaged.delete == ("b-3", "b-1")


def test_the_newest_verified_backup_stays_whatever_is_counted() -> None:
    """Between two weekly verifications it is the only one that is known to be whole."""
    what = schedule(retention={"keepLast": 2})
    proven = [verified(taken(f"b-{n}", n), "True") for n in (4, 11)]
    plan = decide(what, *(taken(f"b-{n}", n) for n in (1, 2, 3)), *proven)
    assert plan.delete == ("b-11", "b-3")
    aged = schedule(retention={"keepLast": 2, "maxAgeDays": 2})
    plan = decide(aged, *(taken(f"b-{n}", n) for n in (1, 2, 3)), *proven)
    assert plan.delete == ("b-11", "b-4", "b-3")  # age takes away whatever else says


def test_what_is_not_verified_any_more_is_not_kept_for_ever() -> None:
    what = schedule(retention={"keepLast": 1}, verify="Never")
    plan = decide(what, taken("b-1", 1), verified(taken("b-2", 2), "True"))
    assert plan.delete == ("b-2",)


@pytest.mark.parametrize(
    ("spec", "status", "backups", "verified"),
    [
        ({}, {}, [], True),
        ({}, {}, [("b-7", 8, True)], True),  # of the week before: NOW is a Monday
        ({}, {}, [("b-7", 8, False), ("b-0", 0.1, False)], True),
        ({}, {}, [("b-0", 0.1, True)], False),
        ({}, {"lastVerifyTime": "2026-01-05T01:00:00Z"}, [], False),  # and deleted since
        ({}, {"lastVerifyTime": "2026-01-04T22:30:00Z"}, [], True),
        # a week of the schedule's own time zone, where it was Monday by then
        ({"timeZone": "Asia/Tokyo"}, {"lastVerifyTime": "2026-01-04T22:30:00Z"}, [], False),
        ({"verify": "Never"}, {}, [], False),
        ({"verify": "Always"}, {}, [("b-0", 0.1, True)], True),
    ],
)
def test_the_first_backup_of_a_week_is_verified(
    spec: dict[str, Any],
    status: dict[str, Any],
    backups: list[tuple[str, float, bool]],
    verified: bool,
) -> None:
    known = [msgspec.structs.replace(taken(n, d), verify=v) for n, d, v in backups]
    what = schedule({"since": CREATED, **status}, schedule="0 */2 * * *", **spec)
    plan = decide(what, *known)
    assert plan.create is not None
    assert plan.create.verify is verified
    made = load_redisbackup(backup_of(what, plan.create))
    assert isinstance(made, RedisBackup)
    assert made.spec.verify is verified
    due = text(plan.create.time)
    assert plan.status.last_verify_time == (due if verified else status.get("lastVerifyTime", ""))


@pytest.mark.parametrize(("gibibytes", "verified"), [(10, True), (11, False)])
def test_large_backups_are_verified_on_request_alone(gibibytes: int, verified: bool) -> None:
    before = taken("b-8", 8)
    sized = msgspec.structs.replace(before.status, size=gibibytes << 30)
    plan = decide(schedule(), msgspec.structs.replace(before, status=sized))
    assert plan.create is not None
    assert plan.create.verify is verified
    asked = schedule(template={"storage": {"claim": {"name": "b"}}, "verify": True})
    plan = decide(asked, msgspec.structs.replace(before, status=sized))
    assert plan.create is not None
    assert plan.create.verify


def test_a_clock_that_was_ahead_does_not_end_backups() -> None:
    """Steps: a node's clock is a year ahead, a backup is taken for then, the clock is set right."""
    ahead = NOW.replace(year=2027, hour=3, minute=0, second=0)
    early = taken(f"nightly-{ahead:%Y%m%d%H%M}", annotations={DUE_ANNOTATION: text(ahead)})
    plan = decide(schedule({"lastScheduleTime": text(ahead), "since": CREATED}), early)
    assert plan.create is not None
    assert plan.create.name == "nightly-202601050300"
    assert plan.status.last_schedule_time == "2026-01-05T03:00:00Z"


def test_the_operators_clock_alone_makes_no_backup_too_old() -> None:
    """Steps: the clock jumps a year ahead, a backup is taken for then, ages are looked at."""
    rules = {"maxAgeDays": 30}
    known = [taken(f"b-{n}", n) for n in (0.5, 1, 2, 29, 31)]
    ahead = NOW + timedelta(days=365)
    jumped = decide(schedule(retention=rules), *known, now=ahead)
    assert jumped.delete == ("b-31",)
    assert jumped.create is not None
    due = {DUE_ANNOTATION: text(jumped.create.time)}
    early = taken(jumped.create.name, 0, annotations=due)  # created by the API server's clock
    assert decide(schedule(retention=rules), early, *known, now=ahead).delete == ("b-31",)


def test_backups_that_stop_being_taken_do_not_grow_too_old() -> None:
    known = [taken(f"b-{n}", n) for n in (100, 101, 131)]
    assert decide(schedule(retention={"maxAgeDays": 30}), *known).delete == ("b-131",)


def test_a_clock_that_is_a_little_behind_another_repeats_nothing() -> None:
    before = datetime(2026, 1, 5, 2, 59, 58, tzinfo=UTC)
    what = schedule({"lastScheduleTime": "2026-01-05T03:00:00Z", "since": CREATED})
    assert decide(what, now=before).create is None


def test_failed_backups_do_not_push_good_ones_out() -> None:
    failed = [taken(f"bad-{n}", n / 10, BackupPhase.FAILED) for n in range(6)]
    plan = decide(schedule(retention={"keepLast": 1}), taken("good", 9), *failed)
    assert plan.delete == ("bad-5", "bad-4", "bad-3")
    assert plan.status.last_success == "good"
    [last] = [c for c in plan.status.conditions if c.type == "LastSucceeded"]
    assert (last.status, last.reason) == ("False", "BackupFailed")


def test_what_is_in_use_or_held_stays() -> None:
    held = taken("held", 3, annotations={KEEP_ANNOTATION: "true"})
    backups = [taken("new", 1), taken("used", 2), held, taken("old", 4)]
    plan = decide(schedule(retention={"keepLast": 1}), *backups, in_use=frozenset({"used"}))
    assert plan.delete == ("old",)
    assert plan.again is not None
    assert plan.again <= 60


def test_without_rules_all_stay() -> None:
    assert decide(schedule(), *(taken(f"b-{n}", n) for n in range(50))).delete == ()


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        ({"keepLast": 2}, {0, 0.1}),
        ({"daily": 3}, {0, 1, 2}),
        ({"weekly": 2}, {0, 1}),  # NOW is a Monday
        ({"monthly": 2}, {0, 5}),
        ({"keepLast": 1, "monthly": 2}, {0, 5}),
        ({"daily": 100, "maxAgeDays": 1}, {0, 1}),
        ({"maxAgeDays": 2}, {0, 0.1, 1, 2}),
        ({"daily": 0}, {0}),
    ],
)
def test_which_stay(rules: dict[str, int], kept: set[float]) -> None:
    days = (0, 0.1, 1, 2, 5, 8, 30)
    plan = decide(schedule(retention=rules), *(taken(f"d{n}", n) for n in days))
    assert {f"d{n}" for n in days} - set(plan.delete) == {f"d{n}" for n in kept}


_DAYS = st.floats(0, 800, allow_nan=False)
_PHASES = st.sampled_from([None, *BackupPhase])
_COUNT = st.none() | st.integers(0, 5)
_RULES = st.builds(
    BackupRetention,
    keep_last=st.none() | st.integers(1, 5),
    daily=_COUNT,
    weekly=_COUNT,
    monthly=_COUNT,
    max_age_days=st.none() | st.integers(1, 100),
    keep_failed=st.integers(0, 3),
)


@settings(max_examples=300, deadline=None)
@given(
    _RULES,
    st.lists(st.tuples(_DAYS, _PHASES, st.booleans(), st.booleans()), max_size=25),
    st.sampled_from(["Forbid", "Allow"]),
)
def test_the_newest_good_one_and_whatever_is_not_over_always_stays(
    rules: BackupRetention,
    drawn: list[tuple[float, BackupPhase | None, bool, bool]],
    policy: str,
) -> None:
    backups = [
        taken(f"b-{n}", days, phase, deletion_timestamp=text(NOW) if going else None)
        for n, (days, phase, going, _) in enumerate(drawn)
    ]
    in_use = frozenset(f"b-{n}" for n, (*_, used) in enumerate(drawn) if used)
    what = schedule(concurrencyPolicy=policy, retention=msgspec.to_builtins(rules))
    plan = decide(what, *backups, in_use=in_use)
    gone = {one.name: one for one in backups if one.name in plan.delete}
    assert len(gone) == len(plan.delete)
    assert not in_use & gone.keys()
    assert all(one.has_ended and not one.metadata.is_being_deleted for one in gone.values())
    good = [one for one in backups if is_good(one.status) and not one.metadata.is_being_deleted]
    if good:
        assert max(good, key=lambda one: (one.moment, one.name)).name not in gone


@settings(max_examples=200, deadline=None)
@given(_RULES, st.lists(_DAYS, unique=True, max_size=30))
def test_deleting_once_is_enough(rules: BackupRetention, days: list[float]) -> None:
    moments = [NOW - timedelta(days=one) for one in days]
    backups = [Taken(f"b-{n}", moment, moment) for n, moment in enumerate(moments)]
    gone = surplus(rules, backups, now=NOW, zone=UTC)
    left = [one for one in backups if one.name not in gone]
    assert surplus(rules, left, now=NOW, zone=UTC) == ()
    assert left or not backups
