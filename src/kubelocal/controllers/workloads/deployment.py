"""Deployment: replaces one ReplicaSet by the next, at a bounded rate, and keeps the old ones.

Every prefix of the steps keeps the bounds: never more than `replicas + maxSurge` pods, never fewer
than `replicas - maxUnavailable` available ones because of the controller.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from math import ceil, floor

from msgspec import Struct

from kubecontroller import with_condition
from kubelocal.controllers.engine.pods import condition, is_deleting, short_hash
from kubelocal.controllers.engine.view import (
    Change,
    Changes,
    Create,
    Delete,
    Obj,
    Update,
    UpdateStatus,
    View,
    controller_reference,
    edited,
    parse_time,
    timestamp,
)
from kubelocal.controllers.workloads.replicaset import claim

__all__ = ["plan"]

_REVISION = "deployment.kubernetes.io/revision"
_HASH = "pod-template-hash"


class _Deployment(Struct, frozen=True):
    obj: Obj
    new: Obj | None
    old: tuple[Obj, ...]
    pods: int

    @property
    def replicas(self) -> int:
        return int(self.obj["spec"].get("replicas", 1))

    @property
    def sets(self) -> tuple[Obj, ...]:
        return (*self.old, self.new) if self.new is not None else self.old

    @property
    def bounds(self) -> tuple[int, int]:
        """Return (maxSurge, maxUnavailable) in pods; never both zero."""
        rolling = (self.obj["spec"].get("strategy") or {}).get("rollingUpdate") or {}
        surge = _share(rolling.get("maxSurge", "25%"), self.replicas, rounding=ceil)
        unavailable = _share(rolling.get("maxUnavailable", "25%"), self.replicas, rounding=floor)
        return surge, unavailable if surge or unavailable else 1


def _share(value: int | str, total: int, *, rounding: Callable[[float], int]) -> int:
    if isinstance(value, int):
        return value
    return rounding(total * int(value.rstrip("%")) / 100)


def plan(view: View, namespace: str, name: str, now: datetime) -> Changes:
    """Return the changes to one Deployment."""
    found = view.get("deployments", namespace, name)
    if found is None or is_deleting(found):
        return Changes()
    sets, handover = claim(found, list(view.list("replicasets", namespace)), "replicasets")
    if handover:
        return Changes(tuple(handover))
    template = _bare(found["spec"]["template"])
    sets.sort(key=_age)
    new = next((s for s in sets if _bare(s["spec"]["template"]) == template), None)
    uids = {s["metadata"]["uid"] for s in sets}
    deployment = _Deployment(
        obj=found,
        new=new,
        old=tuple(s for s in sets if s is not new),
        pods=sum(1 for uid in uids for pod in view.owned("pods", uid) if not _is_finished(pod)),
    )
    steps = _progress(deployment)
    status = _status(deployment, now)
    if status != found.get("status"):
        steps.append(UpdateStatus("deployments", {**found, "status": status}))
    return Changes(tuple(steps), again_after=_deadline(found, status, now))


def _is_finished(pod: Obj) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _age(replicaset: Obj) -> tuple[str, str]:
    metadata = replicaset["metadata"]
    return metadata.get("creationTimestamp", ""), metadata["name"]


def _bare(template: Obj) -> Obj:
    """Return a template without the hash label, for comparison."""
    labels = dict((template.get("metadata") or {}).get("labels") or {})
    labels.pop(_HASH, None)
    metadata = {**(template.get("metadata") or {}), "labels": labels}
    metadata.pop("creationTimestamp", None)
    return {**template, "metadata": metadata}


def _progress(deployment: _Deployment) -> list[Change]:
    obj = deployment.obj
    if obj["spec"].get("paused"):
        return _scale_in_place(deployment)
    renumbered = _number(deployment)
    if renumbered:
        return renumbered
    if (obj["spec"].get("strategy") or {}).get("type") == "Recreate":
        steps = _recreate(deployment)
    else:
        steps = _roll(deployment)
    return steps or _forget(deployment)


def _revision(obj: Obj) -> int:
    return int((obj["metadata"].get("annotations") or {}).get(_REVISION, 0))


def _number(deployment: _Deployment) -> list[Change]:
    """Keep the newest set's revision the highest, and the Deployment's equal to it."""
    if deployment.new is None:
        return []
    highest = max((_revision(s) for s in deployment.old), default=0)
    wanted = max(_revision(deployment.new), highest + 1)
    changes: list[Change] = []
    for resource, obj in (("replicasets", deployment.new), ("deployments", deployment.obj)):
        if _revision(obj) != wanted:
            numbered = edited(obj)
            numbered["metadata"].setdefault("annotations", {})[_REVISION] = str(wanted)
            changes.append(Update(resource, numbered))
    return changes


def _scaled(replicaset: Obj, replicas: int) -> list[Change]:
    if replicaset["spec"].get("replicas", 1) == replicas:
        return []
    changed = edited(replicaset)
    changed["spec"]["replicas"] = replicas
    return [Update("replicasets", changed)]


def _scale_in_place(deployment: _Deployment) -> list[Change]:
    """Scale the newest set while the Deployment is paused."""
    living = [s for s in deployment.sets if s["spec"].get("replicas", 1)]
    return _scaled(living[0], deployment.replicas) if len(living) == 1 else []


def _recreate(deployment: _Deployment) -> list[Change]:
    doomed = [c for s in deployment.old for c in _scaled(s, 0)]
    if doomed:
        return doomed
    if deployment.new is None:
        busy = any(s.get("status", {}).get("replicas") for s in deployment.old)
        waits = busy or deployment.pods > 0
        return [] if waits else [_create(deployment, deployment.replicas)]
    return _scaled(deployment.new, deployment.replicas)


def _roll(deployment: _Deployment) -> list[Change]:
    surge, unavailable = deployment.bounds
    total = sum(s["spec"].get("replicas", 1) for s in deployment.sets)
    if deployment.new is None:
        room = deployment.replicas + surge - total
        return [_create(deployment, max(0, min(deployment.replicas, room)))]
    have = deployment.new["spec"].get("replicas", 1)
    if have != deployment.replicas:
        room = max(0, deployment.replicas + surge - total)
        wanted = (
            deployment.replicas if have > deployment.replicas else
            min(deployment.replicas, have + room)
        )  # fmt: skip
        grown = _scaled(deployment.new, wanted)
        if grown:
            return grown
    return _shrink(deployment, total=total, unavailable=unavailable)


def _shrink(deployment: _Deployment, *, total: int, unavailable: int) -> list[Change]:
    """Remove pods of old sets: unhealthy ones first, then as availability allows."""
    floor_available = deployment.replicas - unavailable
    assert deployment.new is not None
    status = deployment.new.get("status", {})
    waiting = deployment.new["spec"].get("replicas", 1) - status.get("availableReplicas", 0)
    spare = total - floor_available - waiting
    steps: list[Change] = []
    for old in deployment.old:
        replicas = old["spec"].get("replicas", 1)
        unhealthy = replicas - old.get("status", {}).get("availableReplicas", 0)
        drop = min(replicas, unhealthy, spare)
        if drop > 0:
            spare -= drop
            steps += _scaled(old, replicas - drop)
    if steps:
        return steps
    available = sum(s.get("status", {}).get("availableReplicas", 0) for s in deployment.sets)
    budget = available - floor_available
    for old in deployment.old:
        replicas = old["spec"].get("replicas", 1)
        drop = min(replicas, budget)
        if drop > 0:
            budget -= drop
            steps += _scaled(old, replicas - drop)
    return steps


def _create(deployment: _Deployment, replicas: int) -> Create:
    obj = deployment.obj
    template = _bare(obj["spec"]["template"])
    digest = short_hash([template, obj.get("status", {}).get("collisionCount") or 0])
    labels = {**template["metadata"]["labels"], _HASH: digest}
    revision = max((_revision(s) for s in deployment.old), default=0) + 1
    annotations = {
        k: v
        for k, v in (obj["metadata"].get("annotations") or {}).items()
        if k != "kubectl.kubernetes.io/last-applied-configuration"
    }
    selector = edited(obj["spec"]["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _HASH: digest}
    made: Obj = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{obj['metadata']['name']}-{digest}",
            "namespace": obj["metadata"]["namespace"],
            "labels": labels,
            "annotations": {**annotations, _REVISION: str(revision)},
            "ownerReferences": [controller_reference(obj)],
        },
        "spec": {
            "replicas": replicas,
            "selector": selector,
            "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
        },
    }
    if obj["spec"].get("minReadySeconds"):
        made["spec"]["minReadySeconds"] = obj["spec"]["minReadySeconds"]
    return Create("replicasets", made)


def _forget(deployment: _Deployment) -> list[Change]:
    """Delete the oldest idle sets beyond the history limit."""
    idle = [
        s
        for s in deployment.old
        if not s["spec"].get("replicas", 1) and not s.get("status", {}).get("replicas")
    ]
    idle.sort(key=_revision)
    surplus = len(idle) - int(deployment.obj["spec"].get("revisionHistoryLimit", 10))
    return [
        Delete(
            "replicasets",
            s["metadata"]["namespace"],
            s["metadata"]["name"],
            s["metadata"]["uid"],
        )
        for s in idle[: max(0, surplus)]
    ]


def _status(deployment: _Deployment, now: datetime) -> Obj:
    obj, spec = deployment.obj, deployment.obj["spec"]

    def total(field: str, sets: tuple[Obj, ...] = deployment.sets) -> int:
        return sum(s.get("status", {}).get(field, 0) for s in sets)

    available, replicas = total("availableReplicas"), total("replicas")
    new = (deployment.new,) if deployment.new is not None else ()
    counts = {
        "replicas": replicas,
        "updatedReplicas": total("replicas", new),
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(s["spec"].get("replicas", 1) for s in deployment.sets)
                                   - available),
    }  # fmt: skip
    _, unavailable = deployment.bounds
    enough = available >= spec.get("replicas", 1) - unavailable
    stamp = timestamp(now)
    conditions = with_condition(
        (obj.get("status") or {}).get("conditions") or [],
        _available_condition(obj, enough=enough, stamp=stamp),
        stamp,
    )
    done = (
        deployment.new is not None
        and counts["updatedReplicas"] == replicas == available == deployment.replicas
    )
    conditions = with_condition(
        conditions, _progressing(deployment, done=done, counts=counts, now=now), stamp
    )
    return {
        "observedGeneration": obj["metadata"].get("generation", 1),
        **{name: count for name, count in counts.items() if count},
        "conditions": conditions,
    }


def _available_condition(obj: Obj, *, enough: bool, stamp: str) -> Obj:
    made = (
        {"status": "True", "reason": "MinimumReplicasAvailable",
         "message": "Deployment has minimum availability."}
        if enough
        else {"status": "False", "reason": "MinimumReplicasUnavailable",
              "message": "Deployment does not have minimum availability."}
    )  # fmt: skip
    return _touched(obj, {"type": "Available", **made}, stamp)


def _touched(obj: Obj, made: Obj, stamp: str) -> Obj:
    """Set the update time of a condition: it changes only with the condition."""
    old = condition(obj, made["type"])
    same = old is not None and all(old.get(k) == v for k, v in made.items())
    return {**made, "lastUpdateTime": old.get("lastUpdateTime", stamp) if same and old else stamp}


def _progressing(deployment: _Deployment, *, done: bool, counts: Obj, now: datetime) -> Obj:
    obj, stamp = deployment.obj, timestamp(now)
    name = deployment.new["metadata"]["name"] if deployment.new is not None else ""
    if done:
        made = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
                "message": f'ReplicaSet "{name}" has successfully progressed.'}  # fmt: skip
        return _touched(obj, made, stamp)
    old = condition(obj, "Progressing")
    before = obj.get("status") or {}
    moved = any(
        counts[f] > before.get(f, 0)
        for f in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )
    limit = obj["spec"].get("progressDeadlineSeconds", 600)
    stale = (
        old is not None
        and not moved
        and old["reason"] != "NewReplicaSetAvailable"
        and (now - parse_time(old["lastUpdateTime"])).total_seconds() > limit
    )
    if stale or (old is not None and old["status"] == "False" and not moved):
        made = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
                "message": f'ReplicaSet "{name}" has timed out progressing.'}  # fmt: skip
        return _touched(obj, made, stamp)
    made = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated",
            "message": f'ReplicaSet "{name}" is progressing.'}  # fmt: skip
    return {**made, "lastUpdateTime": stamp} if moved else _touched(obj, made, stamp)


def _deadline(obj: Obj, status: Obj, now: datetime) -> float | None:
    """Return when progress would be overdue."""
    progressing = next((c for c in status["conditions"] if c["type"] == "Progressing"), None)
    if progressing is None or progressing["reason"] != "ReplicaSetUpdated":
        return None
    limit = float(obj["spec"].get("progressDeadlineSeconds", 600))
    return max(1.0, limit - (now - parse_time(progressing["lastUpdateTime"])).total_seconds() + 1)
