"""What must be true right before a worker may replace the data of a database. Pure.

Everything is read live from the API: a cache that does not have the last write of this operator,
or of another one, would have data dropped twice.
"""

from __future__ import annotations

from typing import Any

import msgspec

from redis_operator.api.redisrestore import KEPT_LABEL, RedisRestore
from redis_operator.api.redisrestore_validation import load_redisrestore_status
from redis_operator.api.validation import load_status

from .origins import Origin
from .schedules import KEEP_ANNOTATION

__all__ = ["kept_backup", "start_limitation"]


def kept_backup(restore: RedisRestore, origin: Origin) -> dict[str, Any]:
    """Return the backup of the present data. It has no owner, and no retention deletes it."""
    meta, keep = restore.metadata, restore.spec.keep
    storage = keep.storage or origin.storage
    encryption = keep.encryption or (origin.encryption if keep.storage is None else None)
    spec: dict[str, Any] = {
        "redis": restore.spec.redis,
        "storage": msgspec.to_builtins(storage),
        "verify": keep.verify,
    }
    if encryption is not None:
        spec["encryption"] = msgspec.to_builtins(encryption)
    return {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "RedisBackup",
        "metadata": {
            "namespace": meta.namespace,
            "name": restore.status.kept,
            "labels": {KEPT_LABEL: meta.uid},
            "annotations": {KEEP_ANNOTATION: "true"},
        },
        "spec": spec,
    }


def start_limitation(
    restore: RedisRestore, *, mine: dict[str, Any], kept: dict[str, Any], redis: dict[str, Any]
) -> str | None:
    """Why a worker may not have the database drop what it has, or None."""
    meta, decided = restore.metadata, restore.status
    found = load_redisrestore_status(mine)
    if mine["metadata"]["uid"] != meta.uid:
        return f"RedisRestore {meta.name} is another one now"
    if (found.phase, found.attempt) != (decided.phase, decided.attempt):
        return f"RedisRestore {meta.name} is further than this operator knew"
    if not found.kept_uid or kept["metadata"]["uid"] != found.kept_uid:
        return f"RedisBackup {decided.kept} is not the one that was taken of the present data"
    if kept["metadata"].get("deletionTimestamp"):
        return f"RedisBackup {decided.kept} of the present data is being deleted"
    if (kept.get("status") or {}).get("phase") != "Completed":
        return f"RedisBackup {decided.kept} is not complete"
    restoring = load_status(redis).restoring
    if redis["metadata"]["uid"] != found.database or restoring is None or restoring.uid != meta.uid:
        return f"Redis {restore.spec.redis} does not say that it is closed for this restore"
    if not (restoring.closed and restoring.replacing):
        return f"Redis {restore.spec.redis} does not say yet that clients cannot connect"
    return None
