"""From a raw object to a `Redis` value, or to everything that is wrong with it. Pure and total.

Whatever an object contains, `load` returns: no spec can stop the operator. The rules that CEL
checks at admission are checked here again in Python, together with those that CEL cannot express.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any

import msgspec

from redis_operator.redis.config import is_known, is_measured, limitation
from redis_operator.redis.values import ALIASES, value_problem
from redis_operator.redis.versions import Version, parse_version, support_limitation

from .backup_storage import is_one_store
from .describe import RESERVED_ENDING
from .describe_redisbackup import ONE_STORE
from .exporter_rules import exporter_field_problems
from .pod_rules import pod_problems
from .quantity import parse_quantity
from .redis import BootstrapFromBackup, Mode, Persistence, Redis, RedisSpec, Resources
from .rules import (
    KEYS_OF_STORAGE,
    LOOPBACK,
    MODE_CHANGE,
    MOMENT_OF_ARCHIVE,
    NAME_OR_STORAGE,
    NO_CLUSTER_SOURCE,
    ONE_MOMENT,
    ONE_ORIGIN,
    OWN_POD,
    PATH_OF_STORAGE,
    SAVE_POINTS,
)
from .schema import Schema, schema_of
from .shape import Problem, shape_problems
from .status import RedisStatus
from .unbuilt import unbuilt_in

__all__ = [
    "MINIMUM_MEMORY",
    "Problem",
    "change_problems",
    "config_problems",
    "load",
    "load_status",
    "origin_problems",
    "problems",
    "shape",
    "without_null",
]

MINIMUM_MEMORY = 96 * 2**20
"""The memory that a server needs before it holds any data; with less it could only be killed."""


_ENDING = re.compile(RESERVED_ENDING.removesuffix("$") + r"\Z")
_SAVE_POINTS = re.compile(SAVE_POINTS.removesuffix("$") + r"\Z", re.ASCII)


@lru_cache(maxsize=1)
def _schema() -> Schema:
    return schema_of(Redis)


def load(raw: dict[str, Any]) -> Redis | tuple[Problem, ...]:
    """Return the database that an object describes, or every problem, in order of their paths."""
    found = sorted(set(shape(raw, _schema())))
    if found:
        return tuple(found)
    try:
        redis = msgspec.convert(_with_defaults(raw), Redis, strict=True)
    except msgspec.ValidationError as error:
        return (Problem("spec", f"cannot be read: {error}"),)
    found = sorted(set(problems(redis, raw)))
    return tuple(found) if found else redis


def shape(raw: dict[str, Any], schema: Schema) -> Iterator[Problem]:
    """Return every way in which the metadata and the spec of an object do not match its schema."""
    properties = schema["properties"]
    metadata, spec = raw.get("metadata"), raw.get("spec")
    if not isinstance(spec, dict):
        yield Problem("spec", "is required")
        return
    try:
        msgspec.json.encode(spec)
    except (UnicodeEncodeError, OverflowError, TypeError, RecursionError) as error:
        yield Problem("spec", f"contains a value that is not JSON: {error}")
        return
    yield from shape_problems(properties["metadata"], metadata or {}, "metadata")
    yield from shape_problems(properties["spec"], spec, "spec")


def _with_defaults(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the object without null values, and with the default that depends on the mode."""
    spec = without_null(raw["spec"])
    if spec.get("mode") == Mode.STANDALONE.value:
        spec.setdefault("replicas", 0)
    kept = {"metadata": without_null(raw.get("metadata") or {}), "spec": spec}
    status = _readable_status(raw)
    if status is not None:
        kept["status"] = status
    return kept


def _readable_status(raw: dict[str, Any]) -> dict[str, Any] | None:
    status = raw.get("status")
    if not isinstance(status, dict):
        return None
    if any(shape_problems(_schema()["properties"]["status"], status, "")):
        return None
    found: dict[str, Any] = without_null(status)
    return found


def load_status(raw: dict[str, Any]) -> RedisStatus:
    """Return the recorded status, also where the spec is invalid; empty when it cannot be read."""
    try:
        return msgspec.convert(_readable_status(raw) or {}, RedisStatus)
    except msgspec.ValidationError:
        return RedisStatus()


def without_null(value: Any) -> Any:
    """Return the value without members that are null."""
    if isinstance(value, dict):
        return {name: without_null(member) for name, member in value.items() if member is not None}
    return value


def problems(redis: Redis, raw: dict[str, Any]) -> Iterator[Problem]:
    """Return every problem of a well-formed object on its own; `raw` shows which fields were
    set."""
    yield from _name_problems(redis)
    for row in unbuilt_in(raw["spec"]):
        yield Problem(f"spec.{row.path}", row.message)
    for check in _CHECKS:
        yield from check(redis.spec)
    yield from pod_problems(redis.spec)


def _name_problems(redis: Redis) -> Iterator[Problem]:
    if _ENDING.search(redis.metadata.name):
        yield Problem(
            "metadata.name",
            "a database must not have the name of an object of another one; "
            "choose a name without this ending",
        )


def _topology(spec: RedisSpec) -> Iterator[Problem]:
    if spec.image and not spec.version:
        yield Problem("spec.version", "spec.image needs it: what a server can do depends on it")
    if spec.mode is Mode.CLUSTER and spec.shards < 3:
        yield Problem("spec.shards", "mode Cluster needs at least 3 shards")
    if spec.mode is not Mode.CLUSTER and spec.shards != 1:
        yield Problem("spec.shards", "only mode Cluster has shards")
    if spec.mode is Mode.STANDALONE and spec.replicas != 0:
        yield Problem("spec.replicas", "mode Standalone has no replicas; use mode Failover")
    if spec.mode is Mode.FAILOVER and spec.replicas < 1:
        yield Problem(
            "spec.replicas", "mode Failover needs at least 1 replica; or use mode Standalone"
        )
    if spec.mode is not Mode.CLUSTER and spec.update.parallel_shards != 1:
        yield Problem("spec.update.parallelShards", "only mode Cluster has shards")


def _source(spec: RedisSpec) -> Iterator[Problem]:
    source, backup = spec.bootstrap.from_redis, spec.bootstrap.from_backup
    if backup is not None:
        yield from origin_problems(backup, "spec.bootstrap.fromBackup")
    if backup is not None and source is not None:
        yield Problem("spec.bootstrap.fromBackup", ONE_ORIGIN)
    if source is None:
        return
    if spec.mode is Mode.CLUSTER:
        yield Problem("spec.bootstrap.fromRedis", NO_CLUSTER_SOURCE)
    if source.host in LOOPBACK:
        yield Problem("spec.bootstrap.fromRedis.host", OWN_POD)


def origin_problems(asked: BootstrapFromBackup, path: str) -> Iterator[Problem]:
    """Return the problems of the field that names the backup to restore."""
    storage = asked.storage
    if sum((bool(asked.name), bool(asked.schedule), storage is not None)) != 1:
        yield Problem(path, NAME_OR_STORAGE)
    if bool(asked.path) != (storage is not None):
        yield Problem(f"{path}.path", PATH_OF_STORAGE)
    if asked.encryption is not None and storage is None:
        yield Problem(f"{path}.encryption", KEYS_OF_STORAGE)
    if storage is not None and not is_one_store(storage):
        yield Problem(f"{path}.storage", ONE_STORE)
    for field, value in (("at", asked.at), ("restorePoint", asked.restore_point)):
        if value and asked.name:
            yield Problem(f"{path}.{field}", MOMENT_OF_ARCHIVE)
    if asked.at and asked.restore_point:
        yield Problem(f"{path}.restorePoint", ONE_MOMENT)
    if asked.at and not _is_time(asked.at):
        yield Problem(f"{path}.at", f"{asked.at} is not a time that exists")


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _sentinels(spec: RedisSpec) -> Iterator[Problem]:
    sentinel = spec.sentinel
    if sentinel is None:
        return
    if spec.mode is not Mode.FAILOVER:
        yield Problem("spec.sentinel", "only mode Failover has Sentinels")
    if sentinel.replicas % 2 == 0 and sentinel.agreeing * 2 <= sentinel.replicas:
        yield Problem(
            "spec.sentinel.quorum",
            "of an even number of Sentinels more than half must agree, or both halves could",
        )
    if sentinel.agreeing > sentinel.replicas:
        yield Problem("spec.sentinel.quorum", "may not be more than spec.sentinel.replicas")


def _durability(spec: RedisSpec) -> Iterator[Problem]:
    if spec.durability.min_replicas_to_write > spec.replicas:
        yield Problem(
            "spec.durability.minReplicasToWrite",
            "no write would ever be accepted; it may not be more than spec.replicas",
        )
    if spec.persistence is not Persistence.NONE and spec.storage is None:
        yield Problem("spec.durability.persistence", "writing to disk needs spec.storage")
    if spec.hibernate and spec.storage is None:
        yield Problem("spec.hibernate", "without spec.storage the data would be lost")
    if spec.storage is not None and not parse_quantity(spec.storage.size):
        yield Problem("spec.storage.size", "must be a size above zero, like 10Gi")
    budget = spec.disruption_budget
    if budget.max_unavailable is not None and budget.min_available is not None:
        yield Problem("spec.disruptionBudget.minAvailable", "use it or maxUnavailable, not both")


def _tls(spec: RedisSpec) -> Iterator[Problem]:
    if spec.tls is None:
        return
    ways = [bool(spec.tls.secret_name), spec.tls.issuer_ref is not None, spec.tls.self_signed]
    if sum(ways) != 1:
        yield Problem("spec.tls", "use one of secretName, issuerRef and selfSigned")


def _version(spec: RedisSpec) -> Iterator[Problem]:
    if not spec.version:
        return
    version = parse_version(spec.engine.value, spec.version)
    if version is None:
        yield Problem("spec.version", "must look like 9.1")
        return
    reason = support_limitation(version)
    if reason is not None:
        yield Problem("spec.version", reason)


def _config(spec: RedisSpec) -> Iterator[Problem]:
    version = parse_version(spec.engine.value, spec.version) if spec.version else None
    yield from config_problems(spec, version)


def config_problems(spec: RedisSpec, version: Version | None) -> Iterator[Problem]:
    """Return the problems of `spec.config` for a version; None: the version is not chosen yet."""
    for name in spec.config:
        reason = limitation(name)
        if reason is None and spec.mode is not Mode.CLUSTER and name.startswith("cluster-"):
            reason = "is for mode Cluster; remove it"
        if reason is None and spec.mode is Mode.FAILOVER and name in _PRIORITIES:
            reason = "may not be set in mode Failover: the operator sets it"
        if reason is None and name != name.lower():
            reason = "names of directives are written in lower case"
        if reason is None and version is not None and not is_known(name, version):
            reason = f"is not a directive of {version.engine} {version.major}.{version.minor}"
        if reason is None:
            measured = version is not None and is_measured(version)
            reason = value_problem(name, str(spec.config[name]), measured=measured)
        if reason is None and ALIASES.get(name, name) in spec.config.keys() - {name}:
            reason = f"is another name of {ALIASES[name]}; set one of them"
        if reason is not None:
            yield Problem(f"spec.config.{name}", reason)
    yield from _save(spec)


def _save(spec: RedisSpec) -> Iterator[Problem]:
    """Refuse a database that asks for snapshots but would never write one."""
    if "save" not in spec.config:
        return
    if spec.persistence not in (Persistence.RDB, Persistence.BOTH):
        yield Problem("spec.config.save", "needs spec.durability.persistence rdb or both")
    if not _SAVE_POINTS.match(str(spec.config["save"])):
        yield Problem(
            "spec.config.save",
            "must be pairs of seconds and changes, like 900 1 300 10; "
            "to save nothing, use spec.durability.persistence",
        )


def _amounts(resources: Resources, path: str) -> Iterator[Problem]:
    """Return every problem of requests and limits, of any container."""
    for name, asked in resources.requests.items():
        low = parse_quantity(asked)
        high = parse_quantity(resources.limits.get(name, asked))
        if low is not None and high is not None and low > high:
            yield Problem(f"{path}.requests.{name}", "is more than the limit")
    for place, amounts in (("limits", resources.limits), ("requests", resources.requests)):
        for name in amounts:
            if (
                "/" not in name
                and name not in _RESOURCE_NAMES
                and not name.startswith("hugepages-")
            ):
                yield Problem(f"{path}.{place}.{name}", "use cpu, memory or ephemeral-storage")


def _resources(spec: RedisSpec) -> Iterator[Problem]:
    yield from _amounts(spec.resources, "spec.resources")
    if spec.sentinel is not None:
        yield from _amounts(spec.sentinel.resources, "spec.sentinel.resources")
        exporter = spec.sentinel.exporter
        yield from _amounts(exporter.resources, "spec.sentinel.exporter.resources")
    yield from _amounts(spec.monitoring.exporter_resources, "spec.monitoring.exporterResources")
    limits = spec.resources.limits
    if spec.maxmemory_percent is not None and "memory" not in limits:
        yield Problem(
            "spec.maxmemoryPercent", "needs spec.resources.limits.memory: it is a percentage of it"
        )
    if spec.maxmemory_percent is not None and "maxmemory" in spec.config:
        yield Problem("spec.maxmemoryPercent", "spec.config.maxmemory sets it too; set one of them")
    memory = parse_quantity(limits.get("memory", ""))
    if memory is not None and memory < MINIMUM_MEMORY:
        yield Problem(
            "spec.resources.limits.memory",
            f"must be at least {MINIMUM_MEMORY // 2**20}Mi: less leaves no room for data",
        )


_PRIORITIES = frozenset({"replica-priority", "slave-priority"})
_RESOURCE_NAMES = frozenset({"cpu", "memory", "ephemeral-storage"})
_CHECKS: tuple[Callable[[RedisSpec], Iterator[Problem]], ...] = (
    _topology,
    _source,
    _sentinels,
    _durability,
    _tls,
    _version,
    _config,
    _resources,
    exporter_field_problems,
)


def change_problems(old: RedisSpec, new: RedisSpec) -> tuple[Problem, ...]:
    """Return why one spec cannot replace another: the CEL rules that compare with the old
    object."""
    return tuple(sorted(_changes(old, new)))


def _changes(old: RedisSpec, new: RedisSpec) -> Iterator[Problem]:
    if old.mode is not new.mode and Mode.CLUSTER in (old.mode, new.mode):
        yield Problem("spec.mode", MODE_CHANGE)
    if (old.storage is None) != (new.storage is None):
        yield Problem("spec.storage", "cannot be added to or removed from a database that exists")
    if old.storage is None or new.storage is None:
        return
    if old.storage.class_name != new.storage.class_name:
        yield Problem("spec.storage.className", "the class of existing volumes cannot be changed")
    if old.storage.access_modes != new.storage.access_modes:
        yield Problem("spec.storage.accessModes", "those of existing volumes cannot be changed")
    before, after = (
        parse_quantity(size) or Fraction(0) for size in (old.storage.size, new.storage.size)
    )
    if after < before:
        yield Problem("spec.storage.size", f"volumes cannot shrink; it was {old.storage.size}")
