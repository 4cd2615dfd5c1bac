"""Whether servers of a new database can load the backup to be restored."""

from __future__ import annotations

from redis_operator.redis.versions import load_limitation, parse_version

from .errors import TargetError
from .manifest import Manifest

__all__ = ["check_fit"]


def check_fit(manifest: Manifest, engine: str, version: str, field: str) -> None:
    """Raise `TargetError`, which names the field, where servers of a version cannot load it."""
    ours = parse_version(engine, version)
    if ours is None:
        return
    rdb = max(part.rdb for part in manifest.parts)
    wrong = load_limitation(manifest.engine, manifest.version, rdb, ours)
    if wrong is not None:
        raise TargetError(f"{field}: the backup {wrong}; nothing was carried")
