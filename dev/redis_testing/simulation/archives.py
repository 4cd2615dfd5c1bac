"""Archives in simulation: the worker of a schedule is there while it is wanted."""

from __future__ import annotations

from typing import Any

import msgspec

from kubecontroller.client.patches import MergePatch
from redis_operator.manifests.names import ARCHIVE_LABEL, POINT_LABEL
from redis_operator.operator.world import REDIS_BACKUP_SCHEDULES
from redis_operator.planning.backups.points import POINT_ANNOTATION

from .scenarios import Scenario
from .system import DATABASE, NAMESPACE, Simulation

__all__ = [
    "ARCHIVE_SCENARIOS",
    "archive_objects",
    "archiving",
    "condition",
    "restore_points",
    "schedule",
]

_NAME = "hourly"
_KINDS = ("deployments.apps", "configmaps", "pods")


def schedule(due: str = "0 0 1 1 *") -> dict[str, Any]:
    """Return a schedule that archives."""
    return {
        "metadata": {"namespace": NAMESPACE, "name": _NAME},
        "spec": {
            "redis": DATABASE,
            "schedule": due,
            "template": {"storage": {"s3": {"bucket": "backups"}}},
            "continuous": True,
        },
    }


def archive_objects(simulation: Simulation) -> list[str]:
    """Return what the archive of the schedule consists of, by kind."""
    return [
        kind
        for kind in _KINDS
        for entry in simulation.server.core.store.collection(kind).entries.values()
        if entry.labels.get(ARCHIVE_LABEL) == _NAME
    ]


def _status(simulation: Simulation) -> dict[str, Any]:
    collection = simulation.server.core.store.collection("redisbackupschedules.redisoperator.dev")
    entry = collection.entries.get(f"{NAMESPACE}/{_NAME}")
    found: dict[str, Any] = msgspec.json.decode(entry.body) if entry is not None else {}
    return found.get("status") or {}


def restore_points(simulation: Simulation) -> list[str]:
    """Return the restore points that the schedule lists, and what it says of the last request."""
    status = _status(simulation)
    asked = status.get("restorePoint") or {}
    listed = [point["name"] for point in status.get("restorePoints", ())]
    return [*listed, f"{asked['name']} {asked['phase']}"] if asked else listed


def archiving(simulation: Simulation) -> tuple[str, str]:
    """Return the state and the reason of the schedule's condition."""
    return condition(simulation, "Archiving")


def condition(simulation: Simulation, kind: str) -> tuple[str, str]:
    """Return the state and the reason of a condition of the schedule."""
    status = _status(simulation)
    found = [c for c in status.get("conditions", ()) if c["type"] == kind]
    return (found[0]["status"], found[0]["reason"]) if found else ("", "")


def _is_archived(simulation: Simulation) -> bool:
    there = sorted(archive_objects(simulation)) == sorted(_KINDS)
    return there and archiving(simulation) == ("True", "Archiving")


def _is_over(simulation: Simulation) -> bool:
    return not archive_objects(simulation) and archiving(simulation) == ("False", "TurnedOff")


async def _begin(simulation: Simulation) -> None:
    await simulation.client.create(REDIS_BACKUP_SCHEDULES, schedule())


def _is_marked(simulation: Simulation) -> bool:
    jobs = simulation.server.core.store.collection("jobs.batch").entries.values()
    over = not any(entry.labels.get(POINT_LABEL) == _NAME for entry in jobs)
    return over and restore_points(simulation) == ["release", "release Completed"]


async def _archive(simulation: Simulation) -> None:
    await _begin(simulation)

    async def archived() -> bool:
        return _is_archived(simulation)

    await simulation.until_all(archived, within=120.0, what="archived")


async def _mark(simulation: Simulation) -> None:
    await _archive(simulation)
    asked = MergePatch({"metadata": {"annotations": {POINT_ANNOTATION: "release"}}})
    await simulation.client.patch(REDIS_BACKUP_SCHEDULES, (NAMESPACE, _NAME), asked)


async def _turn_off(simulation: Simulation) -> None:
    await _archive(simulation)
    off = MergePatch({"spec": {"continuous": False}})
    await simulation.client.patch(REDIS_BACKUP_SCHEDULES, (NAMESPACE, _NAME), off)


ARCHIVE_SCENARIOS = (
    Scenario("a schedule archives", _begin, over=_is_archived),
    Scenario("an archive is turned off", _turn_off, over=_is_over),
    Scenario("a restore point is asked for", _mark, over=_is_marked),
)
