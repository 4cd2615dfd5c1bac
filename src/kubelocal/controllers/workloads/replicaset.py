"""ReplicaSet: a number of interchangeable pods of one template."""

from __future__ import annotations

from datetime import datetime

from kubelocal.controllers.engine.pods import (
    count_available,
    is_active,
    is_deleting,
    is_ready,
    pod_from_template,
)
from kubelocal.controllers.engine.view import (
    Change,
    Changes,
    Create,
    Delete,
    Obj,
    Update,
    UpdateStatus,
    View,
    controller_of,
    controller_reference,
    edited,
    labels_match,
)

__all__ = ["claim", "plan"]


def plan(view: View, namespace: str, name: str, now: datetime) -> Changes:
    """Return the changes to one ReplicaSet."""
    found = view.get("replicasets", namespace, name)
    if found is None or is_deleting(found):
        return Changes()
    members, handover = claim(found, list(view.list("pods", namespace)), "pods")
    if handover:
        return Changes(tuple(handover))
    active = [pod for pod in members if is_active(pod)]
    steps = _scale(found, active)
    status = _status(found, active, now)
    if status != found.get("status"):
        steps.append(UpdateStatus("replicasets", {**found, "status": status}))
    waiting = found["spec"].get("minReadySeconds") and any(is_ready(p) for p in active)
    return Changes(tuple(steps), again_after=1.0 if waiting else None)


def claim(owner: Obj, candidates: list[Obj], resource: str) -> tuple[list[Obj], list[Change]]:
    """Return the objects of an owner, and the changes that adopt orphans and release others."""
    uid, selector = owner["metadata"]["uid"], owner["spec"]["selector"]
    members, changes = [], list[Change]()
    for candidate in candidates:
        controller = controller_of(candidate)
        fits = labels_match(selector, candidate["metadata"].get("labels"))
        if controller is None and fits and not is_deleting(candidate):
            adopted = edited(candidate)
            references = adopted["metadata"].setdefault("ownerReferences", [])
            references.append(controller_reference(owner))
            changes.append(Update(resource, adopted))
        elif controller is not None and controller["uid"] == uid:
            if fits:
                members.append(candidate)
                continue
            released = edited(candidate)
            released["metadata"]["ownerReferences"] = [
                r for r in released["metadata"]["ownerReferences"] if r["uid"] != uid
            ]
            changes.append(Update(resource, released))
    return members, changes


def _scale(owner: Obj, active: list[Obj]) -> list[Change]:
    missing = owner["spec"].get("replicas", 1) - len(active)
    if missing > 0:
        return [Create("pods", _pod(owner)) for _ in range(missing)]
    doomed = sorted(active, key=_worth)[: max(0, -missing)]
    return [
        Delete("pods", p["metadata"]["namespace"], p["metadata"]["name"], p["metadata"]["uid"])
        for p in doomed
    ]


def _worth(pod: Obj) -> tuple[bool, int, bool, str]:
    """Order pods for deletion: unbound, not running, not ready, youngest first."""
    phases = {"Pending": 0, "Unknown": 1, "Running": 2}
    status = pod.get("status", {})
    born = pod["metadata"].get("creationTimestamp", "")
    return (
        bool(pod["spec"].get("nodeName")),
        phases.get(status.get("phase", "Pending"), 0),
        is_ready(pod),
        "".join(chr(0x10FFFF - ord(c)) for c in born),
    )


def _pod(owner: Obj) -> Obj:
    pod = pod_from_template(owner["spec"]["template"], owner)
    pod["metadata"]["generateName"] = f"{owner['metadata']['name']}-"
    return pod


def _status(owner: Obj, active: list[Obj], now: datetime) -> Obj:
    wanted = owner["spec"]["template"].get("metadata", {}).get("labels") or {}
    labelled = [
        pod for pod in active if wanted.items() <= (pod["metadata"].get("labels") or {}).items()
    ]
    counts = {
        "fullyLabeledReplicas": len(labelled),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": count_available(
            active, owner["spec"].get("minReadySeconds") or 0, now
        ),
    }
    return {
        "replicas": len(active),
        **{name: count for name, count in counts.items() if count},
        "observedGeneration": owner["metadata"].get("generation", 1),
    }
