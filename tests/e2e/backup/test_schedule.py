"""Backups that are taken by a schedule."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.clusters import until
from e2e.standalone.conftest import Alone

pytestmark = pytest.mark.e2e

ALONE: dict[str, Any] = {"mode": "Standalone", "shards": 1, "replicas": 0}


def schedule(name: str = "often", **spec: Any) -> dict[str, Any]:
    template = {"storage": {"claim": {"name": "backups"}}}
    return {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "RedisBackupSchedule",
        "metadata": {"name": name},
        "spec": {"redis": "cache", "schedule": "* * * * *", "template": template, **spec},
    }


async def test_a_backup_is_taken_when_it_is_due(database: Any, store: Any) -> None:
    cache = Alone(await database(**ALONE))
    await cache.wait_ready()
    await cache.write(10)
    store.apply(schedule())

    async def taken() -> dict[str, Any] | None:
        status = store.get("redisbackupschedule", "often").get("status") or {}
        return status if status.get("lastSuccess") else None

    status = await until(taken, seconds=120, what="a backup of the schedule", every=0.5)
    assert status["kept"] >= 1
    backup = store.get("redisbackup", status["lastSuccess"])
    due = backup["metadata"]["annotations"]["redisoperator.dev/due"]
    stamp = "".join(character for character in due if character.isdigit())[:12]
    assert backup["metadata"]["name"] == f"often-{stamp}"
    assert backup["status"]["phase"] == "Completed"
    shown = store.cluster.kubectl("get", "rdbs", "-n", store.namespace)
    assert all(word in shown for word in ("LAST", "NEXT", "SUSPENDED", "* * * * *"))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"schedule": "0 3 30 2 *"}, ("spec.schedule", "never due")),
        ({"schedule": "0 3 * *"}, ("spec.schedule",)),
        ({"timeZone": "Europe/Atlantis"}, ("spec.timeZone", "no time zone")),
    ],
)
async def test_a_schedule_that_is_never_due_is_said_to_be(
    store: Any, spec: dict[str, Any], words: tuple[str, ...]
) -> None:
    told = store.apply(schedule("wrong", **spec), check=False)
    if "created" in told:  # no operator was asked: local mode has no webhook of its own

        async def seen() -> str:
            found = store.get("redisbackupschedule", "wrong").get("status") or {}
            return str(found.get("message", ""))

        told = await until(seen, seconds=30, what="the schedule to be looked at", every=0.2)
    assert all(word in told for word in words), told
