"""Properties of pods that several controllers need: active, ready, available; new pods."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

import msgspec

from kubelocal.controllers.engine.view import (
    Obj,
    controller_reference,
    edited,
    parse_time,
)

__all__ = [
    "condition",
    "count_available",
    "is_active",
    "is_available",
    "is_deleting",
    "is_ready",
    "pod_from_template",
    "short_hash",
]

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def short_hash(value: Any) -> str:
    """Return ten characters that stand for a JSON value, safe in names and labels."""
    digest = int.from_bytes(
        hashlib.sha256(msgspec.json.encode(value, order="deterministic")).digest()
    )
    letters = []
    for _ in range(10):
        digest, index = divmod(digest, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return "".join(letters)


def condition(obj: Obj, kind: str) -> Obj | None:
    """Return one of the object's conditions by type."""
    for entry in obj.get("status", {}).get("conditions") or ():
        if entry["type"] == kind:
            return dict(entry)
    return None


def is_deleting(obj: Obj) -> bool:
    """Return whether the object is being deleted."""
    return "deletionTimestamp" in obj["metadata"]


def is_active(pod: Obj) -> bool:
    """Return whether a pod counts towards its controller's replicas."""
    phase = pod.get("status", {}).get("phase")
    return phase not in ("Succeeded", "Failed") and not is_deleting(pod)


def is_ready(pod: Obj) -> bool:
    """Return whether a pod's Ready condition is True."""
    ready = condition(pod, "Ready")
    return ready is not None and ready["status"] == "True"


def is_available(pod: Obj, min_ready_seconds: int, now: datetime) -> bool:
    """Return whether a pod has been ready for long enough."""
    ready = condition(pod, "Ready")
    if ready is None or ready["status"] != "True":
        return False
    if min_ready_seconds == 0:
        return True
    since = ready.get("lastTransitionTime")
    return since is not None and (now - parse_time(since)).total_seconds() >= min_ready_seconds


def count_available(pods: list[Obj], min_ready_seconds: int, now: datetime) -> int:
    """Count the pods that have been ready for long enough."""
    return sum(is_available(pod, min_ready_seconds, now) for pod in pods)


def pod_from_template(template: Obj, owner: Obj) -> Obj:
    """Return a pod made from a template, owned by the workload. The caller names it."""
    source = edited(template)
    metadata = source.get("metadata") or {}
    made: Obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": owner["metadata"]["namespace"],
            "labels": metadata.get("labels") or {},
            "ownerReferences": [controller_reference(owner)],
        },
        "spec": source["spec"],
    }
    for field in ("annotations", "finalizers"):
        if metadata.get(field):
            made["metadata"][field] = metadata[field]
    return made
