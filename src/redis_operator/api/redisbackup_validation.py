"""From a raw object to a `RedisBackup`, or to everything that is wrong with it. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from .backup_storage import is_one_store
from .describe_redisbackup import ONE_STORE
from .quantity import parse_quantity
from .redisbackup import RedisBackup, RedisBackupStatus
from .schema import Schema, schema_of
from .shape import Problem
from .validation import shape, without_null

__all__ = ["load_redisbackup", "load_redisbackup_status"]

_SLOWEST = 64 * 1024  # a server that is read slower than this closes the connection sooner or later


@lru_cache(maxsize=1)
def _schema() -> Schema:
    return schema_of(RedisBackup)


def load_redisbackup(raw: dict[str, Any]) -> RedisBackup | tuple[Problem, ...]:
    """Return what an object describes, or every problem that it has on its own."""
    found = sorted(set(shape(raw, _schema())))
    if found:
        return tuple(found)
    kept = {name: without_null(raw.get(name) or {}) for name in ("metadata", "spec")}
    try:
        loaded = msgspec.convert(kept, RedisBackup, strict=True)
    except msgspec.ValidationError as error:
        return (Problem("spec", f"cannot be read: {error}"),)
    storage = loaded.spec.storage
    if not is_one_store(storage):
        return (Problem("spec.storage", ONE_STORE),)
    bandwidth = loaded.spec.bandwidth
    if bandwidth and (parse_quantity(bandwidth) or 0) < _SLOWEST:
        text = f"must be at least 64Ki bytes per second, and is {bandwidth}"
        return (Problem("spec.bandwidth", text),)
    return msgspec.structs.replace(loaded, status=load_redisbackup_status(raw))


def load_redisbackup_status(raw: dict[str, Any]) -> RedisBackupStatus:
    """Return the recorded status, also where the spec is invalid; empty when it cannot be read."""
    try:
        return msgspec.convert(without_null(raw.get("status") or {}), RedisBackupStatus)
    except msgspec.ValidationError:
        return RedisBackupStatus()
