"""`RedisVersion`, a catalog entry: which image runs a version, and the entries built in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct, field

from .metadata import Metadata
from .redis import Engine, RedisSpec, SentinelExporter
from .shape import Problem

__all__ = [
    "CATALOG",
    "RedisVersion",
    "RedisVersionSpec",
    "exporter_problems",
    "find_version",
    "read_entry",
]


class RedisVersionSpec(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One version of one engine."""

    engine: Engine
    version: str
    image: str
    exporter_image: str = ""
    deprecated: bool = False
    minimum_patch: str = ""


class RedisVersion(Struct, frozen=True, rename="camel"):
    """One version as an object of the cluster."""

    spec: RedisVersionSpec
    metadata: Metadata = field(default_factory=Metadata)
    api_version: str = "redisoperator.dev/v1"
    kind: str = "RedisVersion"


_EXPORTER = "oliver006/redis_exporter:v1.74.0"


def _entry(
    engine: Engine, version: str, minimum: str = "", *, deprecated: bool = False
) -> RedisVersionSpec:
    image = "valkey/valkey" if engine is Engine.VALKEY else "redis"
    return RedisVersionSpec(
        engine,
        version,
        f"{image}:{version}",
        _EXPORTER,
        deprecated=deprecated,
        minimum_patch=minimum,
    )


CATALOG: tuple[RedisVersionSpec, ...] = (
    _entry(Engine.VALKEY, "9.1"),
    _entry(Engine.VALKEY, "9.0"),
    _entry(Engine.VALKEY, "8.1", "8.1.4"),
    _entry(Engine.VALKEY, "8.0", "8.0.6"),
    _entry(Engine.VALKEY, "7.2", "7.2.11"),
    _entry(Engine.REDIS, "8.6"),
    _entry(Engine.REDIS, "8.4"),
    _entry(Engine.REDIS, "8.2", "8.2.2"),
    _entry(Engine.REDIS, "8.0", "8.0.4"),
    _entry(Engine.REDIS, "7.4", "7.4.6"),
    _entry(Engine.REDIS, "7.2", "7.2.11"),
    _entry(Engine.REDIS, "7.0", deprecated=True),
    _entry(Engine.REDIS, "6.2", "6.2.20"),
)
"""The entries that need no RedisVersion object; the first of an engine is its default.

The oldest safe patch level is the first that has neither a known fault which loses data nor
CVE-2025-49844: before it, an application that may run scripts can take over the server. Redis 7.0
never got that fix, and is no longer maintained.
"""


def find_version(
    spec: RedisSpec, entries: Iterable[RedisVersionSpec] = (), *, chosen: str = ""
) -> RedisVersionSpec | str:
    """Return the entry that a database runs on, or the reason why there is none.

    `entries` are those of the cluster and take precedence over the built-in ones. `chosen` is the
    version of the spec's engine that this database was created with: where the spec names none, it
    stays. Only a new database gets the default, which is never a deprecated one. IN-29
    """
    own = sorted(entries, key=lambda entry: _numbers(entry.version), reverse=True)
    known = [entry for entry in (*own, *CATALOG) if entry.engine is spec.engine]
    version = spec.version or chosen
    if version:
        found = next((entry for entry in known if entry.version == version), None)
    else:
        found = next((entry for entry in known if not entry.deprecated), None)
    if found is not None:
        return found
    if spec.image:
        return RedisVersionSpec(spec.engine, version, spec.image, _EXPORTER)
    names = ", ".join(dict.fromkeys(entry.version for entry in known))
    return (
        f"no RedisVersion describes {spec.engine.value} {version}; "
        f"use one of {names}, create a RedisVersion, or name spec.image"
    )


def read_entry(raw: dict[str, Any]) -> RedisVersionSpec | None:
    """Return the entry that an object of the cluster describes; None where it cannot be read."""
    try:
        return msgspec.convert(raw, RedisVersion).spec
    except msgspec.ValidationError:
        return None


def exporter_problems(spec: RedisSpec, entry: RedisVersionSpec) -> list[Problem]:
    """Why no exporter could run beside servers or sentinels, though one is asked for."""
    if spec.monitoring.exporter_image or entry.exporter_image:
        return []
    version = f"{entry.engine.value} {entry.version}"
    text = f"is needed: no exporter image is known for {version}"
    beside = spec.sentinel.exporter if spec.sentinel is not None else SentinelExporter()
    wanted = {
        "spec.monitoring.exporterImage": spec.monitoring.exporter,
        "spec.sentinel.exporter.image": beside.enabled and not beside.image,
    }
    return [Problem(path, text) for path, is_wanted in wanted.items() if is_wanted]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
