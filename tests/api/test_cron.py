"""When a schedule is due: also where clocks jump, and never where no day is like that."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from redis_operator.api.cron import Cron, read_cron
from redis_operator.api.redisbackupschedule import RedisBackupSchedule
from redis_operator.api.redisbackupschedule_validation import load_schedule


def cron(expression: str, zone: str = "UTC") -> Cron:
    found = read_cron(expression, zone)
    assert isinstance(found, Cron), found
    return found


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        ("0 3 * * *", "UTC", "2026-01-05T03:00:00Z", "2026-01-06T03:00:00Z"),
        ("0 3 * * *", "Europe/Berlin", "2026-01-05T03:00:00Z", "2026-01-06T02:00:00Z"),
        ("0 3 * * *", "Europe/Berlin", "2026-07-05T03:00:00Z", "2026-07-06T01:00:00Z"),
        # 02:30 is left out on 29 March in Berlin: it runs right after
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
        # and comes twice on 25 October: it runs once
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"),
        ("@daily", "Asia/Tokyo", "2026-01-05T03:00:00Z", "2026-01-05T15:00:00Z"),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("0 0 30 2 1", "UTC", "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z"),
    ],
)
def test_the_next_time(expression: str, zone: str, after: str, expected: str) -> None:
    assert cron(expression, zone).after(at(after)) == at(expected)


def test_the_last_time_may_be_now() -> None:
    daily = cron("0 3 * * *")
    assert daily.until(at("2026-01-05T03:00:00Z")) == at("2026-01-05T03:00:00Z")
    assert daily.until(at("2026-01-05T02:59:59Z")) == at("2026-01-04T03:00:00Z")
    assert daily.until(at("2026-01-05T03:00:00.5Z")) == at("2026-01-05T03:00:00Z")


@pytest.mark.parametrize(
    ("expression", "zone", "path"),
    [
        ("0 3 30 2 *", "UTC", "spec.schedule"),
        ("0 3 31 4,6,9,11 *", "UTC", "spec.schedule"),
        ("61 3 * * *", "UTC", "spec.schedule"),
        ("0 3 * *", "UTC", "spec.schedule"),
        ("0 0 3 * * *", "UTC", "spec.schedule"),
        ("@often", "UTC", "spec.schedule"),
        ("0 3 * * *", "Europe", "spec.timeZone"),
        ("0 3 * * *", "Europe/Atlantis", "spec.timeZone"),
        ("0 3 * * *", "../../etc/passwd", "spec.timeZone"),
        ("0 3 * * *", "", "spec.timeZone"),
    ],
)
def test_what_is_never_due_is_refused_with_its_field(expression: str, zone: str, path: str) -> None:
    found = read_cron(expression, zone)
    assert not isinstance(found, Cron)
    assert [problem.path for problem in found] == [path]


@pytest.mark.parametrize("name", ["backup-schedule.yaml", "backup-archive.yaml"])
def test_the_example_is_valid(name: str) -> None:
    text = (Path(__file__).parents[2] / "examples" / name).read_text()
    [*_, document] = yaml.safe_load_all(text)
    assert isinstance(load_schedule(document), RedisBackupSchedule)


_MOMENTS = st.integers(1_700_000_000, 1_900_000_000).map(lambda s: datetime.fromtimestamp(s, UTC))
_CRONS = st.sampled_from(["* * * * *", "*/7 * * * *", "30 2 * * *", "15 */3 * * 1", "0 1 1 * *"])
_ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe"])


@settings(max_examples=200, deadline=None)
@given(_CRONS, _ZONES, _MOMENTS)
def test_the_last_time_and_the_next_have_nothing_between(
    expression: str, zone: str, moment: datetime
) -> None:
    found = cron(expression, zone)
    last, following = found.until(moment), found.after(moment)
    assert last <= moment < following
    assert found.after(last) == following
