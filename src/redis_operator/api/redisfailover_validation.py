"""From a raw object to a `RedisFailover`, or to everything that is wrong with it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from .redisfailover import RedisFailover, RedisFailoverSpec, RedisFailoverStatus
from .redisfailover_rules import (
    EVEN_SENTINELS,
    FEW_SENTINELS,
    LARGE_QUORUM,
    NO_REPLICA,
    REFUSED,
)
from .schema import Schema, schema_of
from .shape import Problem
from .unbuilt import unbuilt_in
from .validation import shape, without_null

__all__ = ["load_redisfailover", "load_redisfailover_status", "redisfailover_schema"]


@lru_cache(maxsize=1)
def redisfailover_schema() -> Schema:
    """Return the schema of the kind."""
    return schema_of(RedisFailover)


def load_redisfailover(raw: dict[str, Any]) -> RedisFailover | tuple[Problem, ...]:
    """Return what an object describes, or every problem that it has on its own."""
    found = sorted(set(shape(raw, redisfailover_schema())))
    if found:
        return tuple(found)
    kept = {name: without_null(raw.get(name) or {}) for name in ("metadata", "spec")}
    try:
        loaded = msgspec.convert(kept, RedisFailover, strict=True)
    except msgspec.ValidationError as error:
        return (Problem("spec", f"cannot be read: {error}"),)
    problems = [
        Problem(f"spec.{row.path}", row.message) for row in unbuilt_in(kept["spec"], REFUSED)
    ]
    problems += _problems(loaded.spec)
    return tuple(sorted(problems)) if problems else loaded


def _problems(spec: RedisFailoverSpec) -> Iterator[Problem]:
    if spec.redis.replicas < 2:
        yield Problem("spec.redis.replicas", NO_REPLICA)
    sentinel = spec.sentinel
    if sentinel.replicas < 3:
        yield Problem("spec.sentinel.replicas", FEW_SENTINELS)
    if sentinel.quorum is None:
        return
    if sentinel.quorum > sentinel.replicas:
        yield Problem("spec.sentinel.quorum", LARGE_QUORUM)
    if sentinel.replicas % 2 == 0 and sentinel.quorum * 2 <= sentinel.replicas:
        yield Problem("spec.sentinel.quorum", EVEN_SENTINELS)


def load_redisfailover_status(raw: dict[str, Any]) -> RedisFailoverStatus:
    """Return the recorded status, also where the spec is invalid; empty when it cannot be read."""
    status = raw.get("status")
    try:
        return msgspec.convert(without_null(status or {}), RedisFailoverStatus)
    except msgspec.ValidationError:
        return RedisFailoverStatus()
