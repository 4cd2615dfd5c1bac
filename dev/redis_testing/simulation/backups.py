"""Backups in simulation: taken of a database that is in use, with workers that only say so."""

from __future__ import annotations

from typing import Any

import msgspec

from redis_operator.operator.world import REDIS_BACKUPS

from .scenarios import Scenario
from .summary import backups_of
from .system import DATABASE, NAMESPACE, Simulation

__all__ = ["BACKUP_SCENARIOS", "backup"]


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


BACKUP_SCENARIOS = (Scenario("a backup is taken", _take, over=_is_completed),)
