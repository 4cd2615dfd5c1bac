"""Whom a worker gives the keys of a backup."""

from __future__ import annotations

from typing import Any

import pytest

from redis_operator.api.redis import Redis
from redis_operator.api.validation import load
from redis_operator.operator.backups.fillings import targets_of


def database(restore: dict[str, Any] | None) -> Redis:
    shard = {"name": "shard-0", "primary": "copy-0", "replicationId": "r"}
    formed = {"type": "Available", "status": "False", "reason": "Restoring", "message": ""}
    found = load(
        {
            "apiVersion": "redisoperator.dev/v1",
            "kind": "Redis",
            "metadata": {"namespace": "ns", "name": "copy", "uid": "u"},
            "spec": {"mode": "Standalone", "bootstrap": {"fromBackup": {"name": "monday"}}},
            "status": {
                "shards": [shard],
                "conditions": [{**formed, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                **({"restore": restore} if restore is not None else {}),
            },
        }
    )
    assert isinstance(found, Redis), found
    return found


@pytest.mark.parametrize("restore", [None, {"backup": "monday"}, {"backup": "monday", "keys": 7}])
def test_no_key_is_given_to_a_database_that_was_not_seen_empty(
    restore: dict[str, Any] | None,
) -> None:
    assert targets_of(database(restore), {"copy-0": "10.0.0.1"}) == (
        "the database was not observed empty yet"
    )


def test_an_empty_database_is_given_keys_also_after_a_worker_that_failed_in_the_middle() -> None:
    restore = {"backup": "monday", "keys": 7, "startTime": "2026-01-01T00:00:00Z"}
    [target] = targets_of(database(restore), {"copy-0": "10.0.0.1"})
    assert not isinstance(target, str)
    assert (target.pod, target.host) == ("copy-0", "10.0.0.1")
