"""PodDisruptionBudget: how many pods may be evicted right now, kept in its status."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import ceil

from kubecontroller import with_condition
from kubelocal.controllers.engine.pods import is_deleting, is_ready
from kubelocal.controllers.engine.view import (
    Changes,
    Obj,
    UpdateStatus,
    View,
    controller_of,
    labels_match,
    parse_time,
    timestamp,
)

__all__ = ["plan"]

_EVICTION_LASTS = timedelta(minutes=2)


def plan(view: View, namespace: str, name: str, now: datetime) -> Changes:
    """Return the changes to the status of one budget."""
    budget = view.get("poddisruptionbudgets", namespace, name)
    if budget is None or is_deleting(budget):
        return Changes()
    selector = budget["spec"].get("selector")
    pods = [
        pod
        for pod in view.list("pods", namespace)
        if labels_match(selector, pod["metadata"].get("labels"))
        and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    ]
    expected, desired = _expected(view, budget, pods)
    evicted = _recently_evicted(budget, pods, now)
    healthy = sum(
        is_ready(p) and not is_deleting(p) and p["metadata"]["name"] not in evicted for p in pods
    )
    allowed = max(0, healthy - desired) if expected > 0 else 0
    stamp = timestamp(now)
    generation = budget["metadata"].get("generation", 1)
    made = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": generation,
    }
    status: Obj = {
        "observedGeneration": generation,
        "expectedPods": expected,
        "desiredHealthy": desired,
        "currentHealthy": healthy,
        "disruptionsAllowed": allowed,
        "conditions": with_condition(
            (budget.get("status") or {}).get("conditions") or [], made, stamp
        ),
    }
    if evicted:
        status["disruptedPods"] = evicted
    again = _EVICTION_LASTS.total_seconds() if evicted else None
    if status == budget.get("status"):
        return Changes(again_after=again)
    steps = (UpdateStatus("poddisruptionbudgets", {**budget, "status": status}),)
    return Changes(steps, again_after=again)


def _recently_evicted(budget: Obj, pods: list[Obj], now: datetime) -> Obj:
    """Keep the evictions that were granted but are not seen as deletions yet."""
    standing = {p["metadata"]["name"] for p in pods if not is_deleting(p)}
    return {
        name: since
        for name, since in ((budget.get("status") or {}).get("disruptedPods") or {}).items()
        if name in standing and now - parse_time(since) < _EVICTION_LASTS
    }


def _expected(view: View, budget: Obj, pods: list[Obj]) -> tuple[int, int]:
    """Return (expected pods, pods that must stay healthy)."""
    spec = budget["spec"]
    if "maxUnavailable" in spec:
        expected = _scale_of(view, pods)
        return expected, max(0, expected - _rounded_up(spec["maxUnavailable"], expected))
    minimum = spec.get("minAvailable", 0)
    if isinstance(minimum, int):
        return len(pods), minimum
    expected = _scale_of(view, pods)
    return expected, _rounded_up(minimum, expected)


def _rounded_up(value: int | str, total: int) -> int:
    return value if isinstance(value, int) else ceil(total * int(value.rstrip("%")) / 100)


def _scale_of(view: View, pods: list[Obj]) -> int:
    """Return how many pods the workloads of these pods should have."""
    wanted: dict[str, int] = {}
    for pod in pods:
        owner = _workload(view, pod)
        if owner is not None:
            wanted[owner["metadata"]["uid"]] = int(owner["spec"].get("replicas", 1))
    return sum(wanted.values())


def _workload(view: View, pod: Obj) -> Obj | None:
    resources = {"StatefulSet": "statefulsets", "ReplicaSet": "replicasets"}
    reference = controller_of(pod)
    if reference is None or reference["kind"] not in resources:
        return None
    namespace = pod["metadata"]["namespace"]
    owner = view.get(resources[reference["kind"]], namespace, reference["name"])
    if owner is not None and owner["kind"] == "ReplicaSet":
        above = controller_of(owner)
        if above is not None and above["kind"] == "Deployment":
            return view.get("deployments", namespace, above["name"]) or owner
    return owner
