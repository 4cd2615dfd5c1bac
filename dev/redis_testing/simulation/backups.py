"""Backups in simulation: taken of a database that is in use, with workers that only say so."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec

from kubecontroller.client.patches import MergePatch
from redis_operator.operator.world import (
    REDIS_BACKUP_SCHEDULES,
    REDIS_BACKUPS,
    REDIS_RESTORES,
    REDISES,
)
from redis_operator.planning.backups.schedules import DUE_ANNOTATION, OWNER_LABEL, SCHEDULE_LABEL

from .scenarios import Scenario, mine
from .summary import backups_of, restores_of
from .system import DATABASE, NAMESPACE, Simulation, database

__all__ = ["BACKUP_SCENARIOS", "UPGRADE_OF_ONE", "backup"]


def backup(name: str = "monday") -> dict[str, Any]:
    """Return a backup to create."""
    return {
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {"redis": DATABASE, "storage": {"s3": {"bucket": "backups"}}},
    }


async def _take(simulation: Simulation) -> None:
    await simulation.client.create(REDIS_BACKUPS, backup())


def _is_completed(simulation: Simulation) -> bool:
    found = [msgspec.json.decode(raw) for raw in backups_of(simulation)]
    phases = [(raw.get("status") or {}).get("phase") for raw in found]
    return phases == ["Completed"]


async def _schedule(simulation: Simulation) -> None:
    """Have a backup due in a minute, after which an older one of the schedule is not kept."""
    due = simulation.now() + timedelta(seconds=60)
    made = await simulation.client.create(
        REDIS_BACKUP_SCHEDULES,
        {
            "metadata": {"namespace": NAMESPACE, "name": "yearly"},
            "spec": {
                "redis": DATABASE,
                "schedule": f"{due.minute} {due.hour} {due.day} {due.month} *",
                "template": {"storage": {"s3": {"bucket": "backups"}}},
                "retention": {"keepLast": 1},
            },
        },
    )
    older = backup("older")
    older["metadata"] |= {
        "labels": {SCHEDULE_LABEL: "yearly", OWNER_LABEL: made["metadata"]["uid"]},
        "annotations": {DUE_ANNOTATION: "2020-01-01T00:00:00Z"},
    }
    await simulation.client.create(REDIS_BACKUPS, older)


def _is_taken_and_the_older_gone(simulation: Simulation) -> bool:
    found = [msgspec.json.decode(raw) for raw in backups_of(simulation)]
    return [
        (raw["metadata"]["name"][:7], (raw.get("status") or {}).get("phase")) for raw in found
    ] == [("yearly-", "Completed")]


def _suspended() -> dict[str, Any]:
    """Return a schedule that only says where backups go."""
    return {
        "metadata": {"namespace": NAMESPACE, "name": "template"},
        "spec": {
            "redis": DATABASE,
            "schedule": "0 0 1 1 *",
            "suspend": True,
            "template": {"storage": {"s3": {"bucket": "backups"}}},
        },
    }


async def _upgrade(simulation: Simulation) -> None:
    """Have another version run, after a backup."""
    await simulation.client.create(REDIS_BACKUP_SCHEDULES, _suspended())
    spec = {"version": "8.1", "update": {"backupFirst": True}}
    await simulation.client.patch(REDISES, (NAMESPACE, DATABASE), MergePatch({"spec": spec}))


def _is_upgraded(simulation: Simulation) -> bool:
    new = all(server.version.startswith("8.1") for server in mine(simulation))
    return new and _is_completed(simulation)


async def _delete(simulation: Simulation) -> None:
    """Delete the database after a last backup."""
    await simulation.client.create(REDIS_BACKUP_SCHEDULES, _suspended())
    spec = {"deletion": {"policy": "Backup"}}
    await simulation.client.patch(REDISES, (NAMESPACE, DATABASE), MergePatch({"spec": spec}))
    await asyncio.sleep(1.0)
    await simulation.client.delete(REDISES, (NAMESPACE, DATABASE))


async def _restore(simulation: Simulation) -> None:
    """Create a database that begins with a backup of a store."""
    place = {"storage": {"s3": {"bucket": "backups"}}, "path": "ns/gone/monday"}
    wanted = database(bootstrap={"fromBackup": place})
    await simulation.client.create(REDISES, wanted)


async def _replace(simulation: Simulation) -> None:
    """Have the data of the database replaced by those of a backup of a store."""
    place = {"storage": {"s3": {"bucket": "backups"}}, "path": "ns/gone/monday"}
    spec = {"redis": DATABASE, "from": place, "discard": {"database": DATABASE}}
    metadata = {"namespace": NAMESPACE, "name": "back"}
    await simulation.client.create(REDIS_RESTORES, {"metadata": metadata, "spec": spec})


def _is_replaced(simulation: Simulation) -> bool:
    found = [msgspec.json.decode(raw) for raw in restores_of(simulation)]
    return [(raw.get("status") or {}).get("phase") for raw in found] == ["Completed"]


def _one(**spec: Any) -> dict[str, Any]:
    """Return a database of one server: what waits for a backup does so in every mode alike."""
    made = database(**spec)
    made["spec"] |= {"mode": "Standalone", "shards": 1, "replicas": 0}
    return made


BACKUP_SCENARIOS = (
    Scenario("a backup is taken", _take, over=_is_completed),
    Scenario(
        "a backup is taken by a schedule", _schedule, _is_taken_and_the_older_gone, base=_one()
    ),
    Scenario("an upgrade after a backup", _upgrade, _is_upgraded, base=database(version="8.0")),
    Scenario("a deletion after a last backup", _delete, _is_completed, goes=True),
    Scenario("a database begins with a backup", _restore, base=None, shut_out=True),
    Scenario("a backup takes the place of the data", _replace, _is_replaced, shut_out=True),
)

UPGRADE_OF_ONE = Scenario(
    "an upgrade of one server after a backup", _upgrade, _is_upgraded, base=_one(version="8.0")
)
"""The same as with a cluster, which takes eight times as long: for strikes in every run."""
