"""Deletion: finalizers, grace periods, propagation and preconditions.

`decide` is pure: from an object and the options of a deletion to its next state. The same decision
serves a client's DELETE, a deleted collection, and a terminating namespace or CRD.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypeAlias

from msgspec import Struct

from kubelocal.apiserver.causes import Cause
from kubelocal.apiserver.errors import StatusError, conflict, invalid
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.objects.metadata import timestamp
from kubelocal.apiserver.storage.entries import Object

__all__ = [
    "FOREGROUND",
    "ORPHAN",
    "Keep",
    "Mark",
    "Options",
    "Remove",
    "check_preconditions",
    "decide",
    "is_finished",
    "read_options",
]

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


class Options(Struct, frozen=True):
    """The options of a deletion."""

    grace: int | None = None
    propagation: str = ""
    uid: str = ""
    version: str = ""


class Mark(Struct, frozen=True):
    """The object stays, terminating, until its finalizers are removed or its grace period ends."""

    value: Object


class Remove(Struct, frozen=True):
    """The object is deleted now."""

    value: Object


class Keep(Struct, frozen=True):
    """Nothing changes: the object is being deleted already."""

    value: Object


Decision: TypeAlias = Mark | Remove | Keep


def read_options(body: Object, query: dict[str, str]) -> tuple[Options, str]:
    """Return the options of a deletion from its body, or else its query, and its dryRun."""
    if not body:
        body = dict(query)
        if query.get("gracePeriodSeconds", "").lstrip("-").isdecimal():
            body["gracePeriodSeconds"] = int(query["gracePeriodSeconds"])
        if "orphanDependents" in query:
            body["orphanDependents"] = query["orphanDependents"] == "true"
        body["dryRun"] = [query["dryRun"]] if query.get("dryRun") else []
    propagation = body.get("propagationPolicy") or ""
    orphan = body.get("orphanDependents")
    if orphan is not None and propagation:
        raise _bad_option(
            "propagationPolicy",
            "Invalid value",
            propagation,
            "orphanDependents and deletionPropagation cannot be both set",
        )
    if propagation not in {"", "Foreground", "Background", "Orphan"}:
        raise _bad_option(
            "propagationPolicy",
            "Unsupported value",
            propagation,
            'supported values: "Foreground", "Background", "Orphan", "nil"',
        )
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    conditions = body.get("preconditions") or {}
    dry = body.get("dryRun") or []
    options = Options(
        grace=body.get("gracePeriodSeconds"),
        propagation=propagation,
        uid=conditions.get("uid") or "",
        version=conditions.get("resourceVersion") or "",
    )
    return options, dry[0] if dry else ""


def _bad_option(field: str, title: str, value: str, text: str) -> StatusError:
    reason = "FieldValueNotSupported" if title.startswith("Unsupported") else "FieldValueInvalid"
    cause = Cause(field, reason, f'{title}: "{value}": {text}')
    return invalid("meta.k8s.io", "DeleteOptions", "", [cause])


def check_preconditions(resource: Resource, value: Object, options: Options) -> None:
    """Refuse to delete an object that does not match the preconditions."""
    metadata = value["metadata"]
    if options.uid and options.uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record"
            f" ({metadata['uid']}). The object might have been deleted and then recreated"
        )
        raise conflict(resource.group, resource.kind, metadata["name"], why)
    if options.version and options.version != metadata["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the"
            f" ResourceVersion in record ({metadata['resourceVersion']}). The object might have"
            " been modified"
        )
        raise conflict(resource.group, resource.kind, metadata["name"], why)


def decide(resource: Resource, value: Object, options: Options, now: datetime) -> Decision:
    """Return what a deletion does to an object; changes the object."""
    metadata = value["metadata"]
    was_deleting = metadata.get("deletionTimestamp") is not None
    changed = _set_propagation(metadata, options.propagation or _usual(resource))
    grace = _grace(resource, value, options)
    has_finalizers = bool(metadata.get("finalizers")) or _namespace_finalizers(resource, value)
    if grace == 0 and not has_finalizers:
        if not was_deleting:
            _stamp(metadata, now, 0)
        return Remove(value)
    if was_deleting:
        before = metadata.get("deletionGracePeriodSeconds") or 0
        if grace < before:
            start = _instant(metadata["deletionTimestamp"]) - timedelta(seconds=before)
            _stamp(metadata, start, grace)
            return Mark(value)
        return Mark(value) if changed else Keep(value)
    _stamp(metadata, now, grace)
    if metadata.get("generation"):
        metadata["generation"] += 1
    if resource.key == "namespaces":
        value["status"] = (value.get("status") or {}) | {"phase": "Terminating"}
    return Mark(value)


def _stamp(metadata: dict[str, Any], start: datetime, grace: int) -> None:
    metadata["deletionTimestamp"] = timestamp(start + timedelta(seconds=grace))
    metadata["deletionGracePeriodSeconds"] = grace


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _namespace_finalizers(resource: Resource, value: Object) -> bool:
    return resource.key == "namespaces" and bool((value.get("spec") or {}).get("finalizers"))


def _grace(resource: Resource, value: Object, options: Options) -> int:
    if resource.key != "pods":
        return 0
    spec, status = value.get("spec") or {}, value.get("status") or {}
    wanted: int = spec.get("terminationGracePeriodSeconds", 30)
    if options.grace is not None:
        wanted = options.grace
    if not spec.get("nodeName") or status.get("phase") in {"Failed", "Succeeded"}:
        return 0
    return max(wanted, 1) if wanted < 0 else wanted


def _usual(resource: Resource) -> str:
    """Return the default propagation to dependents; Jobs orphan their pods."""
    return "Orphan" if resource.key == "jobs.batch" else ""


def _set_propagation(metadata: dict[str, Any], propagation: str) -> bool:
    if not propagation:
        return False
    before = list(metadata.get("finalizers") or ())
    kept = [name for name in before if name not in {ORPHAN, FOREGROUND}]
    if propagation == "Orphan":
        kept.append(ORPHAN)
    elif propagation == "Foreground":
        kept.append(FOREGROUND)
    if kept:
        metadata["finalizers"] = kept
    else:
        metadata.pop("finalizers", None)
    return sorted(kept) != sorted(before)


def is_finished(value: Object) -> bool:
    """Return whether a terminating object has nothing left to wait for."""
    metadata = value["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if value.get("kind") == "Namespace" and (value.get("spec") or {}).get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")
