"""From a raw object to a `RedisRestore`, or to everything that is wrong with it. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from .backup_storage import is_one_store
from .describe_redisbackup import ONE_STORE
from .describe_redisrestore import CONSENT
from .redisrestore import RedisRestore, RedisRestoreSpec, RedisRestoreStatus
from .schema import Schema, schema_of
from .shape import Problem
from .validation import origin_problems, shape, without_null

__all__ = ["load_redisrestore", "load_redisrestore_status"]


@lru_cache(maxsize=1)
def _schema() -> Schema:
    return schema_of(RedisRestore)


def load_redisrestore(raw: dict[str, Any]) -> RedisRestore | tuple[Problem, ...]:
    """Return what an object describes, or every problem that it has on its own."""
    found = sorted(set(shape(raw, _schema())))
    if found:
        return tuple(found)
    kept = {name: without_null(raw.get(name) or {}) for name in ("metadata", "spec")}
    try:
        loaded = msgspec.convert(kept, RedisRestore, strict=True)
    except msgspec.ValidationError as error:
        return (Problem("spec", f"cannot be read: {error}"),)
    problems = _problems(loaded.spec)
    if problems:
        return tuple(problems)
    return msgspec.structs.replace(loaded, status=load_redisrestore_status(raw))


def _problems(spec: RedisRestoreSpec) -> list[Problem]:
    found = list(origin_problems(spec.source, "spec.from"))
    storage = spec.keep.storage
    if storage is not None and not is_one_store(storage):
        found.append(Problem("spec.keep.storage", ONE_STORE))
    if spec.discard is None or spec.discard.database != spec.redis:
        found.append(Problem("spec.discard", CONSENT))
    return found


def load_redisrestore_status(raw: dict[str, Any]) -> RedisRestoreStatus:
    """Return the recorded status, also where the spec is invalid; empty when it cannot be read."""
    try:
        return msgspec.convert(without_null(raw.get("status") or {}), RedisRestoreStatus)
    except msgspec.ValidationError:
        return RedisRestoreStatus()
