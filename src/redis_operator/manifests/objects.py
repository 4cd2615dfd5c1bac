"""What all objects have in common: metadata, owner, and the hash of the desired state. Pure."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from redis_operator.api.redis import Redis

from .names import INTENT_ANNOTATION, common_labels

__all__ = ["Object", "digest", "encode_data", "make", "stamp"]

Object: TypeAlias = dict[str, Any]


def digest(value: object) -> str:
    """Return a short hash of any JSON value; the order of keys does not matter."""
    canonical = msgspec.json.encode(value, order="deterministic")
    return hashlib.sha256(canonical).hexdigest()[:16]


def make(
    redis: Redis,
    kind: str,
    name: str,
    body: Mapping[str, Any],
    *,
    api_version: str = "v1",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """Return an object owned by the database, so that it is deleted with the database."""
    metadata: Object = {
        "name": name,
        "namespace": redis.metadata.namespace,
        "labels": common_labels(redis.metadata.name) | dict(labels or {}),
        "ownerReferences": [
            {
                "apiVersion": redis.api_version,
                "kind": redis.kind,
                "name": redis.metadata.name,
                "uid": redis.metadata.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


def stamp(document: Object) -> Object:
    """Return the object with a hash of its desired state: nothing is sent while that is equal."""
    metadata = dict(document["metadata"])
    annotations = dict(metadata.get("annotations", {}))
    annotations[INTENT_ANNOTATION] = digest(document)
    metadata["annotations"] = annotations
    return {**document, "metadata": metadata}


def encode_data(values: Mapping[str, str]) -> dict[str, str]:
    """The data of a Secret."""
    return {name: base64.b64encode(value.encode()).decode() for name, value in values.items()}
