"""The CustomResourceDefinitions, made from the types. `tools/generate.py` writes them to files."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from .redis import Redis
from .redisfailover import RedisFailover
from .redisoperator import RedisOperator
from .schema import Schema, schema_of
from .version import RedisVersion

__all__ = [
    "GROUP",
    "VERSION",
    "crds",
    "redis_crd",
    "redis_version_crd",
    "redisfailover_crd",
    "redisoperator_crd",
]

GROUP = "redisoperator.dev"
VERSION = "v1"


def _column(name: str, path: str, kind: str = "string", *, wide: str = "") -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    if wide:
        column |= {"priority": 1, "description": wide}
    return column


def _crd(
    struct: type[Struct], *, plural: str, scope: str, short: list[str], version: dict[str, Any]
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
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": short,
                "categories": ["all", "redis-operator"]
                if scope == "Namespaced"
                else ["redis-operator"],
            },
            "scope": scope,
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    **version,
                    "schema": {"openAPIV3Schema": described},
                }
            ],
        },
    }


def redis_crd() -> Schema:
    """The definition of `Redis`."""
    return _crd(
        Redis,
        plural="redis",
        scope="Namespaced",
        short=["rd"],
        version={
            "additionalPrinterColumns": [
                _column("Mode", ".spec.mode"),
                _column("Engine", ".spec.engine"),
                _column("Version", ".status.version"),
                _column("Shards", ".status.shardCount", "integer"),
                _column("Replicas", ".status.replicas", "integer"),
                _column("Ready", ".status.ready"),
                _column("Phase", ".status.phase"),
                _column("Age", ".metadata.creationTimestamp", "date"),
                _column("Primary", ".status.primary", wide="Pods that are primaries"),
                _column("Slots", ".status.slots", wide="Slots that are served, of all"),
                _column("Memory", ".status.memory", wide="Memory that primaries use"),
                _column("Message", ".status.message", wide="The state in one sentence"),
            ],
            "subresources": {
                "status": {},
                "scale": {
                    "specReplicasPath": ".spec.shards",
                    "statusReplicasPath": ".status.shardCount",
                    "labelSelectorPath": ".status.selector",
                },
            },
        },
    )


def redis_version_crd() -> Schema:
    """The definition of `RedisVersion`."""
    return _crd(
        RedisVersion,
        plural="redisversions",
        scope="Cluster",
        short=["rdv"],
        version={
            "additionalPrinterColumns": [
                _column("Engine", ".spec.engine"),
                _column("Version", ".spec.version"),
                _column("Image", ".spec.image"),
                _column("Deprecated", ".spec.deprecated", "boolean"),
                _column("Age", ".metadata.creationTimestamp", "date"),
            ]
        },
    )


def redisfailover_crd() -> Schema:
    """The definition of `RedisFailover`."""
    return _crd(
        RedisFailover,
        plural="redisfailovers",
        scope="Namespaced",
        short=["rf"],
        version={
            "additionalPrinterColumns": [
                _column("Redis", ".spec.redis.replicas", "integer"),
                _column("Sentinels", ".spec.sentinel.replicas", "integer"),
                _column("Ready", ".status.ready"),
                _column("Phase", ".status.phase"),
                _column("Age", ".metadata.creationTimestamp", "date"),
                _column("Version", ".status.version", wide="Oldest version that runs"),
                _column("Primary", ".status.primary", wide="The pod of the primary"),
                _column("Message", ".status.message", wide="The state in one sentence"),
            ],
            "subresources": {"status": {}},
        },
    )


def redisoperator_crd() -> Schema:
    """The definition of `RedisOperator`, which the installer serves and not the operator."""
    return _crd(
        RedisOperator,
        plural="redisoperators",
        scope="Cluster",
        short=["rdo"],
        version={
            "additionalPrinterColumns": [
                _column("Version", ".status.observedVersion"),
                _column("Target", ".status.targetVersion"),
                _column("Phase", ".status.phase"),
                _column("Age", ".metadata.creationTimestamp", "date"),
                _column("Message", ".status.message", wide="The state in one sentence"),
            ],
            "subresources": {"status": {}},
        },
    )


def crds() -> dict[str, Schema]:
    """The definitions that an operator serves, by the names of their files."""
    return {
        "redis.yaml": redis_crd(),
        "redisversions.yaml": redis_version_crd(),
        "redisfailovers.yaml": redisfailover_crd(),
    }
