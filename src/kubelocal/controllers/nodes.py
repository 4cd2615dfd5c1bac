"""Node lifecycle: a node whose lease expires becomes unknown; its pods are marked, then evicted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from kubecontroller import with_condition
from kubelocal.controllers.engine.pods import condition, is_deleting
from kubelocal.controllers.engine.view import (
    Change,
    Changes,
    Delete,
    Obj,
    Update,
    UpdateStatus,
    View,
    edited,
    parse_time,
    timestamp,
)

__all__ = ["GRACE", "plan"]

GRACE = timedelta(seconds=50)
_NAMESPACE = "kube-node-lease"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_NOT_READY = "node.kubernetes.io/not-ready"
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


def plan(view: View, name: str, now: datetime, *, grace: timedelta = GRACE) -> Changes:
    """Return the changes to one node and its pods."""
    node = view.get("nodes", "", name)
    if node is None or is_deleting(node):
        return Changes()
    lease = view.get("leases", _NAMESPACE, name)
    renewed = (lease or {}).get("spec", {}).get("renewTime") if lease else None
    seen = parse_time(renewed or node["metadata"]["creationTimestamp"])
    silent = now - seen
    again = max(1.0, (grace - silent).total_seconds() + 0.1)
    steps = list(_conditions(node, now) if silent >= grace else ())
    ready = "Unknown" if silent >= grace else (condition(node, "Ready") or {}).get("status")
    steps += _taints(node, ready, now)
    if ready != "True":
        steps += _mark_pods(view, name, now)
        evictions, wait = _evict(view, node, now)
        steps += evictions
        again = min(again if silent < grace else 5.0, wait)
    return Changes(tuple(steps), again_after=again)


def _conditions(node: Obj, now: datetime) -> Iterator[Change]:
    old = (node.get("status") or {}).get("conditions") or []
    if all(c["status"] == "Unknown" for c in old) and old:
        return
    conditions = old
    for entry in old:
        unknown = {
            **entry,
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
        }
        conditions = with_condition(conditions, unknown, timestamp(now))
    yield UpdateStatus("nodes", {**node, "status": {**node["status"], "conditions": conditions}})


def _taints(node: Obj, ready: str | None, now: datetime) -> list[Change]:
    wanted = {"True": None, "Unknown": _UNREACHABLE}.get(ready or "", _NOT_READY)
    present = node["spec"].get("taints") or []
    ours = {_UNREACHABLE, _NOT_READY}
    kept = [t for t in present if t["key"] not in ours or t["key"] == wanted]
    missing = [
        effect
        for effect in ("NoSchedule", "NoExecute")
        if wanted and not any(t["key"] == wanted and t["effect"] == effect for t in kept)
    ]
    if not missing and len(kept) == len(present):
        return []
    changed = edited(node)
    changed["spec"]["taints"] = kept + [_taint(wanted, e, now) for e in missing]
    if not changed["spec"]["taints"]:
        del changed["spec"]["taints"]
    return [Update("nodes", changed)]


def _taint(key: str | None, effect: str, now: datetime) -> Obj:
    taint: Obj = {"key": key, "effect": effect}
    if effect == "NoExecute":
        taint["timeAdded"] = timestamp(now)
    return taint


def _on(view: View, node: str) -> list[Obj]:
    return [
        p
        for p in view.list("pods")
        if p["spec"].get("nodeName") == node
        and p.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    ]


def _mark_pods(view: View, node: str, now: datetime) -> list[Change]:
    """Mark the pods of an unresponsive node not ready: their state is unknown."""
    steps: list[Change] = []
    for pod in _on(view, node):
        ready = condition(pod, "Ready")
        if ready is None or ready["status"] != "True":
            continue
        unready = {**ready, "status": "False", "reason": "NodeNotReady"}
        conditions = with_condition(pod["status"]["conditions"], unready, timestamp(now))
        status = {**pod["status"], "conditions": conditions}
        steps.append(UpdateStatus("pods", {**pod, "status": status}))
    return steps


def _evict(view: View, node: Obj, now: datetime) -> tuple[list[Change], float]:
    """Delete pods that no longer tolerate the node's taints; return them and when to run again."""
    taints = [t for t in node["spec"].get("taints") or () if t["effect"] == "NoExecute"]
    steps: list[Change] = []
    wait = 5.0
    for pod in _on(view, node["metadata"]["name"]):
        forced = any(t["key"] == _OUT_OF_SERVICE for t in taints)
        left = min((_tolerated_for(pod, t, now) for t in taints), default=wait)
        metadata = pod["metadata"]
        if forced:
            steps.append(
                Delete("pods", metadata["namespace"], metadata["name"], metadata["uid"], 0)
            )
        elif left <= 0 and not is_deleting(pod):
            steps.append(Delete("pods", metadata["namespace"], metadata["name"], metadata["uid"]))
        else:
            wait = min(wait, max(0.1, left))
    return steps, wait


def _tolerated_for(pod: Obj, taint: Obj, now: datetime) -> float:
    """Return for how many more seconds a pod tolerates a NoExecute taint."""
    best = -1.0
    for toleration in pod["spec"].get("tolerations") or ():
        keys = toleration.get("key") in (None, "", taint["key"])
        effects = toleration.get("effect") in (None, "", taint["effect"])
        exists = toleration.get("operator") == "Exists"
        same = exists or toleration.get("value", "") == taint.get("value", "")
        if not (keys and effects and same):
            continue
        seconds = toleration.get("tolerationSeconds")
        if seconds is None:
            return float("inf")
        since = parse_time(taint["timeAdded"]) if taint.get("timeAdded") else now
        best = max(best, seconds - (now - since).total_seconds())
    return best
