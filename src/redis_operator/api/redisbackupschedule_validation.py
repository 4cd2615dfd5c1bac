"""From a raw object to a `RedisBackupSchedule`, or to everything that is wrong with it. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec

from .backup_storage import is_one_store
from .cron import Cron, read_cron
from .describe_redisbackup import ONE_STORE
from .quantity import parse_quantity
from .redisbackupschedule import RedisBackupSchedule, RedisBackupScheduleStatus
from .schema import Schema, schema_of
from .shape import Problem
from .validation import shape, without_null

__all__ = ["load_schedule", "load_schedule_status", "schedule_risks"]

_SMALLEST_SPOOL: Final = 64 << 20  # segments of 16 MiB, with some beside the current one
_LONGEST_NAME: Final = 37  # a backup's name ends with the time, and has at most 50 characters


@lru_cache(maxsize=1)
def _schema() -> Schema:
    return schema_of(RedisBackupSchedule)


def load_schedule(raw: dict[str, Any]) -> RedisBackupSchedule | tuple[Problem, ...]:
    """Return what an object describes, or every problem that it has on its own."""
    found = sorted(set(shape(raw, _schema())))
    if found:
        return tuple(found)
    kept = {name: without_null(raw.get(name) or {}) for name in ("metadata", "spec")}
    try:
        loaded = msgspec.convert(kept, RedisBackupSchedule, strict=True)
    except msgspec.ValidationError as error:
        return (Problem("spec", f"cannot be read: {error}"),)
    problems = _problems(loaded)
    if problems:
        return tuple(sorted(problems))
    return msgspec.structs.replace(loaded, status=load_schedule_status(raw))


def _problems(schedule: RedisBackupSchedule) -> list[Problem]:
    spec, found = schedule.spec, []
    if len(schedule.metadata.name) > _LONGEST_NAME:
        text = f"the names of its backups contain it; use at most {_LONGEST_NAME} characters"
        found.append(Problem("metadata.name", text))
    storage = spec.template.storage
    if not is_one_store(storage):
        found.append(Problem("spec.template.storage", ONE_STORE))
    spool = spec.archive.spool_size
    if (parse_quantity(spool) or 0) < _SMALLEST_SPOOL:
        found.append(Problem("spec.archive.spoolSize", f"must be at least 64Mi, and is {spool}"))
    cron = read_cron(spec.schedule, spec.time_zone)
    return found if isinstance(cron, Cron) else [*found, *cron]


def schedule_risks(schedule: RedisBackupSchedule) -> tuple[str, ...]:
    """Return warnings: what is allowed but may surprise."""
    spec = schedule.spec
    if spec.continuous and spec.template.storage.claim is not None:
        name = spec.template.storage.claim.name
        text = (
            "spec.template.storage.claim: the worker of spec.continuous keeps the volume of "
            f"{name} mounted all the time, beside the workers of backups: it has to be "
            "ReadWriteMany, or all of them run on one node"
        )
        return (text,)
    return ()


def load_schedule_status(raw: dict[str, Any]) -> RedisBackupScheduleStatus:
    """Return the recorded status, also where the spec is invalid; empty when it cannot be read."""
    try:
        return msgspec.convert(without_null(raw.get("status") or {}), RedisBackupScheduleStatus)
    except msgspec.ValidationError:
        return RedisBackupScheduleStatus()
