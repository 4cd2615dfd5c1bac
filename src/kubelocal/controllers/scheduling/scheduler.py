"""The scheduler: which node a pod is bound to, or why none fits.

Filters in the order Kubernetes reports them, then the least loaded node with the best spread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from kubecontroller import with_condition
from kubelocal.apiserver.kinds.quantities import amount
from kubelocal.controllers.engine.pods import condition, is_deleting
from kubelocal.controllers.engine.view import (
    Bind,
    Changes,
    Create,
    Obj,
    UpdateStatus,
    View,
    timestamp,
)
from kubelocal.controllers.scheduling.affinity import (
    Placed,
    affinity_limitation,
    node_affinity_holds,
    preference,
    spread_limitation,
)

__all__ = ["plan"]

_NAME = "default-scheduler"


class _Node(Struct, frozen=True):
    obj: Obj
    pods: tuple[Obj, ...]

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    def free(self, resource: str) -> float:
        total = amount((self.obj["status"].get("allocatable") or {}).get(resource, 0))
        if resource == "pods":
            return total - len(self.pods)
        return total - sum(_request(p, resource) for p in self.pods)


def _request(pod: Obj, resource: str) -> float:
    """Return a pod's request of a resource: its containers together, or its largest init one."""

    def asked(container: Obj) -> float:
        requests = (container.get("resources") or {}).get("requests") or {}
        return amount(requests.get(resource, 0))

    spec = pod["spec"]
    running = sum(asked(c) for c in spec["containers"])
    starting = [asked(c) for c in spec.get("initContainers") or ()]
    return max([running, *starting])


def plan(view: View, namespace: str, name: str, now: datetime) -> Changes:
    """Return the binding of one pod, or the condition that says why it cannot be scheduled."""
    pod = view.get("pods", namespace, name)
    if pod is None or is_deleting(pod) or pod["spec"].get("nodeName"):
        return Changes()
    if pod["spec"].get("schedulerName", _NAME) != _NAME:
        return Changes()
    if pod["spec"].get("schedulingGates"):
        return _refused(pod, "Scheduling is blocked due to non-empty scheduling gates", now)
    placed = [
        p
        for p in view.list("pods")
        if p["spec"].get("nodeName")
        and p.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    ]
    nodes = [
        _Node(n, tuple(p for p in placed if p["spec"]["nodeName"] == n["metadata"]["name"]))
        for n in sorted(view.list("nodes"), key=lambda n: str(n["metadata"]["name"]))
    ]
    unbound = _unbound_claim(view, pod)
    if unbound is not None:
        return _refused(pod, unbound, now)
    cluster = Placed.of([n.obj for n in nodes], placed)
    reasons: Counter[str] = Counter()
    fitting: list[_Node] = []
    for node in nodes:
        why = _limitation(pod, node, cluster)
        if why is None:
            fitting.append(node)
        else:
            reasons[why] += 1
    if not fitting:
        return _refused(pod, _explain(len(nodes), reasons), now)
    best = max(fitting, key=lambda n: _score(pod, n, cluster))
    return Changes((Bind(namespace, name, pod["metadata"]["uid"], best.name),))


def _limitation(pod: Obj, node: _Node, cluster: Placed) -> str | None:
    """Return why a node does not fit a pod, or None."""
    spec, obj = pod["spec"], node.obj
    if obj["spec"].get("unschedulable") and not _tolerates_all(
        spec, [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    ):
        return "node(s) were unschedulable"
    taints = [t for t in obj["spec"].get("taints") or () if t["effect"] != "PreferNoSchedule"]
    untolerated = [t for t in taints if not _tolerates_all(spec, [t])]
    if untolerated:
        taint = untolerated[0]
        return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    labels = obj["metadata"].get("labels") or {}
    wanted = spec.get("nodeSelector") or {}
    if not wanted.items() <= labels.items() or not node_affinity_holds(spec, obj):
        return "node(s) didn't match Pod's node affinity/selector"
    for resource, said in (
        ("pods", "Too many pods"),
        ("cpu", "Insufficient cpu"),
        ("memory", "Insufficient memory"),
    ):
        need = 1.0 if resource == "pods" else _request(pod, resource)
        if need and need > node.free(resource) + 1e-9:
            return said
    return affinity_limitation(pod, obj, cluster) or spread_limitation(pod, obj, cluster)


def _tolerates_all(spec: Obj, taints: Sequence[Obj]) -> bool:
    return all(
        any(_tolerates(toleration, taint) for toleration in spec.get("tolerations") or ())
        for taint in taints
    )


def _tolerates(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    exists = toleration.get("operator") == "Exists"
    if not toleration.get("key"):
        return exists
    same = toleration["key"] == taint["key"]
    return same and (exists or toleration.get("value", "") == taint.get("value", ""))


def _unbound_claim(view: View, pod: Obj) -> str | None:
    for volume in pod["spec"].get("volumes") or ():
        reference = volume.get("persistentVolumeClaim")
        if reference is None:
            continue
        claim = view.get(
            "persistentvolumeclaims", pod["metadata"]["namespace"], reference["claimName"]
        )
        if claim is None:
            return f'persistentvolumeclaim "{reference["claimName"]}" not found'
        if is_deleting(claim):
            return f'persistentvolumeclaim "{reference["claimName"]}" is being deleted'
        if (claim.get("status") or {}).get("phase") != "Bound":
            return "pod has unbound immediate PersistentVolumeClaims"
    return None


def _explain(nodes: int, reasons: Counter[str]) -> str:
    if not nodes:
        return "no nodes available to schedule pods"
    parts = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items()))
    return f"0/{nodes} nodes are available: {parts}."


def _refused(pod: Obj, message: str, now: datetime) -> Changes:
    old = condition(pod, "PodScheduled")
    if old is not None and old.get("message") == message and old["status"] == "False":
        return Changes()
    gated = message.startswith("Scheduling is blocked")
    made = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated" if gated else "Unschedulable",
        "message": message,
        "lastProbeTime": None,
    }
    status = pod.get("status") or {}
    conditions = with_condition(status.get("conditions") or [], made, timestamp(now))
    update = UpdateStatus("pods", {**pod, "status": {**status, "conditions": conditions}})
    return Changes((update,) if gated else (update, _event(pod, message, timestamp(now))))


def _event(pod: Obj, message: str, stamp: str) -> Create:
    metadata = pod["metadata"]
    about = {
        "apiVersion": "v1",
        "kind": "Pod",
        **{name: metadata[name] for name in ("namespace", "name", "uid", "resourceVersion")},
    }
    event: Obj = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
        "involvedObject": about,
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": message,
        "source": {"component": _NAME},
        "reportingComponent": _NAME,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
    return Create("events", event)


def _score(pod: Obj, node: _Node, cluster: Placed) -> tuple[float, float, float]:
    """Order fitting nodes: preferences first, then spread of pods, then free memory."""
    return (
        preference(pod, node.obj, cluster),
        -float(len(node.pods)),
        node.free("memory"),
    )
