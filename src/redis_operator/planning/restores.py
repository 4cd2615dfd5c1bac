"""Whether a backup can become the content of a new database, and why not. Pure."""

from __future__ import annotations

from redis_operator.api.redisbackup import BackupPhase, RedisBackup
from redis_operator.redis.versions import Version, can_feed, parse_version

__all__ = ["restore_limitation"]

_FIRST_VALKEY_FORMAT = (9, 0)


def restore_limitation(backup: RedisBackup | None, name: str, ours: Version) -> str | None:
    """Why a backup cannot be loaded by servers of a version, or None. Nothing is touched before."""
    path = f"spec.bootstrap.fromBackup: RedisBackup {name}"
    if backup is None:
        return f"{path} does not exist in this namespace"
    status = backup.status
    if status.phase is not BackupPhase.COMPLETED:
        phase = status.phase.value if status.phase is not None else "new"
        return f"{path} is {phase}, not Completed: {status.message or 'it was not begun'}"
    theirs = parse_version(status.engine, status.version)
    if theirs is None:
        return f"{path} was written by {status.engine} {status.version}, which is not known"
    native = status.rdb.startswith("VALKEY")
    reads = ours.engine == "valkey" and (ours.major, ours.minor) >= _FIRST_VALKEY_FORMAT
    if not can_feed(theirs, ours) or (native and not reads):
        return (
            f"{path} was written by {theirs} ({status.rdb}), which {ours} cannot load; use an "
            "engine and a version that can (spec.engine, spec.version)"
        )
    return None
