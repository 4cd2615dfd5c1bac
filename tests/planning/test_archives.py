"""The archive of a schedule: where it lies, and what is refused about it."""

from __future__ import annotations

from typing import Any

import pytest

from redis_operator.api.redisbackupschedule import RedisBackupSchedule
from redis_operator.api.redisbackupschedule_validation import load_schedule
from redis_operator.planning.archives import archive_path


def raw_schedule(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ns", "name": "nightly", "uid": "0123456789", "generation": 1},
        "spec": {
            "redis": "cache",
            "schedule": "0 3 * * *",
            "template": {"storage": {"claim": {"name": "backups"}}},
            "continuous": True,
            **spec,
        },
    }


def schedule(**spec: Any) -> RedisBackupSchedule:
    found = load_schedule(raw_schedule(**spec))
    assert isinstance(found, RedisBackupSchedule), found
    return found


@pytest.mark.parametrize(
    ("storage", "path"),
    [
        ({"claim": {"name": "b"}}, "ns/cache/nightly-01234567/archive"),
        ({"claim": {"name": "b", "path": "a/b"}}, "a/b/ns/cache/nightly-01234567/archive"),
        ({"s3": {"bucket": "b"}}, "ns/cache/nightly-01234567/archive"),
        ({"s3": {"bucket": "b", "prefix": "p"}}, "p/ns/cache/nightly-01234567/archive"),
    ],
    ids=["volume", "folder", "bucket", "prefix"],
)
def test_an_archive_has_a_folder_of_its_own(storage: dict[str, Any], path: str) -> None:
    assert archive_path(schedule(template={"storage": storage})) == path


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"continuous": "yes"}, "spec.continuous"),
        ({"archive": {"keepHours": 0}}, "spec.archive.keepHours"),
        ({"archive": {"spoolSize": "1Mi"}}, "spec.archive.spoolSize"),
        ({"archive": {"spoolSize": "much"}}, "spec.archive.spoolSize"),
    ],
    ids=str,
)
def test_what_is_refused_names_its_field(spec: dict[str, Any], field: str) -> None:
    found = load_schedule(raw_schedule(**spec))
    assert isinstance(found, tuple)
    assert [problem.path for problem in found] == [field]
