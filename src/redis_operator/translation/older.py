"""Convert manifests of older `RedisFailover` kinds, and list what could not be converted. Pure.

The fields of the newest of them are those of this operator's kind; older spellings are renamed
first. Then unsupported fields are removed, if the rest means the same without them. Fields that
change what runs, as the number of servers, are left for a person to decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, Final

from msgspec import Struct

from redis_operator.api.redisfailover_rules import REFUSED
from redis_operator.api.redisfailover_validation import redisfailover_schema
from redis_operator.api.schema import Schema
from redis_operator.api.shape import Problem
from redis_operator.api.validation import without_null

from .selectors import older_selectors
from .translate import FAILOVER_LABEL, translate

__all__ = ["OLDER", "Converted", "as_redis", "convert", "is_older"]

OLDER: Final = (
    "databases.spotahome.com/v1",
    "storage.spotahome.com/v1alpha2",
    "spotahome.com/v1alpha1",
)
"""The versions that are supported, newest first."""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_KEPT_METADATA: Final = ("name", "namespace", "labels", "annotations")
_STEP: Final = re.compile(r"\[(\d+)\]$")
_UNKNOWN: Final = "is not a field of RedisFailover"
_REMOVABLE: Final = (
    *(f"spec.{row.path}" for row in REFUSED),
    "spec.redis.customConfig[",
    "spec.sentinel.customConfig[",
    "spec.redis.customLivenessProbe.",
    "spec.redis.customReadinessProbe.",
    "spec.redis.customStartupProbe.",
    "spec.redis.containerSecurityContext.",
    "spec.redis.storage.emptyDir.",
    "spec.redis.storage.keepAfterDeletion",
    "spec.redis.storage.persistentVolumeClaim.metadata.annotations.",
    "spec.redis.storage.persistentVolumeClaim.spec.dataSource",
    "spec.redis.storage.persistentVolumeClaim.spec.selector",
    "spec.redis.storage.persistentVolumeClaim.spec.resources.limits.",
    "spec.sentinel.containerSecurityContext.",
    "spec.sentinel.image",
    "spec.sentinel.serviceAccountName",
    "spec.sentinel.serviceAnnotations.",
)
"""Prefixes of paths that are removed: without them the rest means the same."""


class Converted(Struct, frozen=True):
    """The converted manifest, what was removed, what a person must change, and what is
    different."""

    document: dict[str, Any]
    left_out: tuple[Problem, ...] = ()
    wrong: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether everything was converted and can be applied."""
        return not self.left_out and not self.wrong


def is_older(document: Any) -> bool:
    """Return whether a document is a `RedisFailover` of one of the older versions."""
    return (
        isinstance(document, dict)
        and document.get("kind") == "RedisFailover"
        and document.get("apiVersion") in OLDER
    )


def convert(document: dict[str, Any]) -> Converted:
    """Convert an older `RedisFailover`. Any content gives a result."""
    given = without_null(document)
    spec = given.get("spec") if isinstance(given.get("spec"), dict) else {}
    spec, renamed = _renamed(deepcopy(spec))
    left_out = list(renamed)
    schema = redisfailover_schema()["properties"]["spec"]
    left_out += _prune(spec, schema, "spec")
    metadata = _metadata(given.get("metadata"))
    changed = _with_our_labels(spec, str(metadata.get("name", "")))
    found: dict[str, Any] = {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "RedisFailover",
        "metadata": metadata,
        "spec": spec,
    }
    wrong: tuple[Problem, ...] = ()
    while True:
        result = translate(found)
        wrong = () if isinstance(result, dict) else result
        taken = [p for p in wrong if p.path.startswith(_REMOVABLE) and _take(found, p.path)]
        left_out += taken
        if not taken:
            break
    _without_blanks(found["spec"])
    return Converted(found, tuple(left_out), wrong, (*changed, *_notes(found)))


def as_redis(converted: Converted) -> Converted:
    """Return the `Redis` of a converted manifest, where there is one."""
    redis = translate(converted.document)
    if not isinstance(redis, dict):
        return converted
    labels = {n: v for n, v in redis["metadata"]["labels"].items() if n != FAILOVER_LABEL}
    metadata = {**redis["metadata"], "labels": labels}
    kept = {name: value for name, value in metadata.items() if value}
    return Converted({**redis, "metadata": kept}, converted.left_out, (), converted.notes)


def _metadata(given: Any) -> dict[str, Any]:
    metadata_given = given if isinstance(given, dict) else {}
    metadata = {name: metadata_given[name] for name in _KEPT_METADATA if name in metadata_given}
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        kept = {name: value for name, value in annotations.items() if name != _LAST_APPLIED}
        metadata["annotations"] = kept
    return {name: value for name, value in metadata.items() if value}


def _renamed(spec: dict[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Rename fields of older versions to those of the newest."""
    left_out = []
    redis = spec.get("redis")
    if isinstance(redis, dict):
        if isinstance(redis.get("exporter"), bool):
            redis["exporter"] = {"enabled": redis["exporter"]}
            image, tag = redis.pop("exporterImage", ""), redis.pop("exporterVersion", "")
            if image:
                redis["exporter"]["image"] = f"{image}:{tag}" if tag else image
            redis.pop("exporterProbes", None)
        image = str(redis.get("image", ""))
        tag = redis.pop("version", None)
        if tag is not None and ":" not in image.rpartition("/")[2]:
            redis["image"] = f"{image or 'redis'}:{tag}"
    near = spec.pop("nodeAffinity", None)
    both = {"affinity": {"nodeAffinity": near} if near else None}
    both |= {name: spec.pop(name, None) for name in ("tolerations", "securityContext")}
    for name, value in both.items():
        for part in ("redis", "sentinel") if value else ():
            settings = spec.setdefault(part, {})
            if isinstance(settings, dict):
                settings.setdefault(name, deepcopy(value))
    if spec.pop("hardAntiAffinity", False):
        text = "servers keep apart where they can; for always, say so in spec.redis.affinity"
        left_out.append(Problem("spec.hardAntiAffinity", text))
    return spec, left_out


def _with_our_labels(spec: dict[str, Any], name: str) -> list[str]:
    """Change selectors of the older operator's pods to the labels of this one; return the
    changes."""
    warnings = []
    for part in ("redis", "sentinel"):
        for found in older_selectors(_part(spec, part), f"spec.{part}", name):
            found.holder["labelSelector"] = {"matchLabels": found.ours}
            warnings.append(f"{found.path} picks the pods by the labels that they have now")
    return warnings


def _prune(value: Any, schema: Schema, path: str) -> Iterator[Problem]:
    """Remove fields that the kind does not have, and yield each."""
    properties = schema.get("properties")
    if isinstance(value, dict) and properties is not None:
        for name in list(value):
            if name in properties:
                yield from _prune(value[name], properties[name], f"{path}.{name}")
            elif not (name in ("apiVersion", "kind", "status") and "metadata" in properties):
                del value[name]
                yield Problem(f"{path}.{name}", _UNKNOWN)
            else:
                del value[name]  # of the template of a claim: they have no effect
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _prune(item, schema["items"], f"{path}[{index}]")


def _take(document: dict[str, Any], path: str) -> bool:
    """Remove a value by its path; a line becomes blank, so that others keep their index."""
    index = _STEP.search(path)
    place = path[: index.start()] if index else path
    above: Any = document
    while isinstance(above, dict):
        name = next((n for n in above if place == n or place.startswith(f"{n}.")), None)
        if name is None:
            return False
        if place == name:
            break
        above, place = above[name], place[len(name) + 1 :]
    else:
        return False
    if index is None:
        del above[place]
        return True
    lines, number = above[place], int(index[1])
    if not isinstance(lines, list) or number >= len(lines) or lines[number] == "":
        return False
    lines[number] = ""
    return True


def _without_blanks(spec: dict[str, Any]) -> None:
    for part in ("redis", "sentinel"):
        settings = spec.get(part)
        if isinstance(settings, dict) and isinstance(settings.get("customConfig"), list):
            settings["customConfig"] = [line for line in settings["customConfig"] if line != ""]


def _part(spec: dict[str, Any], name: str) -> dict[str, Any]:
    found = spec.get(name)
    return found if isinstance(found, dict) else {}


def _notes(document: dict[str, Any]) -> Iterable[str]:
    """Yield what is different although every field was converted."""
    spec = document["spec"]
    name = document["metadata"].get("name", "NAME")
    yield (
        f"clients connect to the Service {name} (the primary), {name}-replicas or "
        f"{name}-sentinel, and not to rfs-{name}; sentinels call the primary NAMESPACE.{name}, and "
        "not mymaster"
    )
    if not _part(spec, "auth").get("secretPath"):
        yield (
            "there is no spec.auth.secretPath: clients need the password that is generated, in "
            f"the Secret {name}-auth; before, there was none"
        )
    if not _part(spec, "redis").get("image"):
        yield (
            "there is no spec.redis.image: the newest Valkey that is built in runs; before, it was "
            "redis:6.2.6-alpine"
        )
