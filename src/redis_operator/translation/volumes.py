"""Where servers keep their data: in memory, or on a volume for each. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from redis_operator.api.redisfailover import ClaimTemplate, ServerStorage
from redis_operator.api.shape import Problem

from .piece import SpecPiece

__all__ = ["volumes"]

_EMPTY: Final = "is not followed: data is in memory, and the folder of a pod has no options"


def volumes(storage: ServerStorage, path: str) -> SpecPiece:
    """Return the storage of a `Redis`."""
    claim = storage.persistent_volume_claim
    problems = [Problem(f"{path}.emptyDir.{name}", _EMPTY) for name in storage.empty_dir or {}]
    if claim is None:
        if storage.keep_after_deletion:
            text = "there is no volume that could be kept: data is in memory; remove it"
            problems.append(Problem(f"{path}.keepAfterDeletion", text))
        return SpecPiece(problems=tuple(problems))
    place = f"{path}.persistentVolumeClaim"
    if storage.empty_dir is not None:
        problems.append(Problem(f"{path}.emptyDir", f"use it or {place}, not both"))
    problems += _claim_problems(claim, place)
    spec: dict[str, Any] = {"size": str(claim.spec.resources.requests.get("storage", ""))}
    if claim.spec.storage_class_name is not None:
        spec["className"] = claim.spec.storage_class_name
    if claim.spec.access_modes:
        spec["accessModes"] = list(claim.spec.access_modes)
    if claim.metadata.labels:
        spec["labels"] = dict(claim.metadata.labels)
    found: dict[str, Any] = {"storage": spec}
    if storage.keep_after_deletion:
        found["deletion"] = {"policy": "Retain"}
    return SpecPiece(spec=found, problems=tuple(problems))


def _claim_problems(claim: ClaimTemplate, path: str) -> Iterator[Problem]:
    asked = claim.spec
    if "storage" not in asked.resources.requests:
        yield Problem(f"{path}.spec.resources.requests.storage", "is required, like 10Gi")
    for place, amounts in (
        ("requests", asked.resources.requests),
        ("limits", asked.resources.limits),
    ):
        for name in amounts:
            if (place, name) != ("requests", "storage"):
                text = "a volume has one size: requests.storage; remove it"
                yield Problem(f"{path}.spec.resources.{place}.{name}", text)
    if asked.volume_mode not in ("", "Filesystem"):
        yield Problem(f"{path}.spec.volumeMode", "servers keep files; use Filesystem")
    for name, value in (("volumeName", asked.volume_name), ("selector", asked.selector)):
        if value:
            text = "each server has a volume of its own, made for it; remove it"
            yield Problem(f"{path}.spec.{name}", text)
    if asked.data_source:
        yield Problem(f"{path}.spec.dataSource", "servers begin with an empty volume; remove it")
    for name in claim.metadata.annotations:
        text = "claims are not given annotations; remove it"
        yield Problem(f"{path}.metadata.annotations.{name}", text)
