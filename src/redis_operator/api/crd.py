"""The CustomResourceDefinitions, made from the types. `tools/generate.py` writes them to files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from kubecontroller.custom import Column, definition

from .redis import Redis
from .redisbackup import RedisBackup
from .redisbackupschedule import RedisBackupSchedule
from .redisfailover import RedisFailover
from .redisoperator import RedisOperator
from .redisrestore import RedisRestore
from .schema import Schema, schema_of
from .version import RedisVersion

__all__ = [
    "GROUP",
    "VERSION",
    "crds",
    "redis_crd",
    "redis_version_crd",
    "redisbackup_crd",
    "redisbackupschedule_crd",
    "redisfailover_crd",
    "redisoperator_crd",
    "redisrestore_crd",
]

GROUP = "redisoperator.dev"
VERSION = "v1"


_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")


def _crd(
    struct: type[Struct],
    *,
    plural: str,
    namespaced: bool,
    short: str,
    columns: Sequence[Column],
    scale: Mapping[str, str] | None = None,
) -> Schema:
    kind = struct.__name__
    schema = schema_of(struct)
    described: Schema = {
        "type": "object",
        "description": (struct.__doc__ or kind).split("\n", 1)[0],
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            **schema.pop("properties"),
        },
    }
    if "x-kubernetes-validations" in schema:
        described["x-kubernetes-validations"] = schema["x-kubernetes-validations"]
    return definition(
        group=GROUP,
        version=VERSION,
        kind=kind,
        plural=plural,
        namespaced=namespaced,
        schema=described,
        short_names=[short],
        categories=["all", "redis-operator"] if namespaced else ["redis-operator"],
        columns=columns,
        scale=scale,
    )


def redis_crd() -> Schema:
    """The definition of `Redis`."""
    return _crd(
        Redis,
        plural="redis",
        namespaced=True,
        short="rd",
        columns=[
            Column("Mode", ".spec.mode"),
            Column("Engine", ".spec.engine"),
            Column("Version", ".status.version"),
            Column("Shards", ".status.shardCount", "integer"),
            Column("Replicas", ".status.replicas", "integer"),
            Column("Ready", ".status.ready"),
            Column("Phase", ".status.phase"),
            _AGE,
            Column("Primary", ".status.primary", wide="Pods that are primaries"),
            Column("Slots", ".status.slots", wide="Slots that are served, of all"),
            Column("Memory", ".status.memory", wide="Memory that primaries use"),
            Column("Message", ".status.message", wide="The state in one sentence"),
        ],
        scale={
            "specReplicasPath": ".spec.shards",
            "statusReplicasPath": ".status.shardCount",
            "labelSelectorPath": ".status.selector",
        },
    )


def redis_version_crd() -> Schema:
    """The definition of `RedisVersion`."""
    return _crd(
        RedisVersion,
        plural="redisversions",
        namespaced=False,
        short="rdv",
        columns=[
            Column("Engine", ".spec.engine"),
            Column("Version", ".spec.version"),
            Column("Image", ".spec.image"),
            Column("Deprecated", ".spec.deprecated", "boolean"),
            _AGE,
        ],
    )


def redisfailover_crd() -> Schema:
    """The definition of `RedisFailover`."""
    return _crd(
        RedisFailover,
        plural="redisfailovers",
        namespaced=True,
        short="rf",
        columns=[
            Column("Redis", ".spec.redis.replicas", "integer"),
            Column("Sentinels", ".spec.sentinel.replicas", "integer"),
            Column("Ready", ".status.ready"),
            Column("Phase", ".status.phase"),
            _AGE,
            Column("Version", ".status.version", wide="Oldest version that runs"),
            Column("Primary", ".status.primary", wide="The pod of the primary"),
            Column("Message", ".status.message", wide="The state in one sentence"),
        ],
    )


def redisbackup_crd() -> Schema:
    """The definition of `RedisBackup`."""
    return _crd(
        RedisBackup,
        plural="redisbackups",
        namespaced=True,
        short="rdb",
        columns=[
            Column("Redis", ".spec.redis"),
            Column("Phase", ".status.phase"),
            Column("Shards", ".status.shards", "integer"),
            Column("Size", ".status.size", "integer"),
            Column("Stored", ".status.stored", "integer"),
            Column("Verified", ".status.verified"),
            Column("Completed", ".status.completionTime", "date"),
            _AGE,
            Column("Location", ".status.location", wide="Where it is"),
            Column("Message", ".status.message", wide="The state in one sentence"),
        ],
    )


def redisbackupschedule_crd() -> Schema:
    """The definition of `RedisBackupSchedule`."""
    return _crd(
        RedisBackupSchedule,
        plural="redisbackupschedules",
        namespaced=True,
        short="rdbs",
        columns=[
            Column("Redis", ".spec.redis"),
            Column("Schedule", ".spec.schedule"),
            Column("Suspended", ".spec.suspend", "boolean"),
            Column("Last", ".status.lastSuccessTime", "date"),
            Column("Next", ".status.nextTime"),
            Column("Kept", ".status.kept", "integer"),
            Column("Archived", ".status.window.newest", "date"),
            _AGE,
            Column("Back to", ".status.window.oldest", wide="How far a restore can go back"),
            Column("Time zone", ".spec.timeZone", wide="Time zone of the schedule"),
            Column("Last backup", ".status.lastSuccess", wide="The newest good backup"),
            Column("Message", ".status.message", wide="The state in one sentence"),
        ],
    )


def redisrestore_crd() -> Schema:
    """The definition of `RedisRestore`."""
    return _crd(
        RedisRestore,
        plural="redisrestores",
        namespaced=True,
        short="rdr",
        columns=[
            Column("Redis", ".spec.redis"),
            Column("Backup", ".status.backup"),
            Column("Phase", ".status.phase"),
            Column("Keys", ".status.keys", "integer"),
            Column("Kept", ".status.kept"),
            Column("Completed", ".status.completionTime", "date"),
            _AGE,
            Column("Location", ".status.location", wide="Where the backup is"),
            Column("Message", ".status.message", wide="The state in one sentence"),
        ],
    )


def redisoperator_crd() -> Schema:
    """The definition of `RedisOperator`, which the installer reconciles and not the operator."""
    return _crd(
        RedisOperator,
        plural="redisoperators",
        namespaced=False,
        short="rdo",
        columns=[
            Column("Version", ".status.observedVersion"),
            Column("Target", ".status.targetVersion"),
            Column("Phase", ".status.phase"),
            _AGE,
            Column("Message", ".status.message", wide="The state in one sentence"),
        ],
    )


def crds() -> dict[str, Schema]:
    """The definitions that an operator reconciles, by the names of their files."""
    return {
        "redis.yaml": redis_crd(),
        "redisversions.yaml": redis_version_crd(),
        "redisfailovers.yaml": redisfailover_crd(),
        "redisbackups.yaml": redisbackup_crd(),
        "redisbackupschedules.yaml": redisbackupschedule_crd(),
        "redisrestores.yaml": redisrestore_crd(),
    }
